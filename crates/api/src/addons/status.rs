//! The status: what the operator reports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Condition, DriftedObject};

/// The observed state of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkAddonsConfigStatus {
    /// The metadata.generation that this status was computed from. Smaller than the object's own:
    /// the status does not know of the latest change yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The version of the operator that wrote this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_version: Option<String>,

    /// The version that the components are being brought to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_version: Option<String>,

    /// The version that all components have reached. An upgrade is complete once it equals
    /// targetVersion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_version: Option<String>,

    /// The state as a whole: Available (all components work), Progressing (something is being
    /// rolled out), Degraded (something failed and the message says what), and while they hold,
    /// Blocked (another operator holds the components), Paused and Drifted (objects are not as they
    /// should be and are left so).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// The configuration that is in force, in the form of the specification, with everything filled
    /// in that was left open there: a random MAC range, what stays from before, defaults. While a
    /// change is refused it is the last good one.
    // Not typed: the schema of the specification would be there once more, in both versions, and
    // with it the CRD twice as large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("type" = "object", "x-kubernetes-preserve-unknown-fields" = true))]
    pub effective_configuration: Option<Value>,

    /// The state of each component.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub components: Vec<ComponentStatus>,

    /// Objects that others have changed or deleted and that differ for now: because driftPolicy is
    /// Report, the resource is paused, or others change them after each repair. The first few, if
    /// they are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub drift: Vec<DriftedObject>,

    /// The containers of all components, init containers included, with their images.
    // The key is unique: within a pod an init container may not share its name with a container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["parentKind", "parentName", "name"]
    ))]
    pub containers: Vec<Container>,
}

/// The state of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// The component, under the name of its field in the spec, for example kubeMacPool.
    pub name: String,

    /// Its state in one word, for example Available, Progressing or Degraded.
    pub state: String,

    /// The trouble of the component and the way out, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A container of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// The kind of the workload that the container belongs to: DaemonSet or Deployment.
    pub parent_kind: String,

    /// The name of the workload that the container belongs to.
    pub parent_name: String,

    /// The name of the container.
    pub name: String,

    /// The image that the container runs.
    pub image: String,
}
