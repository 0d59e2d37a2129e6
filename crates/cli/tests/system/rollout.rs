//! Workloads that do not become ready: status names the pods' own cause.

use serde_json::Value;
use weft_plan::kinds;
use weft_testenv::{Pods, Stage, Stuck};

use crate::harness::*;

#[tokio::test]
async fn a_stuck_rollout_is_told_by_the_pods_own_cause() {
    // kwok's pods of bridge-marker cannot pull their image, as if somebody had mistyped it.
    let stuck = Stage::stuck(Pods::with_image("bridge-marker"), Stuck::ImagePullBackOff);
    let cluster = Cluster::start(ClusterOptions { stages: vec![stuck], ..Default::default() }).await;
    let _operator = Operator::start_default(&cluster).await;
    cluster.apply(&example("network-addons-config.yaml")).await;
    let status = cluster
        .wait_condition(
            "Progressing",
            "True",
            "Deploying",
            "ImagePullBackOff: container bridge-marker: Back-off pulling image \"quay.io/kubevirt/bridge-marker",
        )
        .await;
    let message = condition(&status, "Progressing")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("pod bridge-marker-") && message.contains(" on node-"), "{message}");
    assert_eq!(
        (&condition(&status, "Available")["status"], &condition(&status, "Degraded")["status"]),
        (&Value::from("False"), &Value::from("False")),
        "{status:#}"
    );
    // Everything else goes on; KubeMacPool's Secret is not there yet, and is named too.
    let status = cluster
        .wait_condition("Progressing", "True", "Deploying", "waits for Secret cluster-network-addons/kubemacpool-service (does not exist)")
        .await;
    let state =
        |name: &str| status["components"].as_array().unwrap().iter().find(|component| component["name"] == name).unwrap()["state"].clone();
    assert_eq!((state("linuxBridge"), state("kubeMacPool")), ("Progressing".into(), "Progressing".into()), "{status:#}");
    wait_until("the others are Available", async || {
        let status = cluster.status().await;
        let others = ["multus", "ovs", "network-policy"].map(|name| {
            status["components"].as_array().unwrap().iter().find(|component| component["name"] == name).unwrap()["state"].clone()
        });
        if others.iter().all(|state| state == "Available") { Ok(()) } else { Err(format!("{others:?}")) }
    })
    .await;

    // Made by its certificate manager, noticed by watch.
    cluster.play_kubemacpool().await;
    wait_until("nothing waits for the Secret", async || {
        let status = cluster.status().await;
        if status.to_string().contains("kubemacpool-service (") { Err(format!("{status:#}")) } else { Ok(()) }
    })
    .await;
    // The image is there.
    cluster.control_plane.set_stages(&[]).await.unwrap();
    cluster.wait_available().await;

    // And back again: what was Available says so no longer, once its Secret is gone.
    cluster.delete(kinds::SECRET, NAMESPACE, "kubemacpool-service").await;
    cluster.wait_condition("Available", "False", "Startup", "").await;
    cluster.play_kubemacpool().await;
    cluster.wait_available().await;
}
