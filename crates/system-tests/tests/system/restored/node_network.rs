//! NMState, policies and their enactments.

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::Proxy;

use super::{restore, set_image};
use crate::system::{
    harness::*,
    node_network::{AGENT, NAMESPACE, agents::*, nmstate, rollout::act_until, start},
};

const DONE: &str = "2/2 nodes successfully configured";

fn policy(name: &str, bridge: &str) -> String {
    json!({"apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy", "metadata": {"name": name},
        "spec": {
            "maxUnavailable": 1,
            "desiredState": {
                "interfaces": [{"name": bridge, "type": "linux-bridge", "state": "up"}]
            }
        }})
    .to_string()
}

fn granted_bridge(enactment: &Value) -> &Value {
    &enactment["spec"]["granted"]["spec"]["desiredState"]["interfaces"][0]["name"]
}

#[tokio::test]
async fn policies_go_on_from_a_restored_backup() {
    let cluster = start(2).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster
        .apply(&nmstate("nmstate", &json!({"maxUnavailable": "100%"})))
        .await;
    cluster.wait_available().await;
    let agents = Agents::of(&cluster, &["node-1", "node-2"]).await;
    cluster.apply(&policy("br1", "first")).await;
    act_until(&cluster, &agents, "br1", 1, "Available", DONE).await;
    // The second node waits for its turn.
    cluster.apply(&policy("waiting", "first")).await;
    wait_decisions(
        &cluster,
        "waiting",
        &[("node-1", "Granted 1"), ("node-2", "Pending 1")],
    )
    .await;
    let daemon_set = cluster
        .masked(kinds::DAEMON_SET, NAMESPACE, AGENT)
        .await
        .unwrap();
    let backup = cluster.control_plane.snapshot().await.unwrap();

    act_until(&cluster, &agents, "waiting", 1, "Available", DONE).await;
    for bridge in ["second", "third"] {
        cluster.apply(&policy("br1", bridge)).await;
        act_until(&cluster, &agents, "br1", 1, "Available", DONE).await;
    }
    cluster.apply(&policy("later", "later")).await;
    act_until(&cluster, &agents, "later", 1, "Available", DONE).await;

    let lost = restore(&cluster, &proxy, &backup, async {
        set_image(&cluster, NAMESPACE, "daemonset/nmstate-handler").await;
        cluster
            .delete(
                kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT,
                "",
                "node-1.br1",
            )
            .await;
    })
    .await;
    cluster
        .wait_same(&daemon_set, "after the restored backup")
        .await;
    // The operator grants missing enactments again, and waiting ones get their turn.
    act_until(&cluster, &agents, "br1", 1, "Available", DONE).await;
    wait_until("the deleted enactment is back", async || {
        enactment(&cluster, "node-1", "br1")
            .await
            .map(drop)
            .ok_or("it is not there".to_owned())
    })
    .await;
    act_until(&cluster, &agents, "waiting", 1, "Available", DONE).await;

    // The same generation as in the lost future, with something else in it.
    cluster.apply(&policy("br1", "other")).await;
    wait_decisions(
        &cluster,
        "br1",
        &[("node-1", "Granted 2"), ("node-2", "Pending 2")],
    )
    .await;
    assert_eq!(
        granted_bridge(&enactment(&cluster, "node-1", "br1").await.unwrap()),
        "other"
    );
    act_until(&cluster, &agents, "br1", 1, "Available", DONE).await;
    assert_eq!(
        granted_bridge(&enactment(&cluster, "node-2", "br1").await.unwrap()),
        "other"
    );
    cluster.apply(&policy("later", "other")).await;
    act_until(&cluster, &agents, "later", 1, "Available", DONE).await;

    // The agents' DaemonSet follows NMState.
    cluster.delete(kinds::DAEMON_SET, NAMESPACE, AGENT).await;
    cluster.wait_same(&daemon_set, "after a deletion").await;
    cluster.wait_available().await;
    lost.assert_not_reached(&cluster).await;
}
