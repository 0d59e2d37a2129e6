//! Users who may write objects in one namespace put Weft's label on large ones: the operator's
//! memory does not grow with them.

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use weft_plan::{Kind, OWNER_LABEL, kinds};

use crate::system::{cluster_network, harness::*};

/// How many objects, and how large each is: nearly as large as the API server allows.
const OBJECTS: usize = 100;
const SIZE: usize = 900_000;
/// The most memory that the operator may have had, in KiB. Together the objects are as large again.
const LIMIT: u64 = 90 * 1024;

#[tokio::test]
async fn memory_of_addons_does_not_grow_with_labelled_foreign_objects() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    let api = "networkaddonsoperator.network.kubevirt.io/v1";
    cluster.apply(&format!("{{apiVersion: {api}, kind: NetworkAddonsConfig, metadata: {{name: cluster}}, spec: {{multus: {{}}}}}}")).await;
    withstands(&cluster, operator, NAMESPACE, (NAMESPACE, "multus")).await;
}

#[tokio::test]
async fn memory_of_cluster_network_does_not_grow_with_labelled_foreign_objects() {
    let cluster = cluster_network::start().await;
    let operator = Operator::start_default(&cluster).await;
    cluster.apply(&example("network-config-flannel.yaml")).await;
    // Neither in a namespace of another user's nor in one of its own.
    withstands(
        &cluster,
        operator,
        "default",
        ("kube-flannel", "kube-flannel-ds"),
    )
    .await;
    let operator = Operator::start_default(&cluster).await;
    withstands(
        &cluster,
        operator,
        "kube-flannel",
        ("kube-flannel", "kube-flannel-ds"),
    )
    .await;
}

/// Large objects with the label of this DaemonSet come into a namespace, with the operator there
/// and before it starts.
async fn withstands(
    cluster: &Cluster,
    operator: Operator,
    namespace: &str,
    daemon_set: (&str, &str),
) {
    cluster.wait_available().await;
    flood(cluster, namespace, daemon_set).await;
    is_lean(cluster, &operator, daemon_set).await;
    operator.terminate().await;
    let operator = Operator::start_default(cluster).await;
    is_lean(cluster, &operator, daemon_set).await;
    operator.terminate().await;
}

async fn flood(cluster: &Cluster, namespace: &str, (place, name): (&str, &str)) {
    let owned = cluster.get(kinds::DAEMON_SET, place, name).await.unwrap();
    let label = &owned["metadata"]["labels"][OWNER_LABEL];
    assert!(label.is_string());
    let api = cluster.api(kinds::CONFIG_MAP, namespace);
    let objects = (0..OBJECTS).map(|number| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": format!("large-{number}"), "labels": {OWNER_LABEL: label}
        },
            "data": {"text": "x".repeat(SIZE)}})
    });
    let made = stream::iter(objects).map(async |object| {
        let object = serde_json::from_value(object).unwrap();
        api.create(&kube::api::PostParams::default(), &object)
            .await
            .map(drop)
    });
    made.buffer_unordered(4).try_collect::<()>().await.unwrap();
}

/// The operator repairs an object, and has not needed more memory than it may.
async fn is_lean(cluster: &Cluster, operator: &Operator, (namespace, name): (&str, &str)) {
    operator.wait_leading().await;
    // The event of this deletion comes after those of the large objects of its own stream only, so
    // one of each kind is deleted.
    for (kind, name) in [
        (kinds::DAEMON_SET, name.to_owned()),
        owned_config_map(cluster, namespace).await,
    ] {
        let uid = |object: serde_json::Value| object["metadata"]["uid"].clone();
        let old = cluster.get(kind, namespace, &name).await.map(uid);
        cluster.delete(kind, namespace, &name).await;
        wait_until(&format!("{kind} {name} is back"), async || {
            match cluster.get(kind, namespace, &name).await.map(uid) {
                new if new.is_some() && new != old => Ok(()),
                new => Err(format!("{new:?}")),
            }
        })
        .await;
    }
    let peak = memory(operator, "VmHWM");
    println!("{peak} KiB at most, {} KiB now", memory(operator, "VmRSS"));
    assert!(peak < LIMIT, "{peak} KiB, more than {LIMIT}");
}

/// A ConfigMap that Weft has made, no note of its own.
async fn owned_config_map(cluster: &Cluster, namespace: &str) -> (Kind, String) {
    let all = cluster
        .api(kinds::CONFIG_MAP, namespace)
        .list(&kube::api::ListParams::default().labels(OWNER_LABEL))
        .await
        .unwrap();
    let mut names = all
        .items
        .into_iter()
        .filter_map(|object| object.metadata.name);
    let is_of_component = |name: &String| {
        !name.starts_with("weft-inventory-")
            && !name.contains("applied")
            && !name.starts_with("large-")
    };
    (
        kinds::CONFIG_MAP,
        names
            .find(is_of_component)
            .expect("a ConfigMap of a component"),
    )
}

/// A figure of the process's status (proc_pid_status(5)), in KiB.
fn memory(operator: &Operator, field: &str) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", operator.child().id())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .expect("the field is there");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
