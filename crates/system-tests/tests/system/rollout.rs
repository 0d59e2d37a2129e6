//! Workloads that do not become ready: status names the pods' own cause.

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::{
    Pods, Stage, Stuck,
    proxy::{Fault, Match, Proxy, Recorded},
};

use weft_system_tests::*;

#[tokio::test]
async fn a_stuck_rollout_is_told_by_the_pods_own_cause() {
    // kwok's pods of bridge-marker cannot pull their image, as if somebody had mistyped it.
    let stuck = Stage::stuck(Pods::with_image("bridge-marker"), Stuck::ImagePullBackOff);
    let cluster = Cluster::start(ClusterOptions {
        stages: vec![stuck],
        ..Default::default()
    })
    .await;
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
    let message = condition(&status, "Progressing")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("pod bridge-marker-") && message.contains(" on node-"),
        "{message}"
    );
    assert_eq!(
        (
            &condition(&status, "Available")["status"],
            &condition(&status, "Degraded")["status"]
        ),
        (&Value::from("False"), &Value::from("False")),
        "{status:#}"
    );
    // Everything else goes on. KubeMacPool's Secret is not there yet, and is named too.
    let status = cluster
        .wait_condition(
            "Progressing",
            "True",
            "Deploying",
            "waits for Secret cluster-network-addons/kubemacpool-service (does not exist)",
        )
        .await;
    let state = |name: &str| {
        status["components"]
            .as_array()
            .unwrap()
            .iter()
            .find(|component| component["name"] == name)
            .unwrap()["state"]
            .clone()
    };
    assert_eq!(
        (state("linuxBridge"), state("kubeMacPool")),
        ("Progressing".into(), "Progressing".into()),
        "{status:#}"
    );
    wait_until("the others are Available", async || {
        let status = cluster.status().await;
        let others = ["multus", "ovs", "network-policy"].map(|name| {
            status["components"]
                .as_array()
                .unwrap()
                .iter()
                .find(|component| component["name"] == name)
                .unwrap()["state"]
                .clone()
        });
        if others.iter().all(|state| state == "Available") {
            Ok(())
        } else {
            Err(format!("{others:?}"))
        }
    })
    .await;

    // Made by its certificate manager, noticed by watch.
    cluster.play_kubemacpool().await;
    wait_until("nothing waits for the Secret", async || {
        let status = cluster.status().await;
        if status.to_string().contains("kubemacpool-service (") {
            Err(format!("{status:#}"))
        } else {
            Ok(())
        }
    })
    .await;
    // The image is there.
    cluster.control_plane.set_stages(&[]).await.unwrap();
    cluster.wait_available().await;

    // And back again: what was Available says so no longer, once its Secret is gone.
    cluster
        .delete(kinds::SECRET, NAMESPACE, "kubemacpool-service")
        .await;
    cluster
        .wait_condition("Available", "False", "Startup", "")
        .await;
    cluster.play_kubemacpool().await;
    cluster.wait_available().await;
}

