//! The NetworkAddonsConfig goes without its finalizer, since somebody takes that off by hand: everything of Weft goes all the same.

use serde_json::json;
use weft_plan::kinds;

use crate::{deletion::all_is_gone, harness::*};

#[tokio::test]
async fn what_a_resource_without_its_finalizer_leaves_is_removed() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    let example = example("network-addons-config.yaml");

    // While the operator works. This is why people do it: the resource does not go, since somebody holds a component.
    cluster.install(&example).await;
    hold(&cluster, json!(["example.com/hold"])).await;
    cluster.kubectl(&["delete", "networkaddonsconfig", "cluster", "--wait=false"]).await;
    cluster.wait_condition("Degraded", "True", "", "example.com/hold").await;
    cluster.patch_resource(json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(cluster.resource().await, None, "nothing holds it any more");
    operator.wait_logged("the resource is gone without its finalizer").await;
    // The garbage collector knows no order and no held components: what it leaves is Weft's to finish, once it can.
    let notes = ["weft-inventory-networkaddonsconfig-cluster", "cluster-networks-addons-operator-applied-cluster"];
    for note in notes {
        assert!(cluster.get(kinds::CONFIG_MAP, NAMESPACE, note).await.is_some(), "{note} goes last");
    }
    hold(&cluster, json!(null)).await;
    all_is_gone(&cluster, "the finalizer was taken off while a component was held").await;

    // While no operator runs.
    cluster.install(&example).await;
    operator.kill();
    cluster.patch_resource(json!({"metadata": {"finalizers": null}})).await;
    cluster.kubectl(&["delete", "networkaddonsconfig", "cluster"]).await;
    for note in notes {
        assert!(cluster.get(kinds::CONFIG_MAP, NAMESPACE, note).await.is_some(), "{note} has no owner that could be collected");
    }
    let _operator = Operator::start_default(&cluster).await;
    all_is_gone(&cluster, "the finalizer was taken off while no operator ran").await;
}

async fn hold(cluster: &Cluster, finalizers: serde_json::Value) {
    cluster.patch(kinds::DAEMON_SET, NAMESPACE, "multus", json!({"metadata": {"finalizers": finalizers}})).await;
}
