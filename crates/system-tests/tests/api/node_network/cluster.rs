//! A real API server that serves nmstate.io.

use std::{
    fmt::{Debug, Display},
    path::{Path, PathBuf},
};

use serde_json::Value;
use weft_testenv::{ControlPlane, Lent};

use super::answers::{self, eventually};

pub const DEFINITIONS: [&str; 4] = [
    "crds/nodenetworkstates.nmstate.io.yaml",
    "crds/nodenetworkconfigurationpolicies.nmstate.io.yaml",
    "crds/nodenetworkconfigurationenactments.nmstate.io.yaml",
    "crds/nmstates.nmstate.io.yaml",
];
pub const ADMISSION: &str = "admission/node-network.yaml";

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn deploy(path: &str) -> PathBuf {
    root().join("deploy").join(path)
}

/// A control plane with the definitions and nothing else.
pub async fn with_definitions() -> Lent {
    let cluster = ControlPlane::builder().api_only().lend().await.unwrap();
    for file in DEFINITIONS {
        apply(&cluster, &deploy(file)).await;
    }
    for version in ["v1", "v1beta1"] {
        served(&cluster, version).await;
    }
    cluster
}

/// Applies a file as users do.
pub async fn apply(cluster: &ControlPlane, file: &Path) {
    cluster
        .kubectl(&["apply", "-f", file.to_str().unwrap()])
        .await
        .unwrap();
}

/// Waits until all kinds of a version can be read. A definition comes into force a moment after it
/// was made.
pub async fn served(cluster: &ControlPlane, version: &str) {
    let kinds = [
        "nodenetworkstates",
        "nodenetworkconfigurationpolicies",
        "nodenetworkconfigurationenactments",
        "nmstates",
    ];
    for kind in kinds {
        eventually(async || {
            cluster
                .kubectl(&["get", &format!("{kind}.{version}.nmstate.io")])
                .await
        })
        .await;
    }
}

/// Waits until it is refused with these words. A policy comes into force a moment after it was
/// made.
pub async fn refused_in_time<T: Debug, E: Display>(
    ask: impl AsyncFn() -> Result<T, E>,
    words: &str,
) {
    eventually(async || match ask().await {
        Err(error) if error.to_string().contains(words) => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(answer) => Err(format!("not refused: {answer:?}")),
    })
    .await;
}

/// See [`answers::create`].
pub async fn create(cluster: &ControlPlane, object: &Value) -> Result<(), String> {
    answers::create(&cluster.client(), object).await
}

/// An object as JSON, read as this version.
pub async fn read(cluster: &ControlPlane, resource: &str, name: &str) -> Value {
    serde_json::from_str(
        &cluster
            .kubectl(&["get", resource, name, "-o", "json"])
            .await
            .unwrap(),
    )
    .unwrap()
}

/// The API server keeps no null that is not asked for, and a patch takes such a field away: what is
/// null is as if left out.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
