//! `nmstate.io`: the networks of the nodes themselves, as they are and as they should be.
//!
//! One module a kind:
//!
//! - [`state`]: `NodeNetworkState`, what a node's network is, and what that node alone should have;
//! - [`policy`]: `NodeNetworkConfigurationPolicy`, what the networks of some nodes should be;
//! - [`enactment`]: `NodeNetworkConfigurationEnactment`, one policy on one node;
//! - [`installation`]: `NMState`, which brings the agent to the nodes.
//!
//! Next to the types: [`crds`], the definitions with schema, CEL rules and printer columns, and
//! [`admission`], the rules that a schema cannot hold, and who may write what. Both are written to
//! `deploy/` by `cargo run -p weft-api --example generate`.
//!
//! The desired and the reported state of a network are JSON here: their form is that of nmstate,
//! grows with it, and is checked where nmstate is linked.

mod admission;
mod crd;
pub mod enactment;
pub mod installation;
pub mod patterns;
pub mod policy;
mod rules;
mod schemas;
pub mod state;
#[cfg(test)]
mod tests;

pub use admission::{AGENT_ACCOUNT, AGENTS_POLICY, NODES_POLICY, admission};
pub use crd::crds;
pub use enactment::{
    CapturedState, Decision, Granted, NodeNetworkConfigurationEnactment,
    NodeNetworkConfigurationEnactmentSpec, NodeNetworkConfigurationEnactmentStatus, NodeValues,
    Outcome, PoolAddress, StateMetaInfo, Waits, Wanted,
};
pub use installation::{
    DnsProbeConfiguration, InterfaceFilter, MetricsConfiguration, NMState, NMStateSpec,
    NMStateStatus, ProbeConfiguration, SelfSignConfiguration, WithoutNetworkManager,
};
pub use policy::{
    AddressPool, AutoConfig, DnsProbe, HttpProbe, IcmpProbe, InterfaceMatch, LldpMatch, Match,
    NodeAddress, NodeNetworkConfigurationPolicy, NodeNetworkConfigurationPolicySpec,
    NodeNetworkConfigurationPolicyStatus, Probe, TcpProbe,
};
pub use state::{
    NodeNetworkChange, NodeNetworkState, NodeNetworkStateSpec, NodeNetworkStateStatus,
};

/// The API group.
pub const GROUP: &str = "nmstate.io";
/// One of the versions. All kinds have it.
pub const VERSION_V1: &str = "v1";
/// The other version. All kinds have it, with the same schema.
pub const VERSION_V1BETA1: &str = "v1beta1";
/// The version that is not served any more, and may be stored in old clusters.
pub const VERSION_V1ALPHA1: &str = "v1alpha1";
/// The label of an enactment that names its node, by [`node_label`].
pub const NODE_LABEL: &str = "nmstate.io/node";
/// The label of an enactment that names its policy.
pub const POLICY_LABEL: &str = "nmstate.io/policy";
/// The condition of a Node that is True once all policies that are for it are applied.
pub const NODE_CONDITION: &str = "weft.network/NodeNetworkReady";
/// The taint that the operator takes from a node once [`NODE_CONDITION`] is True. The kubelet sets it
/// when it registers the node.
pub const STARTUP_TAINT: &str = "weft.network/node-network-not-ready";
/// How long the value of a label is at most.
const LABEL: usize = 63;

/// Returns the value of [`NODE_LABEL`] for a node, which is the node's name if it fits.
///
/// A node's name may have 253 characters, and a label's value 63. The value for a longer name is
/// the beginning of the name and 16 hexadecimal digits of its hash (FNV-1a, 64 bits), because other
/// names may begin alike.
pub fn node_label(node: &str) -> String {
    if node.len() <= LABEL {
        return node.to_owned();
    }
    let hash = node.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let beginning: String = node.chars().take(LABEL - 17).collect();
    format!("{beginning}-{hash:016x}")
}

/// The label of a `NodeNetworkState` whose change makes the agent report at once.
pub const FORCE_REFRESH_LABEL: &str = "nmstate.io/force-nns-refresh";
/// The annotation of a `NodeNetworkState` that says until when, at the latest, an agent acts on
/// that node on demand. Such an agent has no pod of the DaemonSet by which to find it.
pub const AGENT_UNTIL_ANNOTATION: &str = "weft.network/agent-until";
/// The annotation of a policy whose change makes nodes where it failed try again.
pub const RETRY_ANNOTATION: &str = "weft.network/retry";
/// The condition of a NodeNetworkState that is True while the host differs from its state before a
/// change that the agent rolled back.
pub const ROLLBACK_INCOMPLETE: &str = "RollbackIncomplete";
