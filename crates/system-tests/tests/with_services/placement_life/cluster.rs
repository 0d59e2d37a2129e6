//! PlacementAPI `placement` in a real control plane.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};
use weft_plan::{Kind, kinds};

use weft_system_tests::*;

pub const NAMESPACE: &str = "openstack";

/// With a node, whose pods are kwok's.
pub async fn start() -> Cluster {
    start_with(1).await
}

/// With none: what becomes of the pods is the test's affair.
pub async fn start_without_nodes() -> Cluster {
    start_with(0).await
}

async fn start_with(nodes: usize) -> Cluster {
    let resource = (kinds::PLACEMENT_API, "placement");
    let options = ClusterOptions {
        nodes,
        manifests: &["--split", "--domains", "placement"],
        resource,
        resource_namespace: NAMESPACE,
        ..Default::default()
    };
    Cluster::start(options).await
}

pub fn placement_api(spec: &Value) -> String {
    let metadata = json!({"name": "placement", "namespace": NAMESPACE});
    json!({
        "apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
        "metadata": metadata, "spec": spec
    })
    .to_string()
}

pub async fn secret(cluster: &Cluster, name: &str, values: &[(&str, &str)]) {
    apply_secret(cluster, name, values, json!({})).await;
}

/// The same, and its values may be sent to this Keystone.
pub async fn secret_for(keystone: &str, cluster: &Cluster, name: &str, values: &[(&str, &str)]) {
    apply_secret(
        cluster,
        name,
        values,
        json!({"weft.network/keystone-url": keystone}),
    )
    .await;
}

async fn apply_secret(cluster: &Cluster, name: &str, values: &[(&str, &str)], annotations: Value) {
    let data: BTreeMap<_, _> = values.iter().copied().collect();
    let metadata = json!({"name": name, "namespace": NAMESPACE, "annotations": annotations});
    cluster
        .apply(
            &json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data
            })
            .to_string(),
        )
        .await;
}

pub async fn get(cluster: &Cluster, kind: Kind, name: &str) -> Option<Value> {
    cluster.get(kind, NAMESPACE, name).await
}

/// Waits until the PlacementAPI is like this.
pub async fn wait(cluster: &Cluster, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    wait_until(what, async || {
        let live = get(cluster, kinds::PLACEMENT_API, "placement")
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
pub async fn wait_condition(cluster: &Cluster, name: &str, status: &str, message: &str) -> Value {
    wait(cluster, &format!("{name} {status} {message:?}"), |live| {
        let found = condition(&live["status"], name);
        found["status"] == status
            && found["message"]
                .as_str()
                .unwrap_or_default()
                .contains(message)
    })
    .await
}

pub async fn wait_ready(cluster: &Cluster) -> Value {
    wait_condition(cluster, "Ready", "True", "Setup complete").await
}

/// Waits until it is gone.
pub async fn wait_gone(cluster: &Cluster) {
    wait_until("it is gone", async || {
        match get(cluster, kinds::PLACEMENT_API, "placement").await {
            None => Ok(()),
            Some(live) => Err(format!("{live:#}")),
        }
    })
    .await;
}

/// Returns the wanted pods of the Job and of the Deployment.
pub async fn pods(cluster: &Cluster) -> (PodSpec, PodSpec) {
    let jobs = cluster
        .kubectl(&["-n", NAMESPACE, "get", "jobs", "-o", "json"])
        .await;
    let jobs: Value = serde_json::from_str(&jobs).unwrap();
    // One that did the same for an earlier pod stays for ten minutes.
    let done = &get(cluster, kinds::PLACEMENT_API, "placement")
        .await
        .unwrap()["status"]["hash"]["dbsync"];
    let job = jobs["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|job| job["metadata"]["annotations"]["hash"] == *done);
    let deployment = get(cluster, kinds::DEPLOYMENT, "placement").await.unwrap();
    let pod = |of: &Value| serde_json::from_value(of["spec"]["template"]["spec"].clone()).unwrap();
    (pod(job.unwrap()), pod(&deployment))
}
