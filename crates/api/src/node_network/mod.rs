//! `nmstate.io`: the networks of the nodes themselves, as they are and as they should be.
//!
//! One module a kind:
//!
//! - [`state`]: `NodeNetworkState`, what a node's network is, and what that node alone should have;
//! - [`policy`]: `NodeNetworkConfigurationPolicy`, what the networks of some nodes should be;
//! - [`enactment`]: `NodeNetworkConfigurationEnactment`, one policy on one node;
//! - [`installation`]: `NMState`, which brings the agent to the nodes.
//!
//! Beside the types: [`crds`], the definitions with schema, CEL rules and printer columns, and [`admission`], the rules that a schema cannot
//! hold, and who may write what. Both are written to `deploy/` by `cargo run -p weft-api --example generate`.
//!
//! The desired and the reported state of a network are JSON here: their form is that of nmstate, grows with it, and is checked where nmstate is
//! linked.

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

pub use admission::{AGENTS_POLICY, AGENT_ACCOUNT, admission};
pub use crd::crds;
pub use enactment::{
    CapturedState, Decision, Granted, NodeNetworkConfigurationEnactment, NodeNetworkConfigurationEnactmentSpec,
    NodeNetworkConfigurationEnactmentStatus, Outcome, StateMetaInfo, Wanted,
};
pub use installation::{
    DnsProbeConfiguration, InterfaceFilter, MetricsConfiguration, NMState, NMStateSpec, NMStateStatus, ProbeConfiguration,
    SelfSignConfiguration,
};
pub use policy::{
    AutoConfig, DnsProbe, HttpProbe, IcmpProbe, InterfaceMatch, LldpMatch, Match, NodeNetworkConfigurationPolicy,
    NodeNetworkConfigurationPolicySpec, NodeNetworkConfigurationPolicyStatus, Probe, TcpProbe,
};
pub use state::{NodeNetworkState, NodeNetworkStateSpec, NodeNetworkStateStatus};

/// The API group.
pub const GROUP: &str = "nmstate.io";
/// One of the versions. All kinds but the enactment have it.
pub const VERSION_V1: &str = "v1";
/// The other version. All kinds have it, with the same schema.
pub const VERSION_V1BETA1: &str = "v1beta1";
/// The version that is not served any more, and may be stored in old clusters.
pub const VERSION_V1ALPHA1: &str = "v1alpha1";
/// The label of an enactment that names its node.
pub const NODE_LABEL: &str = "nmstate.io/node";
/// The label of an enactment that names its policy.
pub const POLICY_LABEL: &str = "nmstate.io/policy";
/// The label of a `NodeNetworkState` whose change makes the agent report at once.
pub const FORCE_REFRESH_LABEL: &str = "nmstate.io/force-nns-refresh";
/// The annotation of a policy whose change makes nodes where it failed try again.
pub const RETRY_ANNOTATION: &str = "weft.network/retry";
