//! The agents of node networks, played with the rights of their tokens.

#[allow(dead_code)]
#[path = "../system/node_network/agents.rs"]
pub mod agents;

/// The namespace of the agents.
pub const NAMESPACE: &str = "nmstate";
/// The DaemonSet of the agent, and its ServiceAccount.
pub const AGENT: &str = "nmstate-handler";
