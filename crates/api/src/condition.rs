//! An entry of `status.conditions`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One aspect of an object's state, such as `Available`.
///
/// The shape is the one of Kubernetes (`metav1.Condition`), but only `type` and `status` are
/// required: operators that Weft replaces wrote conditions without reason, message or transition
/// time, and those are read back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition, for example Available, Progressing or Degraded.
    #[serde(rename = "type")]
    pub type_: String,

    /// True, False or Unknown.
    pub status: String,

    /// A word in CamelCase for programs: why the condition has this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// A text for people: what is the matter and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// When status last changed from one value to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,

    /// When anything in this condition last changed. Weft sets this time in
    /// NodeNetworkConfigurationPolicies and NodeNetworkConfigurationEnactments only. The operators
    /// that Weft replaces set it with every reconcile, which would be a write with every reconcile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,

    /// The metadata.generation of the object that this condition was computed from. Smaller than
    /// the object's own: the condition does not know of the latest change yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
