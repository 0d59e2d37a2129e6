//! The marker of Open vSwitch that does not work: it stops its rollout at the first node.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::{Pods, Stage, Stuck};

use weft_system_tests::*;

const MARKER: &str = "ovs-cni-amd64";
const GOOD: &str = "registry.example/ovs:good";
/// Images of markers that never work. The first one runs and does not reach Open vSwitch, so it does
/// not make the file that its readiness probe looks for. The second one ends.
const BAD: [(&str, Stuck); 2] = [
    ("registry.example/ovs:unready", Stuck::Unready),
    ("registry.example/ovs:crashes", Stuck::CrashLoopBackOff),
];

/// The images of the markers that are there, by node.
async fn images(cluster: &Cluster) -> BTreeMap<String, String> {
    let pods = cluster.api(kinds::POD, NAMESPACE);
    let pods = pods.list(&Default::default()).await.unwrap().into_iter();
    let pods = pods.map(|pod| serde_json::to_value(pod).unwrap());
    let is_there = |pod: &Value| {
        pod["metadata"]["labels"]["app"] == "ovs-cni"
            && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    pods.filter(is_there)
        .map(|pod| {
            let image = &pod["spec"]["containers"][0]["image"];
            (text(&pod["spec"]["nodeName"]), text(image))
        })
        .collect()
}

/// Waits until the controller of DaemonSets has decided about this generation of the marker's, with
/// one new pod, which is not available.
async fn wait_decided(cluster: &Cluster, generation: i64) {
    wait_until("one marker is new and not available", async || {
        let live = cluster.get(kinds::DAEMON_SET, NAMESPACE, MARKER).await;
        let status = live.unwrap_or_default()["status"].clone();
        let number = |field: &str| status[field].as_i64().unwrap_or_default();
        let is_seen = number("observedGeneration") >= generation;
        match (
            number("updatedNumberScheduled"),
            number("numberUnavailable"),
        ) {
            (1, 1) if is_seen => Ok(()),
            _ => Err(status.to_string()),
        }
    })
    .await;
}

#[tokio::test]
async fn an_open_vswitch_marker_that_fails_stops_at_the_first_node() {
    let stages = BAD.map(|(image, state)| Stage::stuck(Pods::with_image(image), state));
    let cluster = Cluster::start(ClusterOptions {
        stages: stages.to_vec(),
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    let configuration = |image: &str| {
        json!({
            "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
            "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
            "spec": {"ovs": {}, "images": {"ovsCni": image}}
        })
        .to_string()
    };
    for (limit, (bad, state)) in (8..).zip(BAD) {
        cluster.apply(&configuration(GOOD)).await;
        cluster.wait_available().await;
        let all: Vec<_> = images(&cluster).await.into_values().collect();
        assert_eq!(all, [GOOD, GOOD]);

        cluster.apply(&configuration(bad)).await;
        wait_decided(&cluster, 0).await;
        // The controller decides once more, with all that it knows of the bad pod.
        let nudge = json!({"spec": {"revisionHistoryLimit": limit}});
        cluster
            .patch(kinds::DAEMON_SET, NAMESPACE, MARKER, nudge)
            .await;
        let live = cluster.get(kinds::DAEMON_SET, NAMESPACE, MARKER).await;
        let generation = live.unwrap()["metadata"]["generation"].as_i64().unwrap();
        wait_decided(&cluster, generation).await;
        let mut all: Vec<_> = images(&cluster).await.into_values().collect();
        all.sort_unstable();
        let mut expected = [bad, GOOD];
        expected.sort_unstable();
        assert_eq!(all, expected);

        let message = match state {
            Stuck::CrashLoopBackOff => "CrashLoopBackOff: container ovs-cni-marker",
            _ => MARKER,
        };
        cluster
            .wait_condition("Progressing", "True", "Deploying", message)
            .await;
        let status = cluster.status().await;
        assert_eq!(condition(&status, "Available")["status"], "False");
        let components = status["components"].as_array().unwrap();
        let marker = components.iter().find(|one| one["name"] == "ovs").unwrap();
        assert_ne!(marker["state"], "Available", "{marker}");
    }
}
