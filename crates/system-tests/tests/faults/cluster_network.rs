//! The operator of the cluster's network is killed at its writes while the network is installed,
//! changed by force, replaced and removed.

use std::time::Duration;

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::{
    Victim,
    proxy::{Match, Proxy, When},
};

use weft_system_tests::*;

const NAMESPACE: &str = "openshift-cluster-network-operator";
const USER: &str =
    "system:serviceaccount:openshift-cluster-network-operator:cluster-network-operator";
const RECORD: &str = "applied-default";

/// A change of the network, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Install,
    /// An unsafe change, by deleting the record.
    Force,
    /// Another type of network, by force, too: the old one goes, and kube-proxy comes.
    Replace,
    Remove,
}

pub const STEPS: [Step; 4] = [Step::Install, Step::Force, Step::Replace, Step::Remove];

impl Step {
    pub async fn begin(self, cluster: &Cluster) {
        let force = ["-n", NAMESPACE, "delete", "configmap", RECORD];
        match self {
            Self::Install => {
                let spec = json!({
                    "serviceNetwork": "172.30.0.0/16",
                    "clusterNetworks": [{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}],
                    "defaultNetwork": {"type": "OpenShiftSDN"}
                });
                let resource = json!({
                    "apiVersion": "networkoperator.openshift.io/v1", "kind": "NetworkConfig",
                    "metadata": {"name": "default"}, "spec": spec
                });
                cluster.apply(&resource.to_string()).await;
            }
            Self::Force => {
                cluster.kubectl(&force).await;
                cluster
                    .patch_resource(json!({
                        "spec": {"defaultNetwork": {"openshiftSDNConfig": {"vxlanPort": 4790}}}
                    }))
                    .await;
            }
            Self::Replace => {
                cluster.kubectl(&force).await;
                cluster
                    .patch_resource(json!({
                        "spec": {"defaultNetwork": {"type": "None", "openshiftSDNConfig": null}}
                    }))
                    .await;
            }
            Self::Remove => {
                cluster
                    .patch_resource(
                        json!({"metadata": {"annotations": {"weft.network/remove": "None"}}}),
                    )
                    .await;
                cluster.delete(kinds::NETWORK_CONFIG, "", "default").await;
            }
        }
    }

    pub async fn finish(self, cluster: &Cluster) {
        if self != Self::Remove {
            let resource = cluster.wait_available().await;
            wait_until("the record is that of what is in force", async || {
                let record = cluster
                    .get(kinds::CONFIG_MAP, NAMESPACE, RECORD)
                    .await
                    .ok_or("there is none")?;
                let applied: serde_json::Value =
                    serde_json::from_str(record["data"]["applied"].as_str().unwrap()).unwrap();
                let mut in_force = resource["status"]["effectiveConfiguration"].clone();
                // The original knows no default of it, so its record has none.
                if let Some(sdn) = in_force
                    .pointer_mut("/defaultNetwork/openshiftSDNConfig")
                    .and_then(serde_json::Value::as_object_mut)
                {
                    sdn.remove("useExternalOpenvswitch");
                }
                if applied == in_force {
                    Ok(())
                } else {
                    Err(applied.to_string())
                }
            })
            .await;
            return;
        }
        wait_until(
            "nothing is left but definitions and namespaces",
            async || {
                let stays = |title: &String| {
                    title.starts_with("CustomResourceDefinition ")
                        || title.starts_with("Namespace ")
                };
                let left: Vec<_> = cluster
                    .leftovers()
                    .await
                    .into_iter()
                    .filter(|title| !stays(title))
                    .collect();
                if left.is_empty() {
                    Ok(())
                } else {
                    Err(format!("{left:#?}"))
                }
            },
        )
        .await;
    }
}

/// The next life is to begin as the first one did.
pub async fn clean(cluster: &Cluster) {
    cluster
        .kubectl(&[
            "delete",
            "namespace",
            "openshift-sdn",
            "openshift-infra",
            "openshift-kube-proxy",
            "--ignore-not-found",
            "--timeout=120s",
        ])
        .await;
    let definitions = [
        "clusternetworks",
        "hostsubnets",
        "netnamespaces",
        "egressnetworkpolicies",
    ]
    .map(|name| format!("{name}.network.openshift.io"));
    let mut delete = vec![
        "delete",
        "customresourcedefinition",
        "--ignore-not-found",
        "--timeout=60s",
    ];
    delete.extend(definitions.iter().map(String::as_str));
    cluster.kubectl(&delete).await;
}

fn writes(proxy: &Proxy) -> usize {
    let work = Match::any().user(USER).writes();
    proxy
        .writes()
        .iter()
        .filter(|write| work.selects(&write.info))
        .count()
}

#[tokio::test]
async fn the_network_survives_a_kill_at_any_write() {
    let options = ClusterOptions {
        manifests: &["--split", "--domains", "cluster-network"],
        resource: (kinds::NETWORK_CONFIG, "default"),
        ..Default::default()
    };
    let cluster = Cluster::start(options).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let mut operator = Operator::start_briefly_via(&cluster, &proxy).await;
    let mut reference = Vec::new();
    for step in STEPS {
        proxy.clear();
        step.begin(&cluster).await;
        step.finish(&cluster).await;
        reference.push((cluster.snapshot().await, writes(&proxy)));
    }
    clean(&cluster).await;
    println!(
        "writes a step: {:?}",
        reference
            .iter()
            .map(|(_, writes)| writes)
            .collect::<Vec<_>>()
    );
    let most = reference.iter().map(|(_, writes)| *writes).max().unwrap();
    // In each life every step has its kill: at the edges and in the middle, or at each write.
    let lives: Vec<(usize, When)> = if is_exhaustive() {
        (1..=most)
            .flat_map(|n| [(n, When::Before), (n, When::After)])
            .collect()
    } else {
        vec![
            (1, When::After),
            (usize::MAX / 2, When::Before),
            (usize::MAX, When::After),
        ]
    };
    let mut kills = 0;
    for (at, when) in lives {
        for (step, (expected, count)) in STEPS.into_iter().zip(&reference) {
            let n = match at {
                usize::MAX => *count,
                at if at == usize::MAX / 2 => count / 2,
                at => at.min(*count),
            };
            println!("{step:?}, killed {when:?} write {n} of {count}");
            let victim = Victim::new();
            victim.is(operator.child());
            proxy.clear();
            proxy.on_write(Match::any().user(USER), n, when, victim.kill());
            step.begin(&cluster).await;
            let was_killed = tokio::select! {
                () = operator.end() => true,
                () = step.finish(&cluster) => {
                    let is_dying = writes(&proxy) >= n;
                    if is_dying {
                        operator.wait().await;
                    }
                    is_dying
                }
            };
            proxy.heal();
            if was_killed {
                kills += 1;
                // As if it had run out.
                cluster
                    .kubectl(&[
                        "-n",
                        NAMESPACE,
                        "delete",
                        "lease",
                        "weft-cluster-network",
                        "--ignore-not-found",
                    ])
                    .await;
                operator = Operator::start_briefly_via(&cluster, &proxy).await;
                step.finish(&cluster).await;
            }
            if step != Step::Remove {
                wait_within(Duration::from_secs(60), "the same end", async || {
                    let differences = expected.diff(&cluster.snapshot().await);
                    if differences.is_empty() {
                        Ok(())
                    } else {
                        Err(format!(
                            "{step:?}, killed {when:?} write {n}: {differences:#?}"
                        ))
                    }
                })
                .await;
            }
        }
        clean(&cluster).await;
    }
    assert!(kills >= 8, "most of the chosen writes happen: {kills}");
}
