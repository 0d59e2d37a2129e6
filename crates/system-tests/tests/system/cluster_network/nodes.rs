//! Reports of nodes about themselves, and their effect on the network. Init containers do not run
//! here: what they would write as their termination message is written by the test.

use serde_json::{Value, json};
use weft_plan::{CniReport, kinds};
use weft_testenv::{Pods, Stage, Stuck};

use super::{config, record, start, text, weft};
use crate::system::{harness::*, install};

const FLANNEL: &str = "kube-flannel";

#[tokio::test]
async fn the_pods_mtu_follows_the_nodes_until_the_network_is_on_all_of_them() {
    let cluster = start().await;
    let unready = Stage::stuck(Pods::labelled("app", "flannel"), Stuck::Unready);
    cluster.control_plane.set_stages(&[unready]).await.unwrap();
    let operator = at_host(&cluster, "9000").await;
    let spec = json!({
        "serviceNetwork": "10.96.0.0/16",
        "clusterNetworks": [{"cidr": "10.244.0.0/16", "hostSubnetLength": 8}],
        "defaultNetwork": {"type": "Flannel"},
    });
    cluster.apply(&config(&spec)).await;
    wait_mtu(&cluster, 8950).await;

    // Another user's pod with the labels of ours is not believed: the MTU would go down to what it
    // says, and never up again.
    let stranger = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
        "name": "stranger", "labels": {"app": "flannel", "weft.network/domain": "cluster-network"}
    },
                          "spec": {
                              "nodeName": "node-0",
                              "initContainers": [{"name": "install-cni", "image": "i"}],
                              "containers": [{"name": "c", "image": "i"}]
                          }});
    cluster.apply(&stranger.to_string()).await;
    write(
        &cluster,
        "default",
        "stranger",
        &CniReport {
            mtu: Some(800),
            ..CniReport::default()
        },
    )
    .await
    .unwrap();

    // The first nodes report their MTU, and nothing is refused.
    tell(&cluster, |index| CniReport {
        mtu: Some([9000, 1400][index]),
        ..CniReport::default()
    })
    .await;
    wait_mtu(&cluster, 1350).await;
    wait_until("it is recorded", async || {
        match record(&cluster).await["defaultNetwork"]["flannelConfig"]["mtu"].clone() {
            mtu if mtu == 1350 => Ok(()),
            mtu => Err(mtu.to_string()),
        }
    })
    .await;
    let status = cluster.status().await;
    assert!(
        status.get("refusedChange").is_none() && status.get("establishedNetwork").is_none(),
        "{status}"
    );

    // A node lacks plugins: that is said, with its name.
    tell(&cluster, |_| CniReport {
        missing_plugins: vec!["portmap".to_owned()],
        error: Some("install it".to_owned()),
        ..CniReport::default()
    })
    .await;
    wait_notice(
        &cluster,
        "lacks CNI plugins that pods are connected by (portmap)",
    )
    .await;

    // The network is on all nodes: from then on its MTU stays, whatever nodes report.
    cluster.control_plane.set_stages(&[]).await.unwrap();
    cluster.wait_available().await;
    assert_eq!(cluster.status().await["establishedNetwork"], "Flannel");
    tell(&cluster, |index| CniReport {
        mtu: Some([9000, 1300][index]),
        ..CniReport::default()
    })
    .await;
    wait_notice(&cluster, "more than the network of these nodes takes").await;
    assert_eq!(mtu(&cluster).await, "--mtu=1350");
    let plan = weft(&cluster, &["plan", "-f", "-"], &config(&spec)).await;
    assert!(
        plan.status.success(),
        "the operator would do the same, nothing: {}",
        text(&plan)
    );
    assert!(
        text(&plan).contains("more than the network of these nodes takes"),
        "{}",
        text(&plan)
    );

    // An operator that starts on another host changes nothing either.
    operator.terminate().await;
    let operator = at_host(&cluster, "1200").await;
    wait_until("a pass", async || {
        install::passes(&operator)
            .await
            .gt(&0.0)
            .then_some(())
            .ok_or("none yet".into())
    })
    .await;
    assert_eq!(mtu(&cluster).await, "--mtu=1350");
}

