//! A missing requirement of an add-on on a node: the add-on's own script finds it, and status names
//! the node and the way out.

use std::process::Command;

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::{Pods, Stage, Stuck};

use weft_system_tests::*;

#[tokio::test]
async fn a_node_without_open_vswitch_is_named_with_the_way_out() {
    // kwok runs no init containers: its pods of this add-on stay before them.
    let stages = vec![Stage::stuck(
        Pods::with_image("ovs-cni-plugin"),
        Stuck::Pending,
    )];
    let cluster = Cluster::start(ClusterOptions {
        stages,
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    cluster.apply("{apiVersion: networkaddonsoperator.network.kubevirt.io/v1, kind: NetworkAddonsConfig, metadata: {name: cluster}, spec: {ovs: {}}}").await;

    // The script of the pod's init container, where there is no Open vSwitch. Kubelet takes the end
    // of its log for the pod's status.
    let workload = wait_until("the DaemonSet", async || {
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "ovs-cni-amd64")
            .await
            .ok_or_else(|| "none".to_owned())
    })
    .await;
    let container = &workload["spec"]["template"]["spec"]["initContainers"][0];
    assert_eq!(
        container["terminationMessagePolicy"],
        "FallbackToLogsOnError"
    );
    let node = tempfile::TempDir::new().unwrap();
    let script = container["args"][0]
        .as_str()
        .unwrap()
        .replace("/host/", &format!("{}/", node.path().display()));
    let ended = Command::new("/bin/sh")
        .args(["-ceu", &script])
        .output()
        .unwrap();
    let log = String::from_utf8(ended.stderr).unwrap();

    let pod = wait_until("a pod that kwok has begun with", async || {
        let pods = cluster
            .kubectl(&[
                "-n",
                NAMESPACE,
                "get",
                "pods",
                "-l",
                "app=ovs-cni",
                "-o",
                "json",
            ])
            .await;
        let pods: Value = serde_json::from_str(&pods).unwrap();
        let begun = |pod: &&Value| {
            pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]
                == "ContainerCreating"
        };
        pods["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(begun)
            .cloned()
            .ok_or_else(|| format!("{pods:#}"))
    })
    .await;
    let (name, node) = (
        pod["metadata"]["name"].as_str().unwrap(),
        pod["spec"]["nodeName"].as_str().unwrap(),
    );
    let (container, image) = (
        container["name"].as_str().unwrap(),
        container["image"].as_str().unwrap(),
    );
    let status = json!({"status": {
        "initContainerStatuses": [{
            "name": container, "image": image, "imageID": "", "ready": false, "restartCount": 4,
            "state": {
                "waiting": {
                    "reason": "CrashLoopBackOff",
                    "message": format!("back-off 1m20s restarting failed container={container}")
                }
            },
            "lastState": {
                "terminated": {"exitCode": ended.status.code(), "reason": "Error", "message": log}
            },
        }],
    }});
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "patch",
            "pod",
            name,
            "--subresource=status",
            "--type=strategic",
            "-p",
            &status.to_string(),
        ])
        .await;

    let told = format!(
        "pod {name} on {node}: CrashLoopBackOff: container {container}: back-off 1m20s restarting failed container={container}; last exit code 1 Open vSwitch does not run on this node: there is no socket /var/run/openvswitch/db.sock. Start it, or keep the add-on off this node by spec.placementConfiguration.workloads"
    );
    let status = cluster
        .wait_condition("Progressing", "True", "Deploying", &told)
        .await;
    let component = status["components"]
        .as_array()
        .unwrap()
        .iter()
        .find(|component| component["name"] == "ovs")
        .unwrap();
    assert!(
        component["message"].as_str().unwrap().contains(&told),
        "{component:#}"
    );
}
