//! Node objects for kwok.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;

/// Creates a node. Capacity and allocatable are given (a Node may be created with its status):
/// without them the scheduler places no pod on it before kwok has seen it.
pub(crate) async fn create(
    client: &kube::Client,
    name: &str,
    labels: &[(&str, &str)],
) -> Result<()> {
    let mut all = BTreeMap::from([
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", name),
    ]);
    all.extend(labels.iter().copied());
    let resources =
        json!({"cpu": "32", "memory": "128Gi", "pods": "500", "ephemeral-storage": "100Gi"});
    let node: Node = serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": all},
        "status": {"capacity": resources, "allocatable": resources},
    }))?;
    Api::all(client.clone())
        .create(&PostParams::default(), &node)
        .await?;
    Ok(())
}

/// Are all nodes Ready and free of the taints that new nodes carry until the node lifecycle
/// controller has seen that?
pub(crate) async fn all_ready(client: &kube::Client) -> Result<bool> {
    let nodes = Api::<Node>::all(client.clone())
        .list(&ListParams::default())
        .await?;
    Ok(nodes.iter().all(|node| {
        let conditions = node
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten());
        let mut taints = node
            .spec
            .iter()
            .flat_map(|spec| spec.taints.iter().flatten());
        conditions
            .into_iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
            && !taints.any(|taint| taint.key.starts_with("node.kubernetes.io/"))
    }))
}
