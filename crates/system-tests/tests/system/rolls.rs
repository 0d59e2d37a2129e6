//! Each option is changed in turn, and exactly the workloads that it concerns roll.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use weft_plan::kinds;

use crate::system::{harness::*, options};

#[tokio::test]
async fn each_option_rolls_exactly_the_pods_that_it_concerns() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    // The one that a change is about to name.
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "create",
            "configmap",
            "mine",
            "--from-literal=DP_MACVTAP_CONF=[]",
        ])
        .await;
    let api = "networkaddonsoperator.network.kubevirt.io/v1";
    let configuration = json!({
        "apiVersion": api, "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
        "spec": options::full()
    });
    cluster.install(&configuration.to_string()).await;
    let mut before = workloads(&cluster).await;
    assert_eq!(
        before.len(),
        options::DAEMON_SETS.len() + options::DEPLOYMENTS.len()
    );
    for options::Change { spec, rolls, .. } in options::changes() {
        let generation = |resource: &Value| resource["metadata"]["generation"].as_i64();
        let asked = generation(&cluster.patch_resource(json!({"spec": spec})).await);
        assert_eq!(generation(&cluster.wait_available().await), asked, "{spec}");
        let after = workloads(&cluster).await;
        let touched: BTreeSet<_> = after
            .iter()
            .filter(|(name, workload)| before[*name] != **workload)
            .map(|(name, _)| &**name)
            .collect();
        assert_eq!(touched, rolls.into_iter().collect(), "{spec}");
        for name in touched {
            let (before, after) = (&before[name], &after[name]);
            assert_eq!(
                after.uid, before.uid,
                "{spec}: {name} is changed, not made anew"
            );
            assert_eq!(
                after.generation,
                before.generation + 1,
                "{spec}: {name} is changed once"
            );
            assert_ne!(
                after.template, before.template,
                "{spec}: the pods of {name} roll"
            );
        }
        before = after;
    }

    // And left out again, all at once: what goes back to its default concerns the same workloads.
    let goes_back: Vec<_> = options::changes()
        .into_iter()
        .filter(|change| !change.stays)
        .collect();
    cluster
        .patch_resource(json!({"spec": without(&goes_back)}))
        .await;
    cluster.wait_available().await;
    let after = workloads(&cluster).await;
    let touched: BTreeSet<_> = after
        .iter()
        .filter(|(name, workload)| before[*name] != **workload)
        .map(|(name, _)| &**name)
        .collect();
    assert_eq!(
        touched,
        goes_back
            .into_iter()
            .flat_map(|change| change.rolls)
            .collect()
    );
}

/// The merge patch that leaves out what these changes have given. Add-ons stay.
fn without(changes: &[options::Change]) -> Value {
    let (full, mut patch) = (options::full(), json!({}));
    for (field, value) in changes
        .iter()
        .flat_map(|change| change.spec.as_object().unwrap())
    {
        match full.get(field) {
            Some(_) => value
                .as_object()
                .unwrap()
                .keys()
                .for_each(|option| patch[field][option] = Value::Null),
            None => patch[field] = Value::Null,
        }
    }
    patch
}

#[derive(Debug, PartialEq)]
struct Workload {
    uid: String,
    generation: i64,
    /// The template of its pods.
    template: Value,
}

async fn workloads(cluster: &Cluster) -> BTreeMap<String, Workload> {
    let mut all = BTreeMap::new();
    for kind in [kinds::DAEMON_SET, kinds::DEPLOYMENT] {
        for object in cluster
            .api(kind, NAMESPACE)
            .list(&kube::api::ListParams::default().labels(weft_plan::OWNER_LABEL))
            .await
            .unwrap()
        {
            let template = object.data["spec"]["template"].clone();
            let (uid, generation) = (
                object.metadata.uid.unwrap(),
                object.metadata.generation.unwrap(),
            );
            all.insert(
                object.metadata.name.unwrap(),
                Workload {
                    uid,
                    generation,
                    template,
                },
            );
        }
    }
    all
}
