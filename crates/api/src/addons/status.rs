//! The status: what the operator reports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Condition;

/// What became of the specification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkAddonsConfigStatus {
    /// The metadata.generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The version of the operator that wrote this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_version: Option<String>,

    /// The version that the components are being brought to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_version: Option<String>,

    /// The version that all components have reached. Equal to targetVersion once an upgrade is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_version: Option<String>,

    /// Available, Progressing and Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,

    /// One entry a component.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<ComponentStatus>,

    /// The containers of all components with their images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Container>,
}

/// How one component is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// The component, as its field in the specification is called.
    pub name: String,

    /// Available, Progressing, Degraded ...
    pub state: String,

    /// What is the matter, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A container of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// The kind of the workload: DaemonSet or Deployment.
    pub parent_kind: String,

    /// The name of the workload.
    pub parent_name: String,

    /// The name of the container.
    pub name: String,

    /// Its image.
    pub image: String,
}
