//! Macvtap's ConfigMap: made where it is missing, and the user's from then on.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::{Pods, Stage};

use crate::commands::user::weft;

use weft_system_tests::*;

const DEFAULT: &str = "macvtap-deviceplugin-config";
/// The number of crashes during which the other node keeps its pod. Before each of them, the pod is
/// Ready for a second.
const CRASHES_SEEN: usize = 3;

/// A second after it is Ready, the program of a pod with the ConfigMap `unreadable` ends.
const CRASHES: &str = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: crashes}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: '[.spec.containers[].envFrom[]?.configMapRef.name] == ["unreadable"]', operator: In, values: ["true"]}
    - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: In, values: ["True"]}
  delay: {durationMilliseconds: 1000}
  next:
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      - { type: Ready, status: "False", reason: ContainersNotReady, lastTransitionTime: {{ $now | Quote }} }
      - { type: ContainersReady, status: "False", reason: ContainersNotReady, lastTransitionTime: {{ $now | Quote }} }
      containerStatuses:
      - name: macvtap-cni
        image: {{ (index .spec.containers 0).image | Quote }}
        ready: false
        restartCount: 4
        state: { waiting: { reason: CrashLoopBackOff, message: back-off } }
        lastState: { terminated: { exitCode: 1, reason: Error, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }} } }
"#;

/// A pod of macvtap.
struct Pod {
    node: String,
    /// The ConfigMap that its program reads.
    config: String,
    /// The end of the program's last run, if it has ended.
    crashed: Option<String>,
}

/// The pods that are there.
async fn pods(cluster: &Cluster) -> Vec<Pod> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api = cluster.api(kinds::POD, NAMESPACE);
    let pods = api.list(&Default::default()).await.unwrap().into_iter();
    let pods = pods.map(|pod| serde_json::to_value(pod).unwrap());
    let is_there = |pod: &Value| {
        text(&pod["metadata"]["name"]).starts_with("macvtap-cni-")
            && pod["metadata"]["deletionTimestamp"].is_null()
    };
    pods.filter(is_there)
        .map(|pod| {
            let read = &pod["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"];
            let ended = &pod["status"]["containerStatuses"][0]["lastState"]["terminated"];
            Pod {
                node: text(&pod["spec"]["nodeName"]),
                config: text(read),
                crashed: ended["finishedAt"].as_str().map(str::to_owned),
            }
        })
        .collect()
}

/// The ConfigMaps of the pods, by node.
async fn configured(cluster: &Cluster) -> BTreeMap<String, String> {
    let pods = pods(cluster).await.into_iter();
    pods.map(|pod| (pod.node, pod.config)).collect()
}

