//! NetworkConfig, whose changes are judged by a record of what is in force.

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::Proxy;

use super::{restore, set_image, wait_same};
use crate::system::{
    cluster_network::{NAMESPACE, RECORD, SDN, minimal, record, start},
    harness::*,
};

fn vxlan_port(port: u16) -> Value {
    json!({"spec": {"defaultNetwork": {"openshiftSDNConfig": {"vxlanPort": port}}}})
}

/// Waits until a port is in force, by the record and by status.
async fn wait_in_force(cluster: &Cluster, port: u16) {
    wait_until(&format!("vxlanPort {port} is in force"), async || {
        let (record, status) = (
            record(cluster).await,
            cluster.wait_available().await["status"].clone(),
        );
        let is_so = |configuration: &Value| {
            configuration["defaultNetwork"]["openshiftSDNConfig"]["vxlanPort"] == port
        };
        if is_so(&record) && is_so(&status["effectiveConfiguration"]) {
            Ok(())
        } else {
            Err(format!("{record:#} {status:#}"))
        }
    })
    .await;
}

/// Changes the port against the record, by deleting that first.
async fn force(cluster: &Cluster, port: u16) {
    cluster.patch_resource(vxlan_port(port)).await;
    cluster
        .wait_condition(
            "Degraded",
            "True",
            "InvalidOperatorConfig",
            &port.to_string(),
        )
        .await;
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "configmap", RECORD])
        .await;
    wait_in_force(cluster, port).await;
}

#[tokio::test]
async fn a_restored_network_is_judged_by_its_restored_record() {
    let cluster = start().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster.apply(&minimal()).await;
    wait_in_force(&cluster, 4789).await;
    let expected = cluster.snapshot().await;
    let backup = cluster.control_plane.snapshot().await.unwrap();
    for port in [4790, 4791] {
        force(&cluster, port).await;
    }

    let lost = restore(&cluster, &proxy, &backup, async {
        set_image(&cluster, SDN, "daemonset/sdn").await;
    })
    .await;
    cluster
        .delete(kinds::CONFIG_MAP, SDN, "sdn-controller-config")
        .await;
    cluster.delete(kinds::DAEMON_SET, SDN, "ovs").await;
    wait_same(&cluster, &expected).await;
    wait_in_force(&cluster, 4789).await;

    // In the lost future this port was in force.
    force(&cluster, 4791).await;
    lost.assert_not_reached(&cluster).await;
}
