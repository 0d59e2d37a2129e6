//! Names of nodes that do not fit into a label.

use serde_json::{Value, json};
use weft_plan::kinds;

use super::{agents::*, nmstate, rollout::act_until, start};
use weft_system_tests::*;

#[tokio::test]
async fn a_node_with_a_long_name_gets_policies_like_any_other() {
    let cluster = start(1).await;
    let _operator = Operator::start_default(&cluster).await;
    // Two that begin alike, as cloud providers name them by the full name in DNS.
    let long = [1, 2].map(|number| {
        format!(
            "{}-{number}.example.com",
            "node-with-a-very-long-name".repeat(2) + "-xxxxx"
        )
    });
    assert!(long.iter().all(|name| name.len() > 70), "{long:?}");
    for name in &long {
        let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "100"});
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}},
            "status": {"capacity": resources, "allocatable": resources}
        });
        cluster
            .control_plane
            .kubectl_with_input(&["create", "-f", "-"], &node.to_string())
            .await
            .unwrap();
    }
    cluster
        .apply(&nmstate("nmstate", &json!({"maxUnavailable": "100%"})))
        .await;
    cluster.wait_available().await;
    let agents = Agents::of(&cluster, &["node-1", &long[0], &long[1]]).await;
    cluster
        .apply("{apiVersion: nmstate.io/v1, kind: NodeNetworkConfigurationPolicy, metadata: {name: br1}, spec: {maxUnavailable: 3, onDelete: revert, desiredState: {}}}")
        .await;
    wait_decisions(
        &cluster,
        "br1",
        &[
            ("node-1", "Granted 1"),
            (&long[0], "Granted 1"),
            (&long[1], "Granted 1"),
        ],
    )
    .await;
    // An agent watches only the objects of its node.
    for node in &long {
        let selector = format!(
            "nmstate.io/node={}",
            weft_api::node_network::node_label(node)
        );
        let watched: Value = serde_json::from_str(
            &cluster
                .kubectl(&["get", "nnce", "-o", "json", "-l", &selector])
                .await,
        )
        .unwrap();
        let names: Vec<_> = watched["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["metadata"]["name"].clone())
            .collect();
        assert_eq!(names, [json!(format!("{node}.br1"))]);
    }
    // And its token suffices, for its own node.
    act_until(
        &cluster,
        &agents,
        "br1",
        3,
        "Available",
        "3/3 nodes successfully configured",
    )
    .await;
    cluster
        .delete(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", "br1")
        .await;
    wait_until("all nodes have put it back", async || {
        agents.act(&cluster, &[]).await;
        let left = enactments(&cluster).await.len();
        if left == 0 {
            Ok(())
        } else {
            Err(format!("{left} are left"))
        }
    })
    .await;
}