/// The program answers no probe, so a pod counts as Ready as soon as it runs.
#[tokio::test]
async fn a_config_that_ends_the_program_stops_at_the_first_node() {
    let stages = vec![
        Stage::yaml(CRASHES),
        // A program that has ended starts again after this time.
        Stage::ready_after(Pods::named("^macvtap-cni-"), Duration::from_secs(4)),
    ];
    let cluster = Cluster::start(ClusterOptions {
        stages,
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    let configuration = |macvtap: Value| {
        let api = "networkaddonsoperator.network.kubevirt.io/v1";
        json!({
            "apiVersion": api, "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
            "spec": {"macvtap": macvtap}
        })
        .to_string()
    };
    cluster.apply(&configuration(json!({}))).await;
    cluster.wait_available().await;
    assert_eq!(configured(&cluster).await.len(), 2);

    let create = [
        "create",
        "configmap",
        "unreadable",
        "--from-literal=DP_MACVTAP_CONF=x",
    ];
    cluster
        .kubectl(&[&["-n", NAMESPACE], &create[..]].concat())
        .await;
    let unreadable = json!({"devicePluginConfig": "unreadable"});
    cluster.apply(&configuration(unreadable)).await;
    let message = "CrashLoopBackOff: container macvtap-cni: back-off; last exit code 1 Error";
    cluster
        .wait_condition("Progressing", "True", "Deploying", message)
        .await;

    // The program starts and crashes again, and the other node keeps the old pod.
    let mut crashes = BTreeSet::new();
    wait_until("the pod has crashed several times", async || {
        let pods = pods(&cluster).await;
        let mut read: Vec<_> = pods.iter().map(|pod| pod.config.as_str()).collect();
        read.sort_unstable();
        assert_eq!(read, [DEFAULT, "unreadable"]);
        crashes.extend(pods.into_iter().filter_map(|pod| pod.crashed));
        match crashes.len() >= CRASHES_SEEN {
            true => Ok(()),
            false => Err(format!("crashes at {crashes:?}")),
        }
    })
    .await;
    wait_until("the status names the pod", async || {
        let status = weft(&cluster, &["status"]).await.stdout;
        match status.contains(message) && status.contains("pod macvtap-cni-") {
            true => Ok(()),
            false => Err(status),
        }
    })
    .await;
}

#[tokio::test]
async fn the_config_is_made_once_and_another_one_is_waited_for() {
    let cluster = Cluster::start_default().await;
    let _operator = Operator::start_default(&cluster).await;
    let configuration = |macvtap: Value| {
        let api = "networkaddonsoperator.network.kubevirt.io/v1";
        json!({
            "apiVersion": api, "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
            "spec": {"macvtap": macvtap}
        })
        .to_string()
    };
    let data = async |name: &str| {
        cluster
            .get(kinds::CONFIG_MAP, NAMESPACE, name)
            .await
            .map(|map| map["data"].clone())
    };
    cluster.apply(&configuration(json!({}))).await;
    cluster.wait_available().await;
    assert_eq!(data(DEFAULT).await, Some(json!({"DP_MACVTAP_CONF": "[]"})));

    // The user's edit stays, also when Weft repairs another part of the component.
    let devices = json!({"DP_MACVTAP_CONF": r#"[{"name": "dataplane", "lowerDevice": "eth0", "mode": "bridge", "capacity": 50}]"#});
    cluster
        .patch(
            kinds::CONFIG_MAP,
            NAMESPACE,
            DEFAULT,
            json!({"data": devices}),
        )
        .await;
    cluster
        .delete(kinds::SERVICE_ACCOUNT, NAMESPACE, "macvtap-cni")
        .await;
    wait_until("the ServiceAccount is back", async || {
        cluster
            .get(kinds::SERVICE_ACCOUNT, NAMESPACE, "macvtap-cni")
            .await
            .map(drop)
            .ok_or("it is gone".to_owned())
    })
    .await;
    assert_eq!(data(DEFAULT).await.as_ref(), Some(&devices));

    // Another one is the user's own: named while it is missing, and noticed when it comes.
    cluster
        .apply(&configuration(json!({"devicePluginConfig": "mine"})))
        .await;
    cluster
        .wait_condition(
            "Progressing",
            "True",
            "Deploying",
            "waits for ConfigMap cluster-network-addons/mine (does not exist)",
        )
        .await;
    assert_eq!(data("mine").await, None);
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "create",
            "configmap",
            "mine",
            "--from-literal=DP_MACVTAP_CONF=[]",
        ])
        .await;
    cluster.wait_available().await;
    assert_eq!(
        data(DEFAULT).await.as_ref(),
        Some(&devices),
        "kept while macvtap is there"
    );

    // Where the user's is there first, it is left as it is, and stays when macvtap goes.
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster"])
        .await;
    assert_eq!(data(DEFAULT).await, None, "Weft made it");
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "create",
            "configmap",
            DEFAULT,
            "--from-literal=DP_MACVTAP_CONF=mine",
        ])
        .await;
    cluster.apply(&configuration(json!({}))).await;
    cluster.wait_available().await;
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster"])
        .await;
    assert_eq!(
        data(DEFAULT).await,
        Some(json!({"DP_MACVTAP_CONF": "mine"}))
    );
}
