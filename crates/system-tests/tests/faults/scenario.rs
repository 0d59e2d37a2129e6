//! The life of a NetworkAddonsConfig that the faults happen to: installed, changed, without one of
//! its components, deleted.

use std::collections::BTreeMap;

use weft_plan::{OWNER_LABEL, kinds};
use weft_testenv::proxy::{Match, Proxy, Recorded};

use weft_system_tests::{Cluster, OPERATOR_USER, Snapshot, assert_same, wait_until};

/// A user's change of the resource, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Install,
    /// One component comes, one goes, and the MAC range is another.
    Change,
    /// Components with a webhook, with objects of their own making and with a definition that stays
    /// go.
    Remove,
    Delete,
}

pub const STEPS: [Step; 4] = [Step::Install, Step::Change, Step::Remove, Step::Delete];

pub use weft_system_tests::is_exhaustive;

/// The resource with these lines of specification.
pub fn resource(spec: &[&str]) -> String {
    let head = "apiVersion: networkaddonsoperator.network.kubevirt.io/v1\nkind: NetworkAddonsConfig\nmetadata: {name: cluster}\nspec:\n";
    spec.iter()
        .fold(head.to_owned(), |text, line| format!("{text}  {line}\n"))
}

pub const FULL: [&str; 5] = [
    "multus: {}",
    "linuxBridge: {}",
    "kubevirtIpamController: {}",
    r#"kubeMacPool: {rangeStart: "02:00:00:00:00:00", rangeEnd: "02:00:00:FF:FF:FF"}"#,
    "imagePullPolicy: Always",
];

impl Step {
    /// Does what the user does. Does not wait for what comes of it.
    pub async fn begin(self, cluster: &Cluster) {
        match self {
            Self::Install => {
                cluster.play_kubemacpool().await;
                cluster.apply(&resource(&FULL)).await;
            }
            Self::Change => {
                let range = r#"kubeMacPool: {rangeStart: "02:00:01:00:00:00", rangeEnd: "02:00:01:FF:FF:FF"}"#;
                cluster
                    .apply(&resource(&[
                        "multus: {}",
                        "ovs: {}",
                        range,
                        "imagePullPolicy: IfNotPresent",
                    ]))
                    .await;
            }
            Self::Remove => {
                cluster
                    .apply(&resource(&["ovs: {}", "imagePullPolicy: IfNotPresent"]))
                    .await;
            }
            Self::Delete => {
                cluster
                    .delete(kinds::NETWORK_ADDONS_CONFIG, "", "cluster")
                    .await
            }
        }
    }

    /// Waits for what the user waits for: status says that all is well, or the resource is gone.
    pub async fn finish(self, cluster: &Cluster) {
        if self == Self::Delete {
            gone(cluster).await
        } else {
            drop(cluster.wait_available().await)
        }
    }
}

/// The definitions that stay for good: other people's objects may live in them.
const STAY: [&str; 2] = [
    "ipamclaims.k8s.cni.cncf.io",
    "network-attachment-definitions.k8s.cni.cncf.io",
];

/// Waits until the resource is gone, and makes sure that nothing else is left.
pub async fn gone(cluster: &Cluster) {
    wait_until("the NetworkAddonsConfig is gone", async || {
        match cluster.resource().await {
            None => Ok(()),
            Some(resource) => Err(format!("{:#}", resource["status"])),
        }
    })
    .await;
    // The garbage collector may still delete the last object.
    wait_until("nothing is left", async || {
        let left = cluster.leftovers().await;
        let stays = |title: &String| {
            title
                .strip_prefix("CustomResourceDefinition ")
                .is_some_and(|name| STAY.contains(&name))
        };
        if left.iter().all(stays) {
            Ok(())
        } else {
            Err(format!("{left:#?}"))
        }
    })
    .await;
    for name in STAY {
        if let Some(definition) = cluster
            .get(kinds::CUSTOM_RESOURCE_DEFINITION, "", name)
            .await
        {
            assert!(
                definition["metadata"]["labels"][OWNER_LABEL].is_null(),
                "what stays is released: {}",
                definition["metadata"]["labels"]
            );
        }
    }
    // The next life is to begin as this one did.
    let delete = [
        "delete",
        "customresourcedefinition",
        STAY[0],
        STAY[1],
        "--ignore-not-found",
        "--wait",
    ];
    cluster.kubectl(&delete).await;
}

/// The result of a step: the cluster after it, and how often each object was created, changed and
/// deleted on the way.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub state: Snapshot,
    pub writes: BTreeMap<String, Counts>,
}

/// Writes of one object that the API server carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub created: usize,
    pub changed: usize,
    pub deleted: usize,
}

/// Returns the result of a finished step.
pub async fn outcome(cluster: &Cluster, proxy: &Proxy) -> Outcome {
    Outcome {
        state: cluster.snapshot().await,
        writes: counts(&proxy.writes()),
    }
}

/// The writes of the operator's own work, by path. Status, the resource itself and the operator's
/// notes are left out: they are written as often as there is something to say.
pub fn counts(writes: &[Recorded]) -> BTreeMap<String, Counts> {
    let work = Match::any().user(OPERATOR_USER).writes();
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    for write in writes.iter().filter(|write| work.selects(&write.info)) {
        let notes =
            write.info.name.starts_with("weft-inventory-") || write.info.name.contains("-applied-");
        if notes || write.info.resource == "networkaddonsconfigs" {
            continue;
        }
        let counts = counts.entry(write.info.path.clone()).or_default();
        match (write.info.verb.as_str(), write.code) {
            ("delete", Some(200 | 202)) => counts.deleted += 1,
            (_, Some(201)) => counts.created += 1,
            (_, Some(200)) => counts.changed += 1,
            _ => {}
        }
    }
    counts.retain(|_, counts| *counts != Counts::default());
    counts
}

/// The end state is the one of the reference, whole, and what was done on the way is no more and no
/// less.
pub fn assert_same_outcome(reference: &Outcome, outcome: &Outcome, when: &str) {
    assert_same(&reference.state, &outcome.state, when);
    for path in reference.writes.keys().chain(outcome.writes.keys()) {
        let counts = |outcome: &Outcome| {
            let mut counts = outcome.writes.get(path).copied().unwrap_or_default();
            // An authority and the certificate that it signs are written at once. Killed between
            // the two, Weft does not know who signed the certificate, and recreates it.
            if path.contains("/secrets/") && counts.created == 1 && counts.changed == 1 {
                counts.changed = 0;
            }
            counts
        };
        assert_eq!(
            counts(reference),
            counts(outcome),
            "{when}: how often {path} was written (left: undisturbed)"
        );
    }
}

/// Waits until all is as it was. (A status that says Available may be from before what has just
/// been repaired.)
pub async fn wait_same(expected: &Snapshot, cluster: &Cluster, when: &str) {
    wait_until(&format!("all is as it was {when}"), async || {
        let differences = expected.diff(&cluster.snapshot().await);
        if differences.is_empty() {
            Ok(())
        } else {
            Err(differences.join("\n"))
        }
    })
    .await;
}
