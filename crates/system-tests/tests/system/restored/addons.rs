//! NetworkAddonsConfig.

use serde_json::{Value, json};
use weft_plan::{Kind, kinds};
use weft_testenv::proxy::Proxy;

use super::{restore, set_image, wait_same};
use weft_system_tests::*;

const BRIDGE_PLUGIN: &str = "kube-cni-linux-bridge-plugin";

async fn uid(cluster: &Cluster, kind: Kind, name: &str) -> Option<Value> {
    cluster
        .get(kind, NAMESPACE, name)
        .await
        .map(|object| object["metadata"]["uid"].clone())
}

/// Waits until the image pull policy has come to a workload.
async fn wait_pull_policy(cluster: &Cluster, name: &str, policy: &str) {
    wait_until(
        &format!("{name} has imagePullPolicy {policy}"),
        async || {
            let live = cluster
                .get(kinds::DAEMON_SET, NAMESPACE, name)
                .await
                .ok_or("it is not there")?;
            let found = &live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"];
            if found == policy {
                Ok(())
            } else {
                Err(found.to_string())
            }
        },
    )
    .await;
}

#[tokio::test]
async fn drift_after_a_restored_backup_is_repaired() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    // Its lease outlasts the restoration: it leads all the time.
    let options = OperatorOptions {
        proxy: Some(&proxy),
        lease_seconds: 120,
        ..Default::default()
    };
    let operator = Operator::start(&cluster, options).await;
    let generation = cluster
        .install(&example("network-addons-config.yaml"))
        .await["metadata"]["generation"]
        .as_u64()
        .unwrap();
    let expected = cluster.snapshot().await;
    let backup = cluster.control_plane.snapshot().await.unwrap();

    for policy in ["IfNotPresent", "Never"] {
        cluster
            .patch_resource(json!({"spec": {"imagePullPolicy": policy}}))
            .await;
        cluster.wait_available().await;
    }
    let old = uid(&cluster, kinds::DAEMON_SET, BRIDGE_PLUGIN).await;
    cluster
        .patch_resource(json!({"spec": {"linuxBridge": null, "ovs": null}}))
        .await;
    cluster.wait_available().await;
    cluster
        .patch_resource(json!({"spec": {"linuxBridge": {}}}))
        .await;
    let future = cluster.wait_available().await;
    assert!(
        future["metadata"]["generation"].as_u64().unwrap() >= generation + 4,
        "{future:#}"
    );
    assert_ne!(
        uid(&cluster, kinds::DAEMON_SET, BRIDGE_PLUGIN).await,
        old,
        "it is another object in the future"
    );

    let lost = restore(&cluster, &proxy, &backup, async {
        set_image(&cluster, NAMESPACE, "daemonset/multus").await;
        cluster.delete(kinds::CLUSTER_ROLE, "", "multus").await;
    })
    .await;
    assert_eq!(
        cluster.resource().await.unwrap()["metadata"]["generation"],
        generation
    );
    set_image(&cluster, NAMESPACE, "daemonset/bridge-marker").await;
    cluster
        .delete(kinds::DAEMON_SET, NAMESPACE, BRIDGE_PLUGIN)
        .await;
    wait_same(&cluster, &expected).await;
    assert_eq!(
        cluster.wait_available().await["status"]["observedGeneration"],
        generation
    );

    // From now on everything goes its way: the same generation as in the lost future, with
    // something else in it.
    let changed = cluster
        .patch_resource(json!({"spec": {"imagePullPolicy": "Never", "ovs": null}}))
        .await;
    assert_eq!(changed["metadata"]["generation"], generation + 1);
    cluster.wait_available().await;
    wait_pull_policy(&cluster, "multus", "Never").await;
    assert!(
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "ovs-cni-amd64")
            .await
            .is_none()
    );
    cluster.delete(kinds::DAEMON_SET, NAMESPACE, "multus").await;
    wait_pull_policy(&cluster, "multus", "Never").await;
    lost.assert_not_reached(&cluster).await;
    assert!(
        !operator.log().contains(" not leading "),
        "it has led all the time: {}",
        operator.log()
    );
}

