//! The status: what the operator reports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Condition;

/// The observed state of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkConfigStatus {
    /// The metadata.generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state as a whole: Available, Progressing, Degraded and Upgradeable, and while they hold,
    /// Blocked, Paused and Drifted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// The configuration that is in force, in the form of the specification, with everything filled
    /// in that was left open there. While a change is refused it is the last good one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = "object", "x-kubernetes-preserve-unknown-fields" = true))]
    pub effective_configuration: Option<Value>,

    /// A change that is not carried out, because it would cut connections or lose addresses. The
    /// effective configuration stays in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_change: Option<RefusedChange>,

    /// The type of the default network that has once been on all nodes. From then on pods use it,
    /// and its MTU stays as it is. Until then, the operator lowers the MTU to fit the MTUs that the
    /// nodes report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub established_network: Option<String>,

    /// The state of each additional network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub additional_networks: Vec<AdditionalNetworkStatus>,

    /// Hints that stop nothing, for example that nodes differ in their MTU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub notices: Vec<String>,
}

/// A change that is not carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedChange {
    /// The fields that may not change like this.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub fields: Vec<RefusedField>,

    /// How to undo the change, or to have it nevertheless.
    pub way_out: String,
}

/// A field that may not change like this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedField {
    /// Its path, for example spec.defaultNetwork.type.
    pub field: String,

    /// The value in force.
    pub old: String,

    /// The value that is asked for.
    pub new: String,

    /// Why it may not change.
    pub reason: String,
}

/// The state of one additional network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdditionalNetworkStatus {
    /// Its namespace.
    pub namespace: String,

    /// Its name.
    pub name: String,

    /// Its state in one word, for example Available, Invalid or MultusMissing.
    pub state: String,

    /// The trouble of the network and the way out, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
