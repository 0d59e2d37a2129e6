//! `NodeNetworkState`: the network of one node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::GROUP;
use super::schemas;
use crate::{Condition, resource::custom_resource};

/// The version that is stored: the one that kubernetes-nmstate stores, so that its definition may
/// be applied over this one and back.
pub const VERSION: &str = super::VERSION_V1BETA1;
/// The kind.
pub const KIND: &str = "NodeNetworkState";
/// The name of the resource in URLs and RBAC rules.
pub const PLURAL: &str = "nodenetworkstates";

custom_resource! {
    /// The network of the node of the same name. Cluster-scoped.
    NodeNetworkState, NodeNetworkStateSpec, NodeNetworkStateStatus, self
}

/// The wishes for this node only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkStateSpec {
    /// Lets the agent change this node. With false it changes nothing there, whatever policies say,
    /// and reports nothing. Left out: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<bool>,

    /// The node that the object is about. Left out: the one of the same name. No other is acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,

    /// The wanted network of this node, in the form of nmstate. It is merged over what the policies
    /// say, and stronger than all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::open")]
    pub desired_state: Option<Value>,
}

/// The observed network of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkStateStatus {
    /// The network as it is, in the form of nmstate, with capabilities: what can be configured on
    /// this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::open")]
    pub current_state: Option<Value>,

    /// When the current state last changed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_successful_update_time: Option<Time>,

    /// The version of NetworkManager on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_network_manager_version: Option<String>,

    /// Never set. Kept for objects that kubernetes-nmstate wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_network_manager_version: Option<String>,

    /// The version of nmstate in the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_nmstate_version: Option<String>,

    /// The metadata.generation of the object that the agent acted on last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How far the report can be relied on: Backend (False: without NetworkManager the node is only
    /// read) and Complete (False: parts were left out), of the object's own desired state Available
    /// and Failing, and RollbackIncomplete while the node differs from its state before a change that
    /// was rolled back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// The last changes of the node's network by the agent, the newest first: at most 20, and fewer
    /// if they are long. A mask replaces secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub history: Vec<NodeNetworkChange>,
}

/// One change of a node's network by its agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkChange {
    /// The number of the change on this node, from 1. `weft-agent rollback --number` takes it.
    pub number: i64,

    /// When the change was made or rolled back.
    pub at: Time,

    /// The owner of the change, for example the names of policies.
    pub what: String,

    /// Why the change was rolled back. Left out: the change was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,

    /// The changed properties, in the lines of `weft-agent plan`: `~ PATH: FROM -> TO`,
    /// `+ PATH: TO` or `- PATH`. The last line gives the number of lines that are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub differences: Vec<String>,
}
