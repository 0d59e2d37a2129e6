//! Behaviours of kubernetes-nmstate that no other test shows by the way.

use serde_json::{Value, json};
use weft_testenv::host_lab::{HostLab, Installation};

use crate::on_hosts::agent::support::{link, wait_policy, wait_quiet, wait_until};

/// A policy that sets the MTU of a card.
fn policy(name: &str, mtu: u32) -> String {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": name},
        "spec": {
            "maxUnavailable": "100%",
            "desiredState": {"interfaces": [
                {"name": "eth1", "type": "ethernet", "state": "up", "mtu": mtu}
            ]}
        },
    })
    .to_string()
}

async fn updated(weft: &Installation) -> Value {
    let state = weft.get("nns", "node-1").await.unwrap().unwrap();
    state["status"]["lastSuccessfulUpdateTime"].clone()
}

async fn enactments(weft: &Installation) -> Vec<String> {
    let listed = weft.lab().kubectl(&["get", "nnce", "-o", "name"]).await;
    listed.unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_deleted_policy_takes_along_the_enactments_of_a_node_that_is_away() {
    let mut weft = Installation::start(HostLab::builder().hosts(2).cards(2))
        .await
        .unwrap();
    weft.apply(&policy("mtu", 1400)).await.unwrap();
    wait_policy(&weft, "mtu", "Available").await;
    assert_eq!(enactments(&weft).await.len(), 2);

    weft.kill_agent("node-2").unwrap();
    weft.lab().cut_api(weft.host("node-2").unwrap()).unwrap();
    weft.lab()
        .kubectl(&["delete", "nncp", "mtu", "--timeout=300s"])
        .await
        .unwrap();
    wait_until("no enactment is left", async || {
        let left = enactments(&weft).await;
        left.is_empty().then_some(()).ok_or(left.join(" "))
    })
    .await;
    for host in weft.lab().hosts() {
        assert_eq!(link(host, "eth1").await["mtu"], 1400, "{}", host.name());
    }
}

#[tokio::test]
async fn the_time_of_a_report_is_new_with_a_policy_and_stays_without_a_change() {
    let weft = Installation::start(HostLab::builder().hosts(1).cards(2))
        .await
        .unwrap();
    wait_quiet(&weft).await;
    let first = updated(&weft).await;
    weft.apply(&policy("mtu", 1400)).await.unwrap();
    wait_policy(&weft, "mtu", "Available").await;
    wait_until("the report has another time", async || {
        let now = updated(&weft).await;
        (now != first).then_some(()).ok_or(now.to_string())
    })
    .await;

    wait_quiet(&weft).await;
    let second = updated(&weft).await;
    let again = json!({"metadata": {"labels": {"nmstate.io/force-nns-refresh": "1"}}});
    weft.patch("nns", "node-1", &again).await.unwrap();
    // It is the same policy, so nothing changes.
    let same = json!({"metadata": {"annotations": {"example.com/note": "1"}}});
    weft.patch("nncp", "mtu", &same).await.unwrap();
    wait_quiet(&weft).await;
    assert_eq!(updated(&weft).await, second);
}
