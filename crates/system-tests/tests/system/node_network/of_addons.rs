//! `nmstate: {}` in NetworkAddonsConfig: the add-ons ask, the operator of the nodes' networks
//! serves.

use serde_json::{Value, json};
use weft_plan::kinds;

use super::{NAMESPACE, agent, nmstate};
use weft_system_tests::*;

/// The wish of the add-ons.
const ASKED: &str = "cluster-network-addons";

async fn component(cluster: &Cluster) -> Value {
    let status = cluster.status().await;
    let components = status["components"].as_array().cloned().unwrap_or_default();
    components
        .into_iter()
        .find(|component| component["name"] == "nmstate")
        .unwrap_or_default()
}

async fn wait_component(cluster: &Cluster, state: &str, message: &str) {
    wait_until(
        &format!("the component is {state}: {message}"),
        async || {
            let found = component(cluster).await;
            let right = found["state"] == state
                && found["message"]
                    .as_str()
                    .unwrap_or_default()
                    .contains(message);
            if right {
                Ok(())
            } else {
                Err(format!("{:#}", cluster.status().await))
            }
        },
    )
    .await;
}

#[tokio::test]
async fn the_add_ons_ask_for_the_agent_unless_users_have_an_nmstate() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    cluster.apply(&json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": {"nmstate": {}, "ovs": {}}
    }).to_string()).await;

    // Without the other domain nothing comes of it, and the others are there.
    wait_component(
        &cluster,
        "NotDeployed",
        "weft status --domains node-network",
    )
    .await;
    cluster.wait_available().await;

    // Its operator in another Deployment. Until it runs, nobody answers.
    cluster
        .apply_manifests(&["--split", "--domains", "node-network"])
        .await;
    cluster.wait_established("nmstates.nmstate.io").await;
    wait_component(
        &cluster,
        "Progressing",
        "no operator has said anything about it yet",
    )
    .await;
    assert!(cluster.get(kinds::NMSTATE, "", ASKED).await.is_some());

    operator.terminate().await;
    let both = &["--domains", "addons,node-network"];
    let single = Cluster::start(ClusterOptions {
        manifests: both,
        ..Default::default()
    })
    .await;
    drop(cluster);
    let _operator = Operator::start_default(&single).await;
    single.apply(&json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": {"nmstate": {}}
    }).to_string()).await;
    single.wait_available().await;
    wait_component(&single, "Available", "").await;
    let live = agent(&single).await.unwrap();
    assert_eq!(
        (
            &live["metadata"]["namespace"],
            &live["status"]["numberAvailable"]
        ),
        (&json!(NAMESPACE), &json!(2))
    );

    // The user's own counts, and takes the place of ours.
    single
        .apply(&nmstate("mine", &json!({"logLevel": "debug"})))
        .await;
    wait_component(&single, "NotDeployed", "NMState mine says").await;
    super::wait_agent(&single, "the user's agent", |live| {
        super::variable(live, "LOG_LEVEL") == "debug"
    })
    .await;
    assert_eq!(single.get(kinds::NMSTATE, "", ASKED).await, None);
    single.wait_available().await;

    // And gone again.
    single
        .kubectl(&["delete", "nmstate", "mine", "--timeout=60s"])
        .await;
    super::wait_agent(&single, "the add-ons' agent again", |live| {
        super::variable(live, "LOG_LEVEL") == "info"
    })
    .await;
    single.wait_available().await;
    single
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--timeout=60s"])
        .await;
    wait_until("the agent goes with it", async || {
        let left = agent(&single).await;
        if left.is_none() {
            Ok(())
        } else {
            Err("it is there".to_owned())
        }
    })
    .await;
}
