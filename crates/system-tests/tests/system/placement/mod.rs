//! Placement on the real control plane. Its pods are kwok's: what they would read is looked at, not
//! run. The real service runs in the tests of `weft-placement`.

mod behaviours;
mod metrics;
mod neighbours;
mod operators;
mod others;
mod permission;
mod released;
pub mod site;
mod standalone;
mod trouble;

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use weft_plan::{Kind, kinds};

use weft_system_tests::*;

/// The namespace that is served unless another is chosen.
pub const NAMESPACE: &str = "openstack";

/// A control plane with the operator of this domain installed.
pub async fn start() -> Cluster {
    Cluster::start(options()).await
}

/// The same as options.
pub fn options() -> ClusterOptions {
    ClusterOptions {
        nodes: 1,
        manifests: &["--split", "--domains", "placement"],
        resource: (kinds::PLACEMENT_API, "placement"),
        resource_namespace: NAMESPACE,
        ..Default::default()
    }
}

/// The same with an operator that serves all namespaces.
pub fn everywhere() -> ClusterOptions {
    ClusterOptions {
        manifests: &[
            "--split",
            "--domains",
            "placement",
            "--placement-namespaces",
            "*",
        ],
        ..options()
    }
}

/// A PlacementAPI of this name.
pub fn placement_api(name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec
    })
    .to_string()
}

/// One that needs no other operator: it believes its clients, and its database is in the Secret
/// `placement-db`.
pub fn standalone() -> Value {
    json!({"auth": {"strategy": "noauth2"}, "database": {"urlSecret": {"name": "placement-db"}}})
}

/// A Secret with these values.
pub async fn secret(cluster: &Cluster, name: &str, values: &[(&str, &str)]) {
    let data: BTreeMap<_, _> = values.iter().copied().collect();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
        "stringData": data
    });
    cluster.apply(&secret.to_string()).await;
}

/// The Secret of the database of [`standalone`].
pub async fn database(cluster: &Cluster, password: &str) {
    secret(
        cluster,
        "placement-db",
        &[(
            "url",
            &format!("mysql+pymysql://placement:{password}@db.example/placement"),
        )],
    )
    .await;
}

/// An object in the namespace, or `None`.
pub async fn get(cluster: &Cluster, kind: Kind, name: &str) -> Option<Value> {
    cluster.get(kind, NAMESPACE, name).await
}

/// Returns the content of a file of a PlacementAPI.
pub async fn file(cluster: &Cluster, name: &str, file: &str) -> String {
    let secret = get(cluster, kinds::SECRET, &format!("{name}-config-data"))
        .await
        .unwrap_or_default();
    String::from_utf8(
        STANDARD
            .decode(secret["data"][file].as_str().unwrap_or_default())
            .unwrap(),
    )
    .unwrap()
}

/// Waits until the PlacementAPI is like this, and its status about its latest generation.
pub async fn wait(
    cluster: &Cluster,
    name: &str,
    what: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Value {
    wait_until(&format!("{name}: {what}"), async || {
        let live = get(cluster, kinds::PLACEMENT_API, name)
            .await
            .ok_or("it is not there")?;
        let is_current = live["status"]["observedGeneration"] == live["metadata"]["generation"];
        if is_current && is_so(&live) {
            Ok(live)
        } else {
            Err(format!("{:#}", live["status"]))
        }
    })
    .await
}

/// Waits until a condition has this status and message.
pub async fn wait_condition(
    cluster: &Cluster,
    name: &str,
    condition_type: &str,
    status: &str,
    message: &str,
) -> Value {
    wait(
        cluster,
        name,
        &format!("{condition_type} {status} {message:?}"),
        |live| {
            let found = condition(&live["status"], condition_type);
            found["status"] == status
                && found["message"]
                    .as_str()
                    .unwrap_or_default()
                    .contains(message)
        },
    )
    .await
}

/// Waits until all is well.
pub async fn wait_ready(cluster: &Cluster, name: &str) -> Value {
    wait_condition(cluster, name, "Ready", "True", "Setup complete").await
}

/// The hash by which the pods are replaced.
pub async fn config_hash(cluster: &Cluster, name: &str) -> String {
    let deployment = get(cluster, kinds::DEPLOYMENT, name)
        .await
        .unwrap_or_default();
    let variables = deployment
        .pointer("/spec/template/spec/containers/0/env")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let found = variables
        .iter()
        .find(|variable| variable["name"] == "CONFIG_HASH");
    found
        .and_then(|variable| variable["value"].as_str())
        .unwrap_or_default()
        .to_owned()
}
