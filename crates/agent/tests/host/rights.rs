//! The token of one node's agent is of no use for another node's objects.

use serde_json::json;
use weft_testenv::host_lab::{HostLab, Installation};

use crate::support::wait_reported;

#[tokio::test]
async fn an_agent_writes_only_what_its_own_node_has() {
    let weft = Installation::start(HostLab::builder().hosts(2).cards(1)).await.unwrap();
    wait_reported(&weft, "node-1", "eth0", |eth0| eth0["state"] == "up").await;
    wait_reported(&weft, "node-2", "eth0", |eth0| eth0["state"] == "up").await;
    for node in ["node-1", "node-2"] {
        let enactment = json!({"apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkConfigurationEnactment",
            "metadata": {"name": format!("{node}.by-hand"), "labels": {"nmstate.io/node": node, "nmstate.io/policy": "by-hand"}}});
        weft.apply(&enactment.to_string()).await.unwrap();
    }
    let control_plane = weft.lab().control_plane();
    // By the kubeconfig for this machine, with the same token.
    let kubeconfig = control_plane.node_kubeconfig_via(control_plane.url(), "nmstate", "nmstate-handler", "node-1").await.unwrap();
    let write = async |resource: &str, name: &str, subresource: &[&str], patch: &str| {
        let args = [&["patch", resource, name, "--type=merge", "-p", patch], subresource].concat();
        control_plane.kubectl_as(&kubeconfig, &args, "").await
    };
    let status = r#"{"status": {"handlerNmstateVersion": "by hand"}}"#;
    let conditions = r#"{"status": {"policyGeneration": 7}}"#;
    write("nns", "node-1", &["--subresource=status"], status).await.expect("its own state");
    write("nnce", "node-1.by-hand", &["--subresource=status"], conditions).await.expect("its own enactment");
    for refused in [
        write("nns", "node-2", &["--subresource=status"], status).await,
        write("nns", "node-2", &[], r#"{"metadata": {"labels": {"a": "b"}}}"#).await,
        write("nnce", "node-2.by-hand", &["--subresource=status"], conditions).await,
    ] {
        let error = refused.expect_err("another node's").to_string();
        assert!(error.contains("node-1") || error.contains("forbidden") || error.contains("denied"), "{error}");
    }
    // A token that names no node writes nothing at all.
    let without = control_plane.service_account_kubeconfig("nmstate", "nmstate-handler").await.unwrap();
    let patch = ["patch", "nns", "node-1", "--type=merge", "--subresource=status", "-p", status];
    control_plane.kubectl_as(&without, &patch, "").await.expect_err("a token without a node");
    // Nor do its rights reach further.
    for forbidden in [&["get", "secrets", "--all-namespaces"][..], &["get", "nncp"], &["delete", "nns", "node-1"]] {
        control_plane.kubectl_as(&kubeconfig, forbidden, "").await.expect_err("it has no such right");
    }
}
