//! `NodeNetworkConfigurationEnactment`: one policy on one node.
//!
//! The operator writes metadata and specification, the agent of the node writes the status.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::GROUP;
use super::{NodeNetworkConfigurationPolicySpec, schemas};
use crate::{Condition, resource::custom_resource};

/// The version that is stored.
pub const VERSION: &str = super::VERSION_V1BETA1;
/// The kind.
pub const KIND: &str = "NodeNetworkConfigurationEnactment";
/// The name of the resource in URLs and RBAC rules.
pub const PLURAL: &str = "nodenetworkconfigurationenactments";

custom_resource! {
    /// One policy on one node, named `<node>.<policy>`. Cluster-scoped.
    NodeNetworkConfigurationEnactment, NodeNetworkConfigurationEnactmentSpec, NodeNetworkConfigurationEnactmentStatus, self
}

/// The operator's decision about this policy on this node.
///
/// An enactment that kubernetes-nmstate made has none of this.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkConfigurationEnactmentSpec {
    /// The name of the policy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy: String,

    /// The metadata.uid of the policy: one that was deleted and recreated under this name is
    /// another one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy_uid: String,

    /// The name of the node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_name: String,

    /// The wanted state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Wanted>,

    /// The state that the node may apply. Omitted if it may apply nothing yet. While a newer
    /// generation is not granted, this is the older one, and the node keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<Granted>,
}

/// The wanted state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wanted {
    /// The metadata.generation of the policy.
    pub generation: i64,

    /// Granted: the node applies it. Pending: it waits for other nodes. Aborted: it failed
    /// elsewhere and is not tried here. Revert: the policy goes, and the node puts back what it
    /// changed.
    #[schemars(schema_with = "schemas::decision")]
    pub decision: Decision,

    /// The value of the policy's annotation weft.network/retry: another value makes a node where it
    /// failed try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,

    /// The cause of Pending, if the node waits for something else than other nodes: a value that
    /// the desired state refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
}

/// The thing that a node waits for, next to its turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    /// The reason of the condition Pending, for example WaitingForValue.
    pub reason: String,

    /// The field, the missing value, the rule and the fix.
    pub message: String,
}

/// The operator's decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// The node applies it.
    Granted,
    /// It waits for other nodes.
    #[default]
    Pending,
    /// It failed elsewhere and is not tried here.
    Aborted,
    /// The policy goes, and the node puts back what it changed.
    Revert,
    /// A word of a newer operator. Nothing is done about it.
    #[serde(other)]
    Unknown,
}

/// The state that the node may apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Granted {
    /// The metadata.generation of the policy.
    pub generation: i64,

    /// The specification of the policy at that generation.
    #[schemars(schema_with = "schemas::open")]
    pub spec: NodeNetworkConfigurationPolicySpec,

    /// The values of the node that the desired state refers to. Omitted if it refers to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<NodeValues>,
}

/// The values of a node that a desired state refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeValues {
    /// The name of the node, for {{ node.name }}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// Labels of the node, for {{ node.labels["KEY"] }}.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Annotations of the node, for {{ node.annotations["KEY"] }}.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,

    /// Addresses of the node, by the pool of the policy, for {{ pool.NAME.ip }} and
    /// {{ pool.NAME.prefix-length }}.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<String, PoolAddress>,
}

/// An address of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolAddress {
    /// The address.
    pub ip: String,

    /// The length of its prefix.
    pub prefix_length: i64,
}

/// The result on the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkConfigurationEnactmentStatus {
    /// The state that the policy makes for this node: captures resolved, defaults of bridge ports
    /// filled in, secrets left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::open")]
    pub desired_state: Option<Value>,

    /// Never set. Kept for objects that kubernetes-nmstate wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_state_meta_info: Option<StateMetaInfo>,

    /// The results of the policy's captures on this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_states: Option<BTreeMap<String, CapturedState>>,

    /// The metadata.generation of the policy that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_generation: Option<i64>,

    /// The metadata.generation of the enactment that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state: Progressing, Failing, Available, Pending, Aborted, of which one is True, and
    /// while they hold, Drifted (the node is no longer as the policy says), Conflict (another
    /// policy of the same priority says something else), NeighborsMissing (interfaces that the
    /// policy matches by LLDP hear no neighbor), ProbesLeftOut (something was out of reach before
    /// the last try already, so it was not checked) and BridgeTrafficFiltered (packets between ports
    /// of the policy's bridges pass the host's firewall).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// Features of nmstate that the desired state uses, in nmstate's words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub features: Vec<String>,

    /// How often it was tried again, by the generation of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<BTreeMap<String, i64>>,

    /// Why the last try failed, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// A state that a policy's capture stands for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapturedState {
    /// The state, in the form of nmstate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::open")]
    pub state: Option<Value>,

    /// When it was captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_info: Option<StateMetaInfo>,
}

/// Where a state comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StateMetaInfo {
    /// The version of nmstate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// The time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
}

/// Why a try failed. Values are short: of a large one the beginning, of a secret nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Where it failed, for example Render, Apply, Verify or Probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,

    /// The probe that found something out of reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<String>,

    /// The property that is not as wanted, for example interfaces[eth1].ipv4.address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,

    /// The wanted value of the property.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,

    /// The live value of the property.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,

    /// The event, and the way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
