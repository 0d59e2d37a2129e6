//! A user who continues to change the resources of all four domains while Weft is upgraded.

use std::sync::atomic::{AtomicBool, Ordering};

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use weft_plan::{Kind, kinds};

use crate::upgrade::{harness::*, node_network::agents::*, populated::*, site};

/// Rounds of changes after the new operator has taken the lead, at least.
const ROUNDS_AFTER: u64 = 6;

/// The last things that the stream asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    round: u64,
    /// The last round before the new operator took the lead. No later round changes what only such
    /// rounds change, so none makes up for a change that the new operator has lost.
    early: u64,
}

/// Changes everything, round by round, until `done` and some rounds more, in which the policy br2
/// stays as it is. Each change must succeed.
pub async fn run(cluster: &Cluster, done: &AtomicBool) -> Asked {
    let mut asked = Asked { round: 0, early: 0 };
    let mut left = ROUNDS_AFTER;
    while left > 0 {
        let is_done = done.load(Ordering::Relaxed);
        if is_done {
            left -= 1;
        }
        asked.round += 1;
        if !is_done || asked.early == 0 {
            asked.early = asked.round;
        }
        // It ends with the component there.
        let is_off = left % 2 == 1 && left > 0;
        asked.write(cluster, is_off).await;
    }
    asked
}

impl Asked {
    fn network(self) -> String {
        format!("stream-{}", self.round)
    }

    /// The policies, in each version that is served, and the round that changed each of them last.
    fn policies(self) -> [(&'static str, &'static str, u64); 2] {
        [("v1", "br1", self.round), ("v1beta1", "br2", self.early)]
    }

    fn replicas(self) -> u64 {
        REPLICAS + self.round % 2
    }

    fn unavailable(self) -> String {
        format!("{}%", 50 + self.round % 50)
    }

    async fn write(self, cluster: &Cluster, is_off: bool) {
        let component = if is_off { Value::Null } else { json!({}) };
        cluster
            .patch_resource(json!({"spec": {"macvtap": component}}))
            .await;
        cluster.apply(&network_config(&self.network())).await;
        cluster
            .patch(
                kinds::NMSTATE,
                "",
                "nmstate",
                json!({"spec": {"maxUnavailable": self.unavailable()}}),
            )
            .await;
        for (version, name, round) in self.policies() {
            if round != self.round {
                continue;
            }
            let policy: Value = serde_json::from_str(&policy(version, name, mtu(round))).unwrap();
            let patch = json!({"spec": policy["spec"]});
            of_version(cluster, kinds::NODE_NETWORK_CONFIGURATION_POLICY, version)
                .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .unwrap();
        }
        cluster
            .patch(
                kinds::PLACEMENT_API,
                OPENSTACK,
                site::NAME,
                json!({"spec": {"replicas": self.replicas()}}),
            )
            .await;
    }

    /// Waits until everything that was asked for last is carried out.
    pub async fn wait(self, cluster: &Cluster) {
        let site = site::Site {
            cluster,
            namespace: OPENSTACK.to_owned(),
        };
        cluster.wait_available().await;
        wait_resource(cluster, kinds::NETWORK_CONFIG, "", "default").await;
        wait_resource(cluster, kinds::NMSTATE, "", "nmstate").await;
        let agents = Agents::of(cluster, &NODES).await;
        for name in ["br1", "br2", "still"] {
            wait_policy(cluster, &agents, name).await;
        }
        play_multus(&site, self.replicas()).await;
        site.wait_ready().await;
        self.assert_done(cluster).await;
    }

    async fn assert_done(self, cluster: &Cluster) {
        let get = async |kind: Kind, namespace: &str, name: &str| {
            cluster
                .get(kind, namespace, name)
                .await
                .unwrap_or_else(|| panic!("{kind} {namespace}/{name} is not there"))
        };
        let definitions = cluster
            .api(kinds::NETWORK_ATTACHMENT_DEFINITION, "default")
            .list(&Default::default())
            .await
            .unwrap();
        let names: Vec<_> = definitions
            .items
            .into_iter()
            .filter_map(|one| one.metadata.name)
            .collect();
        assert_eq!(
            names,
            [self.network()],
            "the last network of the NetworkConfig is lost"
        );
        let nmstate = get(kinds::NMSTATE, "", "nmstate").await;
        assert_eq!(
            nmstate["spec"]["maxUnavailable"],
            self.unavailable(),
            "the last change of the NMState is lost"
        );
        for (_, policy, round) in self.policies() {
            for node in NODES {
                let enactment = enactment(cluster, node, policy).await.unwrap();
                let granted = &enactment["spec"]["granted"]["spec"];
                assert_eq!(
                    granted["desiredState"]["interfaces"][0]["mtu"],
                    mtu(round),
                    "the last change of policy {policy} is lost on {node}: {granted:#}"
                );
            }
        }
        let deployment = get(kinds::DEPLOYMENT, OPENSTACK, site::NAME).await;
        assert_eq!(
            deployment["spec"]["replicas"],
            self.replicas(),
            "the last change of the PlacementAPI is lost"
        );
        get(kinds::DAEMON_SET, NAMESPACE, "macvtap-cni").await;
    }
}

fn mtu(round: u64) -> u64 {
    1400 + round % 100
}

/// A kind without namespaces in another version.
pub fn of_version(cluster: &Cluster, kind: Kind, version: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(kind.group, version, kind.kind),
        kind.plural,
    );
    Api::all_with(cluster.control_plane.client(), &resource)
}
