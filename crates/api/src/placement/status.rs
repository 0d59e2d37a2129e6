//! The status: what the operator reports.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The observed state of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementApiStatus {
    /// How many pods are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_count: Option<i32>,

    /// Hashes of what was done: input is that of everything the pods read, dbsync that of the last
    /// synchronisation of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<BTreeMap<String, String>>,

    /// The state, step by step. Ready, the state as a whole, is the first of them, the others
    /// follow by name.
    // Not a map by type: kubectl get shows the first one, so the order is part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub conditions: Vec<Condition>,

    /// The host of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_hostname: Option<String>,

    /// The addresses of the pods on each network, by namespace and name of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("additionalProperties" = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}))]
    pub network_attachments: Option<BTreeMap<String, Vec<String>>>,

    /// The metadata.generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The Topology that the pods were last placed by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_topology: Option<AppliedTopology>,

    /// The Secret of the application credential that pods use, which is kept from being deleted by
    /// a finalizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_credential_secret: Option<String>,

    /// The hash of the input that all pods are proven to run with. It changes only after the last
    /// pod was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_input_secret_hash: Option<String>,
}

/// A Topology that was used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppliedTopology {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// One step of what has to be done. The form is that of the OpenStack operators, which have a
/// severity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The step, for example DBSyncReady.
    #[serde(rename = "type")]
    pub type_: String,

    /// True, False or Unknown.
    pub status: String,

    /// How bad it is, where status is False: Error, Warning or Info. Empty otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,

    /// A word in CamelCase for programs: why the condition has this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// A text for people: what is the matter and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// When status, reason, severity or message last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}
