//! The namespace of all operands, which the installation makes and another user deletes.

use serde_json::json;
use weft_plan::kinds;

use crate::commands::user::weft;

use weft_system_tests::*;

/// The default layout: the operator is in another namespace, and lives on.
const MANIFESTS: &[&str] = &["--domains", "addons"];

const RESOURCE: &str = "
apiVersion: networkaddonsoperator.network.kubevirt.io/v1
kind: NetworkAddonsConfig
metadata: {name: cluster}
spec: {linuxBridge: {}}
";

const WAY_BACK: &str = "apply Weft's manifests again, which have the namespace and the operator's roles in it (`weft status --installation` prints the command)";

#[tokio::test]
async fn a_deleted_namespace_of_all_operands_comes_back_with_the_manifests() {
    let cluster = Cluster::start(ClusterOptions {
        manifests: MANIFESTS,
        // The operator's roles go with the namespace.
        may_be_forbidden: true,
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    cluster.apply(RESOURCE).await;
    cluster.wait_available().await;
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": NAMESPACE, "finalizers": ["example.com/hold"]}
    });
    cluster.apply(&held.to_string()).await;
    cluster
        .kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"])
        .await;
    let refused = format!("Weft may not create it again: when it is gone, {WAY_BACK}");
    cluster
        .wait_condition("Degraded", "True", "FailedToApply", &refused)
        .await;

    cluster
        .patch(
            kinds::CONFIG_MAP,
            NAMESPACE,
            "held",
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    let gone = format!("Namespace {NAMESPACE}: it is gone, and Weft may not create it: {WAY_BACK}");
    cluster
        .wait_condition("Degraded", "True", "FailedToApply", &gone)
        .await;
    assert_eq!(cluster.get(kinds::NAMESPACE, "", NAMESPACE).await, None);

    let shown = weft(&cluster, &["status", "--installation"]).await.stdout;
    let (_, command) = shown
        .split_once(" again: weft ")
        .unwrap_or_else(|| panic!("{shown}"));
    let (arguments, _) = command.split_once(" | kubectl apply -f -").unwrap();
    let arguments: Vec<&str> = arguments.split(' ').collect();
    assert!(
        arguments.starts_with(&["manifests", "--domains", "addons"]),
        "{shown}"
    );
    let manifests = weft(&cluster, &arguments).await.ended(0).stdout;
    cluster.apply(&manifests).await;
    cluster.wait_available().await;
}
