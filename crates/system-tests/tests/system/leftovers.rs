//! The NetworkAddonsConfig goes without its finalizer, since somebody takes that off by hand:
//! everything of Weft goes all the same.

use serde_json::json;
use weft_plan::kinds;

use crate::system::{deletion::all_is_gone, harness::*};

#[tokio::test]
async fn leftovers_of_a_resource_without_finalizer_are_removed() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    let example = example("network-addons-config.yaml");

    // While the operator works. This is why people do it: the resource does not go, since somebody
    // holds a component.
    cluster.install(&example).await;
    hold(&cluster, json!(["example.com/hold"])).await;
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--wait=false"])
        .await;
    cluster
        .wait_condition("Degraded", "True", "", "example.com/hold")
        .await;
    cluster
        .patch_resource(json!({"metadata": {"finalizers": null}}))
        .await;
    assert_eq!(cluster.resource().await, None, "nothing holds it any more");
    operator
        .wait_logged("the resource is gone without its finalizer")
        .await;
    // The garbage collector knows no order and no held components: what it leaves is Weft's to
    // finish, once it can.
    let notes = [
        "weft-inventory-networkaddonsconfig-cluster",
        "cluster-networks-addons-operator-applied-cluster",
    ];
    for note in notes {
        assert!(
            cluster
                .get(kinds::CONFIG_MAP, NAMESPACE, note)
                .await
                .is_some(),
            "{note} goes last"
        );
    }
    hold(&cluster, json!(null)).await;
    all_is_gone(
        &cluster,
        "the finalizer was taken off while a component was held",
    )
    .await;

    // While no operator runs.
    cluster.install(&example).await;
    operator.kill();
    cluster
        .patch_resource(json!({"metadata": {"finalizers": null}}))
        .await;
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster"])
        .await;
    for note in notes {
        assert!(
            cluster
                .get(kinds::CONFIG_MAP, NAMESPACE, note)
                .await
                .is_some(),
            "{note} has no owner that could be collected"
        );
    }
    let _operator = Operator::start_default(&cluster).await;
    all_is_gone(
        &cluster,
        "the finalizer was taken off while no operator ran",
    )
    .await;
}

/// The original removes them at each of its reconciles: a component that was taken out of the
/// configuration while no operator ran, and objects of old releases.
#[tokio::test]
async fn unwanted_leftovers_of_the_original_go_at_the_take_over() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let api = "networkaddonsoperator.network.kubevirt.io/v1";
    let resource = json!({
        "apiVersion": api, "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
        "spec": {"multus": {}}
    });
    cluster.apply(&resource.to_string()).await;
    let uid = cluster.resource().await.unwrap()["metadata"]["uid"].clone();
    let owner =
        json!([{"apiVersion": api, "kind": "NetworkAddonsConfig", "name": "cluster", "uid": uid}]);
    let pods = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "registry.example/c"}]}
    });
    let daemon_set = json!({"selector": {"matchLabels": {"a": "b"}}, "template": pods});
    let theirs = [
        (kinds::DAEMON_SET, NAMESPACE, "ovs-cni-amd64"),
        (kinds::DAEMON_SET, NAMESPACE, "kube-multus-ds-amd64"),
        (kinds::DAEMON_SET, NAMESPACE, "passt-binding-cni"),
        (kinds::CONFIG_MAP, NAMESPACE, "nmstate-config"),
        (kinds::CLUSTER_ROLE, "", "nmstate-handler"),
        (kinds::MUTATING_WEBHOOK_CONFIGURATION, "", "nmstate"),
    ];
    let foreign = [
        (kinds::CLUSTER_ROLE, "", "kubevirt-ipam-claims-manager-role"),
        (kinds::DAEMON_SET, NAMESPACE, "macvtap-cni"),
    ];
    for (kind, namespace, name) in theirs.into_iter().chain(foreign) {
        let mut object = json!({
            "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": name}
        });
        if kind.namespaced {
            object["metadata"]["namespace"] = namespace.into();
        }
        if kind == kinds::DAEMON_SET {
            object["spec"] = daemon_set.clone();
        }
        if theirs.contains(&(kind, namespace, name)) {
            object["metadata"]["ownerReferences"] = owner.clone();
        } else {
            // A copy that a user applied.
            object["metadata"]["labels"] =
                json!({"networkaddonsoperator.network.kubevirt.io/version": "0.102.0"});
        }
        cluster.apply(&object.to_string()).await;
    }
    let _operator = Operator::start_default(&cluster).await;
    cluster.wait_available().await;
    wait_until("what the original left is gone", async || {
        for (kind, namespace, name) in theirs {
            if cluster.get(kind, namespace, name).await.is_some() {
                return Err(format!("{kind} {name} is there"));
            }
        }
        Ok(())
    })
    .await;
    for (kind, namespace, name) in foreign {
        assert!(
            cluster.get(kind, namespace, name).await.is_some(),
            "{kind} {name} belongs to another owner"
        );
    }
}

async fn hold(cluster: &Cluster, finalizers: serde_json::Value) {
    cluster
        .patch(
            kinds::DAEMON_SET,
            NAMESPACE,
            "multus",
            json!({"metadata": {"finalizers": finalizers}}),
        )
        .await;
}
