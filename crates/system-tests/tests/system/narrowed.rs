//! Roles for some components only, by `weft manifests --components`: what they do not cover is
//! named, and holds up nothing else.

use serde_json::Value;

use crate::system::{
    deletion::{all_is_gone, gone},
    harness::*,
};

#[tokio::test]
async fn status_names_a_component_without_roles_and_others_come_and_go() {
    let options = ClusterOptions {
        manifests: &["--split", "--components", "multus,linux-bridge"],
        may_be_forbidden: true,
        ..Default::default()
    };
    let cluster = Cluster::start(options).await;
    let _operator = Operator::start_default(&cluster).await;

    cluster
        .apply(&configuration("multus: {}, linuxBridge: {}, ovs: {}"))
        .await;
    covered_is_available(&cluster).await;
    let why = "ovs: ClusterRole ovs-cni-marker-cr: clusterroles.rbac.authorization.k8s.io \"ovs-cni-marker-cr\" is forbidden";
    let verb = "cannot patch resource \"clusterroles\" in API group \"rbac.authorization.k8s.io\"";
    let status = cluster
        .wait_condition("Degraded", "True", "FailedToApply", why)
        .await;
    let degraded = condition(&status, "Degraded");
    let message = degraded["message"].as_str().unwrap_or_default();
    assert!(
        message.starts_with(why) && message.contains(verb),
        "{message}"
    );
    assert!(
        message.lines().all(|line| line.starts_with("ovs: ")),
        "{message}"
    );
    assert_eq!(condition(&status, "Available")["status"], "False");
    // Its earlier objects of that component go as well.
    assert!(
        cluster
            .leftovers()
            .await
            .contains(&format!("ServiceAccount {NAMESPACE}/ovs-cni-marker"))
    );
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--wait=false"])
        .await;
    gone(&cluster).await;
    all_is_gone(&cluster, "a deletion with narrowed roles").await;

    // KubeMacPool has a webhook. Without a role for webhook configurations the end waits, and says
    // for what.
    cluster.play_kubemacpool().await;
    cluster
        .apply(&configuration(
            "multus: {}, linuxBridge: {}, kubeMacPool: {}",
        ))
        .await;
    covered_is_available(&cluster).await;
    cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToApply",
            "kubeMacPool: ClusterRole kubemacpool-manager-role: ",
        )
        .await;
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--wait=false"])
        .await;
    let webhook = "MutatingWebhookConfiguration kubemacpool-mutator: ";
    let status = cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToDeleteObjects",
            "cannot get resource \"mutatingwebhookconfigurations\"",
        )
        .await;
    assert!(
        condition(&status, "Degraded")["message"]
            .as_str()
            .unwrap()
            .contains(webhook),
        "{status:#}"
    );
    cluster
        .apply_manifests(&["--split", "--components", "multus,linux-bridge,kubemacpool"])
        .await;
    gone(&cluster).await;
    all_is_gone(&cluster, "a deletion that was given the missing roles").await;
}

fn configuration(spec: &str) -> String {
    let api = "networkaddonsoperator.network.kubevirt.io/v1";
    format!(
        "apiVersion: {api}\nkind: NetworkAddonsConfig\nmetadata: {{name: cluster}}\nspec: {{{spec}}}\n"
    )
}

async fn covered_is_available(cluster: &Cluster) {
    wait_until("the covered components are Available", async || {
        let status = cluster.status().await;
        let is_available = |name: &str| {
            let mut all = status["components"].as_array().into_iter().flatten();
            all.any(|component: &Value| {
                component["name"] == name && component["state"] == "Available"
            })
        };
        let covered = [
            "multus",
            "linuxBridge",
            "network-policy",
            "network-attachment-definition",
        ];
        if covered.into_iter().all(is_available) {
            Ok(())
        } else {
            Err(format!("{status:#}"))
        }
    })
    .await;
}
