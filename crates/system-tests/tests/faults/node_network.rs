//! The operator of the nodes' networks, as faults need it.

pub use crate::system::node_network::agents;

/// The namespace of operator and agents.
pub const NAMESPACE: &str = "nmstate";
/// The agent's DaemonSet, and its ServiceAccount.
pub const AGENT: &str = "nmstate-handler";
