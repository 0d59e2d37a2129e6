//! Nodes that say whether they have all policies that are for them, and lose their startup taint.

use serde_json::{Value, json};
use weft_api::node_network::{NODE_CONDITION, STARTUP_TAINT};
use weft_plan::kinds;
use weft_testenv::proxy::Proxy;

use super::{agents::*, nmstate, start};
use crate::system::{harness::*, install};

fn bridge(name: &str) -> String {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy", "metadata": {"name": name},
        "spec": {"maxUnavailable": "100%", "desiredState": {"interfaces": [{"name": name, "type": "linux-bridge", "state": "up"}]}},
    })
    .to_string()
}

async fn node(cluster: &Cluster, name: &str) -> Value {
    cluster.get(kinds::NODE, "", name).await.unwrap()
}

/// Waits until the condition of a node has this status and reason, and returns the Node.
async fn wait_node(cluster: &Cluster, name: &str, said: &str) -> Value {
    wait_until(&format!("{name} says {said}"), async || {
        let node = node(cluster, name).await;
        let now = condition(&node["status"], NODE_CONDITION);
        let text = |field: &str| now[field].as_str().unwrap_or("nothing");
        if format!("{} {}", text("status"), text("reason")) == said {
            Ok(node)
        } else {
            Err(format!("{now}"))
        }
    })
    .await
}

fn taints(node: &Value) -> Vec<&str> {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints.filter_map(|taint| taint["key"].as_str()).collect()
}

fn parsed(file: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&example(&format!("node-network/{file}"))).unwrap()
}

#[tokio::test]
async fn a_node_is_ready_once_it_has_its_policies_and_loses_the_startup_taint() {
    let cluster = start(1).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    // Its own tolerations do not keep the agent from a node that waits for it.
    let spec =
        json!({"maxUnavailable": "100%", "tolerations": [{"key": "a", "operator": "Exists"}]});
    cluster.apply(&nmstate("nmstate", &spec)).await;
    cluster.wait_available().await;
    wait_node(&cluster, "node-1", "True NoPolicy").await;
    install::becomes_idle(&cluster, &proxy).await;

    cluster.apply(&bridge("br1")).await;
    wait_node(&cluster, "node-1", "False PolicyPending").await;
    cluster.control_plane.add_node("node-2", &[]).await.unwrap();
    let taint = |key: &str, effect: &str| format!("{key}=:{effect}");
    let (first, other, second) = (
        taint(STARTUP_TAINT, "NoSchedule"),
        taint("example.com/other", "NoSchedule"),
        taint(STARTUP_TAINT, "PreferNoSchedule"),
    );
    cluster
        .kubectl(&["taint", "node", "node-2", &first, &other, &second])
        .await;
    cluster.wait_available().await;
    let waiting = wait_node(&cluster, "node-2", "False PolicyPending").await;
    assert_eq!(taints(&waiting).len(), 3);

    let agents = Agents::of(&cluster, &["node-1", "node-2"]).await;
    wait_until("both have the policy", async || {
        match agents.act(&cluster, &["node-1"]).await {
            0 if enactments(&cluster).await.len() == 2 => Ok(()),
            acted => Err(format!("{acted} are left")),
        }
    })
    .await;
    let failed = wait_node(&cluster, "node-1", "False PolicyFailed").await;
    let message = condition(&failed["status"], NODE_CONDITION)["message"].clone();
    assert_eq!(message, "these policies failed on this node: br1");
    wait_node(&cluster, "node-2", "True PoliciesApplied").await;
    let ready = wait_until("the startup taint goes, and no other", async || {
        let node = node(&cluster, "node-2").await;
        match taints(&node)[..] {
            ["example.com/other"] => Ok(node),
            ref left => Err(format!("{left:?}")),
        }
    })
    .await;
    assert_eq!(
        condition(&ready["status"], "Ready")["status"],
        "True",
        "conditions of others stay: {:#}",
        ready["status"]["conditions"]
    );
    wait_until("an event says so", async || {
        let said = cluster
            .kubectl(&[
                "get",
                "events.events.k8s.io",
                "--field-selector",
                "reason=StartupTaintRemoved",
                "-o",
                "jsonpath={.items[*].regarding.name}",
            ])
            .await;
        (said.trim() == "node-2").then_some(()).ok_or(said)
    })
    .await;
    install::becomes_idle(&cluster, &proxy).await;

    // The examples name this condition, and the command of Gardener's pod ends.
    let rule = parsed("readiness/node-readiness-rule.yaml").remove(0);
    assert_eq!(rule["spec"]["conditions"][0]["type"], NODE_CONDITION);
    let gate = parsed("readiness/gardener.yaml").pop().unwrap();
    let args = gate["spec"]["template"]["spec"]["initContainers"][0]["args"].clone();
    let args: Vec<String> = serde_json::from_value(args).unwrap();
    let args: Vec<String> = args
        .iter()
        .map(|arg| arg.replace("$(NODE_NAME)", "node-2"))
        .collect();
    let met = cluster
        .kubectl(&args.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    assert_eq!(met.trim(), "node/node-2 condition met");
    cluster
        .apply(&example("node-network/readiness/gardener.yaml"))
        .await;

    // The condition is the operator's: a change by others is undone.
    let forged = json!({"status": {"conditions": [{
        "type": NODE_CONDITION, "status": "True", "reason": "Forged", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"
    }]}});
    cluster
        .kubectl(&[
            "patch",
            "node",
            "node-1",
            "--subresource=status",
            "-p",
            &forged.to_string(),
        ])
        .await;
    wait_node(&cluster, "node-1", "False PolicyFailed").await;

    // Nobody keeps the condition true when the agents go for good.
    cluster.kubectl(&["delete", "nmstate", "nmstate"]).await;
    for name in ["node-1", "node-2"] {
        wait_until(&format!("{name} says nothing"), async || {
            let node = node(&cluster, name).await;
            let said = condition(&node["status"], NODE_CONDITION);
            said.is_null().then_some(()).ok_or(said.to_string())
        })
        .await;
    }
}
