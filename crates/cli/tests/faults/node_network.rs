//! The operator of the nodes' networks, as faults need it.

#[allow(dead_code)]
#[path = "../system/node_network/agents.rs"]
pub mod agents;

/// The namespace of operator and agents.
pub const NAMESPACE: &str = "nmstate";
/// The agent's DaemonSet, and its ServiceAccount.
pub const AGENT: &str = "nmstate-handler";
