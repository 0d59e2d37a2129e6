//! The cluster's network: NetworkConfig on the real control plane. Its pods are kwok's, so nothing
//! here carries a packet.

mod adopted;
mod documented;
mod endpoint;
mod life;
mod networks;
mod nodes;
mod services;
mod takeover;
mod terminating;

use std::{path::Path, process::Output};

use serde_json::Value;
use weft_plan::kinds;

use weft_system_tests::*;

/// The namespace of operator and record.
pub const NAMESPACE: &str = "openshift-cluster-network-operator";
/// The namespace of OpenShift SDN.
pub const SDN: &str = "openshift-sdn";
/// The name of the ConfigMap with the record of what is applied.
pub const RECORD: &str = "applied-default";

/// A control plane with the operator of this domain installed.
pub async fn start() -> Cluster {
    Cluster::start(options()).await
}

/// The same as options.
pub fn options() -> ClusterOptions {
    ClusterOptions {
        manifests: &["--split", "--domains", "cluster-network"],
        resource: (kinds::NETWORK_CONFIG, "default"),
        ..Default::default()
    }
}

/// The smallest NetworkConfig that works: the example that Weft ships.
pub fn minimal() -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/cluster-network/example.yaml"),
    )
    .unwrap()
}

/// A NetworkConfig with this specification.
pub fn config(spec: &Value) -> String {
    serde_json::json!({
        "apiVersion": "networkoperator.openshift.io/v1", "kind": "NetworkConfig",
        "metadata": {"name": "default"}, "spec": spec
    })
    .to_string()
}

/// The record's configuration. Null if there is no record.
pub async fn record(cluster: &Cluster) -> Value {
    let map = cluster.get(kinds::CONFIG_MAP, NAMESPACE, RECORD).await;
    map.map(|map| serde_json::from_str(map["data"]["applied"].as_str().unwrap()).unwrap())
        .unwrap_or_default()
}

/// Reports whether everything that was asked for, or is recorded, is in what was decided.
pub fn holds(decided: &Value, asked: &Value) -> bool {
    match asked {
        Value::Object(fields) => fields
            .iter()
            .all(|(field, value)| holds(&decided[field], value)),
        asked => decided == asked,
    }
}

/// `weft ARGUMENTS` as admin, with this on stdin.
pub async fn weft(cluster: &Cluster, arguments: &[&str], stdin: &str) -> Output {
    use tokio::io::AsyncWriteExt;
    let mut child = tokio::process::Command::new(weft_binary())
        .args(arguments)
        .env("KUBECONFIG", cluster.control_plane.kubeconfig())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // It may end without reading all of it.
    let _ = child
        .stdin
        .take()
        .unwrap()
        .write_all(stdin.as_bytes())
        .await;
    answer_within(COMMAND_LIMIT, "weft", child.wait_with_output())
        .await
        .unwrap()
}

/// Returns both streams of the output.
pub fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