#[tokio::test]
async fn a_specification_in_a_restored_backup_is_carried_out() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    let config = |spec: Value| {
        json!({
            "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
            "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"}, "spec": spec
        })
        .to_string()
    };
    cluster
        .apply(&config(json!({"multus": {}, "linuxBridge": {}})))
        .await;
    cluster.wait_available().await;

    // The backup has a specification that nobody has carried out: its status is about the
    // generation before.
    operator.signal(rustix::process::Signal::STOP);
    let applied = cluster
        .apply(&config(
            json!({"multus": {}, "ovs": {}, "imagePullPolicy": "Always"}),
        ))
        .await;
    assert!(applied.contains("configured"), "{applied}");
    let backup = cluster.control_plane.snapshot().await.unwrap();
    operator.signal(rustix::process::Signal::CONT);
    let carried_out = cluster.wait_available().await;
    let expected = cluster.snapshot().await;

    // The operator knows of newer ones that it has carried out.
    for spec in [
        json!({"ovs": {}, "linuxBridge": {}}),
        json!({"multus": {}, "imagePullPolicy": "Never"}),
    ] {
        cluster.apply(&config(spec)).await;
        cluster.wait_available().await;
    }

    let lost = restore(&cluster, &proxy, &backup, async {
        let restored = cluster.resource().await.unwrap();
        assert_eq!(
            restored["metadata"]["generation"],
            carried_out["metadata"]["generation"]
        );
        assert_ne!(
            restored["status"]["observedGeneration"], restored["metadata"]["generation"],
            "{restored:#}"
        );
        assert!(
            cluster
                .get(kinds::DAEMON_SET, NAMESPACE, "ovs-cni-amd64")
                .await
                .is_none(),
            "nobody has made it"
        );
    })
    .await;
    let live = cluster.wait_available().await;
    assert_eq!(
        live["status"]["observedGeneration"],
        carried_out["metadata"]["generation"]
    );
    wait_same(&cluster, &expected).await;
    lost.assert_not_reached(&cluster).await;
}

#[tokio::test]
async fn a_deleted_resource_in_a_restored_backup_is_served_again() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    let expected = cluster.snapshot().await;
    let backup = cluster.control_plane.snapshot().await.unwrap();
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--timeout=60s"])
        .await;

    let lost = restore(&cluster, &proxy, &backup, async {}).await;
    set_image(&cluster, NAMESPACE, "daemonset/multus").await;
    cluster
        .delete(kinds::DAEMON_SET, NAMESPACE, BRIDGE_PLUGIN)
        .await;
    wait_same(&cluster, &expected).await;
    cluster.wait_available().await;

    // The operator removes the same objects again.
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--timeout=60s"])
        .await;
    wait_until("the workloads are gone", async || {
        match cluster.get(kinds::DAEMON_SET, NAMESPACE, "multus").await {
            None => Ok(()),
            Some(live) => Err(format!("{:#}", live["metadata"])),
        }
    })
    .await;
    lost.assert_not_reached(&cluster).await;
}

#[tokio::test]
async fn a_standby_that_takes_over_a_restored_cluster_repairs_it() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let leader = Operator::start_via(&cluster, &proxy).await;
    leader.wait_leading().await;
    let standby = Operator::start(
        &cluster,
        OperatorOptions {
            proxy: Some(&proxy),
            pod_name: "standby",
            ..Default::default()
        },
    )
    .await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    let expected = cluster.snapshot().await;
    let backup = cluster.control_plane.snapshot().await.unwrap();
    cluster
        .patch_resource(json!({"spec": {"linuxBridge": null, "imagePullPolicy": "Never"}}))
        .await;
    cluster.wait_available().await;
    wait_until("the standby is ready", async || {
        if standby.http("/readyz").await.0 == 200 {
            Ok(())
        } else {
            Err("no".into())
        }
    })
    .await;

    let lost = restore(&cluster, &proxy, &backup, async {
        leader.kill();
        set_image(&cluster, NAMESPACE, "daemonset/multus").await;
        cluster
            .delete(kinds::DAEMON_SET, NAMESPACE, BRIDGE_PLUGIN)
            .await;
    })
    .await;
    standby.wait_leading().await;
    wait_same(&cluster, &expected).await;
    cluster.wait_available().await;
    lost.assert_not_reached(&cluster).await;
}