/// An operator on a host with this MTU.
async fn at_host(cluster: &Cluster, mtu: &str) -> Operator {
    let environment = [("WEFT_HOST_MTU", mtu)];
    let operator = Operator::start(
        cluster,
        OperatorOptions {
            environment: &environment,
            ..OperatorOptions::default()
        },
    )
    .await;
    operator.wait_leading().await;
    operator
}

/// The argument of the init container.
async fn mtu(cluster: &Cluster) -> String {
    let workload = cluster
        .get(kinds::DAEMON_SET, FLANNEL, "kube-flannel-ds")
        .await
        .unwrap_or_default();
    let containers = workload["spec"]["template"]["spec"]["initContainers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let arguments = containers
        .iter()
        .flat_map(|container| container["args"].as_array().into_iter().flatten())
        .filter_map(Value::as_str);
    arguments
        .filter(|argument| argument.starts_with("--mtu="))
        .collect()
}

async fn wait_mtu(cluster: &Cluster, wanted: u32) {
    wait_until(&format!("the MTU {wanted}"), async || {
        let found = mtu(cluster).await;
        if found == format!("--mtu={wanted}") {
            Ok(())
        } else {
            Err(format!("{found}; {}", cluster.status().await))
        }
    })
    .await;
}

async fn wait_notice(cluster: &Cluster, wanted: &str) {
    wait_until(wanted, async || {
        let notices = cluster.status().await["notices"].to_string();
        if notices.contains(wanted) {
            Ok(())
        } else {
            Err(notices)
        }
    })
    .await;
}

/// Writes what the init containers of both nodes' pods would, in the order of the nodes' names.
/// Pods may be replaced meanwhile, so it is done anew until each pod that is there has it.
async fn tell(cluster: &Cluster, report: impl Fn(usize) -> CniReport) {
    wait_until("both nodes' pods tell", async || {
        // Pods of an older template are about to be replaced, and their reports are lost.
        let live = cluster
            .get(kinds::DAEMON_SET, FLANNEL, "kube-flannel-ds")
            .await
            .ok_or("there is no DaemonSet")?;
        if live["status"]["observedGeneration"] != live["metadata"]["generation"]
            || live["status"]["updatedNumberScheduled"] != 2
        {
            return Err(live["status"].to_string());
        }
        let pods: Value = serde_json::from_str(
            &cluster
                .kubectl(&[
                    "-n",
                    FLANNEL,
                    "get",
                    "pods",
                    "-l",
                    "app=flannel",
                    "-o",
                    "json",
                ])
                .await,
        )
        .unwrap();
        let mut pods: Vec<_> = pods["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .collect();
        pods.sort_by_key(|pod| pod["spec"]["nodeName"].to_string());
        if pods.len() != 2 {
            return Err(format!("{} pods", pods.len()));
        }
        for (index, pod) in pods.into_iter().enumerate() {
            if CniReport::of_pod(pod) == Some(report(index)) {
                continue;
            }
            // It may have been replaced just now.
            write(
                cluster,
                FLANNEL,
                pod["metadata"]["name"].as_str().unwrap(),
                &report(index),
            )
            .await?;
        }
        Ok(())
    })
    .await;
}

/// Writes what an init container would.
async fn write(
    cluster: &Cluster,
    namespace: &str,
    pod: &str,
    report: &CniReport,
) -> Result<(), String> {
    let state =
        json!({"terminated": {"exitCode": 0, "reason": "Completed", "message": report.to_line()}});
    let init = json!({
        "name": "install-cni", "image": "weft", "imageID": "", "ready": true, "restartCount": 0,
        "state": state
    });
    let patch = json!({"status": {"initContainerStatuses": [init]}}).to_string();
    let arguments = [
        "-n",
        namespace,
        "patch",
        "pod",
        pod,
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ];
    cluster
        .control_plane
        .kubectl(&arguments)
        .await
        .map(drop)
        .map_err(|error| error.to_string())
}
