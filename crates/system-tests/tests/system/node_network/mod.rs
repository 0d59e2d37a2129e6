//! The agent on the nodes: NMState on the real control plane. Its pods are kwok's, so nothing here
//! touches a host's network.

mod addresses;
pub mod agents;
mod in_the_way;
mod life;
mod monitoring;
mod names;
mod of_addons;
mod readiness;
pub mod rollout;
mod takeover;

use serde_json::Value;
use weft_plan::kinds;

use weft_system_tests::*;

/// The namespace of operator and agents.
pub const NAMESPACE: &str = "nmstate";
/// The DaemonSet of the agent, and its ServiceAccount and roles.
pub const AGENT: &str = "nmstate-handler";

/// A control plane with the operator of this domain installed, and as many nodes.
pub async fn start(nodes: usize) -> Cluster {
    Cluster::start(ClusterOptions { nodes, ..options() }).await
}

/// The same as options.
pub fn options() -> ClusterOptions {
    ClusterOptions {
        manifests: &["--split", "--domains", "node-network"],
        resource: (kinds::NMSTATE, "nmstate"),
        ..Default::default()
    }
}

/// An NMState with this name and specification.
pub fn nmstate(name: &str, spec: &Value) -> String {
    serde_json::json!({
        "apiVersion": "nmstate.io/v1", "kind": "NMState", "metadata": {"name": name}, "spec": spec
    })
    .to_string()
}

/// Returns the agent's DaemonSet, if there is one.
pub async fn agent(cluster: &Cluster) -> Option<Value> {
    cluster.get(kinds::DAEMON_SET, NAMESPACE, AGENT).await
}

/// The value of a variable of the agent.
pub fn variable(agent: &Value, name: &str) -> Value {
    let variables = agent
        .pointer("/spec/template/spec/containers/0/env")
        .and_then(Value::as_array)
        .unwrap();
    variables
        .iter()
        .find(|variable| variable["name"] == name)
        .map_or(Value::Null, |variable| variable["value"].clone())
}

/// Waits until the agent's DaemonSet is like this.
pub async fn wait_agent(cluster: &Cluster, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    wait_until(what, async || {
        let live = agent(cluster).await.ok_or("there is no agent")?;
        if is_so(&live) {
            Ok(live)
        } else {
            Err(format!("{:#}", live["spec"]["template"]["spec"]))
        }
    })
    .await
}
