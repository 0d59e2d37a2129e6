//! A real API server that serves placement.openstack.org.

use std::path::{Path, PathBuf};

use serde_json::Value;
use weft_testenv::{ControlPlane, Lent};

use super::{
    answers::eventually,
    cases::{cases, object},
    table::By,
};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn definition() -> PathBuf {
    root().join("deploy/crds/placementapis.placement.openstack.org.yaml")
}

pub fn policy() -> PathBuf {
    root().join("deploy/admission/placement.yaml")
}

/// A control plane that serves PlacementAPI and enforces its policy.
pub async fn control_plane() -> Lent {
    let cluster = ControlPlane::builder().api_only().lend().await.unwrap();
    for file in [definition(), policy()] {
        apply(&cluster, &file).await;
    }
    // Both come into force a moment after they were made.
    let cases = cases();
    let refused = cases
        .refused
        .iter()
        .find(|case| case.by == By::Policy)
        .unwrap();
    eventually(
        async || match create(&cluster, &object(&refused.spec)).await {
            Err(error) if error.contains(&refused.message) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    cluster
}

/// Applies a file as users do.
pub async fn apply(cluster: &ControlPlane, file: &Path) {
    cluster
        .kubectl(&["apply", "-f", file.to_str().unwrap()])
        .await
        .unwrap();
}

/// As kubectl does it, with fields that are not known refused.
pub async fn create(cluster: &ControlPlane, object: &Value) -> Result<String, String> {
    let args = ["create", "--dry-run=server", "--validate=strict", "-f", "-"];
    cluster
        .kubectl_with_input(&args, &object.to_string())
        .await
        .map_err(|error| error.to_string())
}

/// A PlacementAPI as it is stored.
pub async fn read(cluster: &ControlPlane, name: &str) -> Value {
    serde_json::from_str(
        &cluster
            .kubectl(&["get", "placementapi", name, "-o", "json"])
            .await
            .unwrap(),
    )
    .unwrap()
}
