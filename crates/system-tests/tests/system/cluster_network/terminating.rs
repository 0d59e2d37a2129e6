//! A namespace that somebody deletes, and that something in it holds.

use serde_json::json;
use weft_plan::kinds;

use super::{SDN, minimal, start};
use weft_system_tests::*;

#[tokio::test]
async fn status_says_what_holds_a_namespace_that_is_being_deleted() {
    let cluster = start().await;
    let _operator = Operator::start_default(&cluster).await;
    cluster.apply(&minimal()).await;
    cluster.wait_available().await;
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "namespace": SDN, "finalizers": ["example.com/hold"]}
    });
    cluster.apply(&held.to_string()).await;
    let old = cluster.get(kinds::NAMESPACE, "", SDN).await.unwrap();
    cluster
        .kubectl(&["delete", "namespace", SDN, "--wait=false"])
        .await;

    let waits = format!(
        "Namespace {SDN}: another user has deleted it, and it waits for what is in it to be gone: "
    );
    let status = cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToApply",
            "example.com/hold in 1 resource instances",
        )
        .await;
    let message = condition(&status, "Degraded")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains(&waits) && message.contains("configmaps") && !message.contains("null"),
        "{message}"
    );

    cluster
        .patch(
            kinds::CONFIG_MAP,
            SDN,
            "held",
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    cluster.wait_available().await;
    assert_ne!(
        cluster.get(kinds::NAMESPACE, "", SDN).await.unwrap()["metadata"]["uid"],
        old["metadata"]["uid"]
    );
}