#[tokio::test]
async fn a_pod_that_cannot_start_has_the_cause_of_its_events_in_status() {
    // kwok's pods of bridge-marker stay in ContainerCreating.
    let stuck = Stage::stuck(Pods::with_image("bridge-marker"), Stuck::Pending);
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        stages: vec![stuck],
        ..Default::default()
    })
    .await;
    let operator = Operator::start_default(&cluster).await;
    let begun = std::time::Instant::now();
    cluster.apply("{apiVersion: networkaddonsoperator.network.kubevirt.io/v1, kind: NetworkAddonsConfig, metadata: {name: cluster}, spec: {linuxBridge: {}}}").await;
    let pod = cluster.wait_creating(NAMESPACE, "bridge-marker-").await;
    let (name, uid) = (
        pod["metadata"]["name"].as_str().unwrap(),
        pod["metadata"]["uid"].as_str().unwrap(),
    );

    // The kubelet's events: that of the cause, an older one, and a later one that holds up nothing.
    let cause = "MountVolume.SetUp failed for volume \"kube-api-access-x\" : configmap \"kube-root-ca.crt\" not found";
    let network = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to find plugin \"bridge\" in path [/opt/cni/bin]";
    let dns = "Nameserver limits were exceeded";
    for (reason, message, last) in [
        ("FailedCreatePodSandBox", network, "2026-01-01T00:00:10Z"),
        ("FailedMount", cause, "2026-01-01T00:00:20Z"),
        ("DNSConfigForming", dns, "2026-01-01T00:00:30Z"),
    ] {
        cluster.kubelet_warns(&pod, reason, message, last).await;
    }
    cluster
        .wait_condition(
            "Progressing",
            "True",
            "Deploying",
            &format!("pod {name} on node-1: FailedMount: {cause}"),
        )
        .await;
    let lists = || {
        let mut requests = cluster.audit();
        requests.retain(|request| request.resource == "events" && request.verb == "list");
        requests
    };
    let asked = lists();
    // One at the usual time, and at most two more before the events were there. If that took
    // longer, as many as the shortest pauses allow: 5, 10, 20 s and so on.
    let waited = begun.elapsed().as_secs() + 1;
    let due = [10, 15, 25, 45, 85, 165]
        .into_iter()
        .filter(|at| *at <= waited)
        .count();
    assert!((1..=due.max(3)).contains(&asked.len()), "{asked:#?}");
    for request in &asked {
        let selector = format!("fieldSelector=involvedObject.uid%3D{uid}");
        assert!(
            request.namespace == NAMESPACE && request.uri.ends_with(&selector),
            "{request:?}"
        );
    }

    // The cause is removed: nothing is asked any more.
    cluster.control_plane.set_stages(&[]).await.unwrap();
    cluster.wait_available().await;
    let asked = lists().len();
    let before = operator.metric("weft_passes_total").await;
    cluster
        .patch_resource(json!({"metadata": {"annotations": {"example.com/note": "hello"}}}))
        .await;
    operator.wait_passes_beyond(before).await;
    assert_eq!(lists().len(), asked);
}

#[tokio::test]
async fn status_claims_nothing_that_is_unknown() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    // KubeMacPool needs a Secret that is not there, and the API server is slow to say so.
    let slow = proxy.inject(
        Match::any()
            .verb("list")
            .resource("secrets")
            .name("kubemacpool-service"),
        Fault::Hold,
    );
    let operator = Operator::start_via(&cluster, &proxy).await;
    cluster.apply(&example("network-addons-config.yaml")).await;
    slow.wait_hits(1, PATIENCE).await.unwrap();
    for workload in [
        "deployment/kubemacpool-cert-manager",
        "deployment/kubemacpool-mac-controller-manager",
        "daemonset/multus",
        "daemonset/bridge-marker",
        "daemonset/ovs-cni-amd64",
        "daemonset/kube-cni-linux-bridge-plugin",
    ] {
        wait_until(&format!("{workload} has rolled out"), async || {
            let args = [
                "-n",
                NAMESPACE,
                "rollout",
                "status",
                workload,
                "--timeout=60s",
            ];
            cluster
                .control_plane
                .kubectl(&args)
                .await
                .map(drop)
                .map_err(|error| error.to_string())
        })
        .await;
    }
    // The operator has seen all of that once it has looked again because of something later.
    let before = operator.metric("weft_passes_total").await;
    cluster
        .patch_resource(json!({"metadata": {"annotations": {"example.com/note": "hello"}}}))
        .await;
    operator.wait_passes_beyond(before).await;
    let claims = |write: &Recorded| {
        let body: Value = serde_json::from_slice(&write.body).unwrap_or_default();
        condition(&body["status"], "Available")["status"] == "True"
    };
    assert!(
        !proxy.writes().iter().any(claims),
        "Available was claimed before it was known whether the Secret is there"
    );

    slow.remove();
    cluster
        .wait_condition(
            "Progressing",
            "True",
            "Deploying",
            "waits for Secret cluster-network-addons/kubemacpool-service",
        )
        .await;
    cluster.play_kubemacpool().await;
    cluster.wait_available().await;
    assert!(
        proxy.writes().iter().any(claims),
        "such a write is seen where there is one"
    );
}
