//! The switch from the real objects of cluster-network-addons-operator 0.102.0. With its images in
//! Weft's variables, the pods restart that `docs/compatibility/network-addons-config.md` lists with
//! a reason, and no others.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::{Value, json};
use weft_plan::{ObjectKey, kinds};

use crate::harness::*;

const API: &str = "networkaddonsoperator.network.kubevirt.io/v1";
/// Prints the objects of that release.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/cnao-objects");
const PAGE: &str = include_str!("../../../../docs/compatibility/network-addons-config.md");

/// The workloads in the page's table of restarts, but for those that restart only on some clusters.
fn listed() -> BTreeSet<String> {
    let (_, rest) = PAGE
        .split_once("A pod restarts when its template changes.")
        .expect("the section about restarts");
    let table = rest.split("\n#").next().unwrap().lines();
    let first_cell = table.filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let workloads = first_cell.filter(|cell| !cell.contains("only where"));
    workloads
        .filter_map(|cell| {
            cell.strip_prefix("DaemonSet `")
                .or(cell.strip_prefix("Deployment `"))?
                .strip_suffix('`')
        })
        .map(str::to_owned)
        .collect()
}

fn configuration() -> Value {
    let placement = json!({"affinity": {}, "nodeSelector": {}, "tolerations": []});
    json!({"apiVersion": API, "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"}, "spec": {
        "multus": {}, "multusDynamicNetworks": {}, "linuxBridge": {}, "ovs": {}, "macvtap": {}, "kubeSecondaryDNS": {}, "kubevirtIpamController": {},
        "kubeMacPool": {"rangeStart": "02:00:00:00:00:00", "rangeEnd": "02:00:00:ff:ff:ff"},
        "placementConfiguration": {"infra": placement, "workloads": placement},
        "selfSignConfiguration": {
            "caRotateInterval": "168h0m0s", "caOverlapInterval": "24h0m0s",
            "certRotateInterval": "24h0m0s", "certOverlapInterval": "8h0m0s"
        },
    }})
}

/// The objects of the release with labels and owner, as its operator sets them. Namespace and
/// definitions have neither.
async fn objects(cluster: &Cluster, uid: &Value) -> Vec<Value> {
    let deployment = cluster
        .get(kinds::DEPLOYMENT, NAMESPACE, OPERATOR)
        .await
        .unwrap();
    let variables = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
        .as_array()
        .unwrap();
    let images = variables
        .iter()
        .filter_map(|variable| Some((variable["name"].as_str()?, variable["value"].as_str()?)));
    let output = Command::new(SCRIPT)
        .envs(images.filter(|(name, _)| name.ends_with("_IMAGE")))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let all: Vec<Value> =
        serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let mut objects = BTreeMap::new();
    for mut object in all.into_iter().filter(Value::is_object) {
        let title = format!("{} {}", object["kind"], object["metadata"]["name"]);
        if object["kind"] != "Namespace" && object["kind"] != "CustomResourceDefinition" {
            let is_manager =
                object["metadata"]["labels"]["control-plane"] == "mac-controller-manager";
            label(&mut object["metadata"], is_manager);
            object["metadata"]["labels"]["networkaddonsoperator.network.kubevirt.io/version"] =
                "0.102.0".into();
            object["metadata"]["ownerReferences"] = json!([
                {
                    "apiVersion": API, "kind": "NetworkAddonsConfig", "name": "cluster", "uid": uid,
                    "controller": true, "blockOwnerDeletion": true
                }
            ]);
            if object["spec"]["template"].is_object() {
                label(&mut object["spec"]["template"]["metadata"], is_manager);
            }
        }
        objects.insert(title, object);
    }
    objects.into_values().collect()
}

fn label(metadata: &mut Value, is_manager: bool) {
    metadata["labels"]["prometheus.cnao.io"] = (!is_manager).to_string().into();
    metadata["labels"]["app.kubernetes.io/component"] = "network".into();
    metadata["labels"]["app.kubernetes.io/managed-by"] = "cnao-operator".into();
}

/// The pods of each workload by their uids, once each has the pods that it wants.
async fn pods(cluster: &Cluster, workloads: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    wait_until("each workload has its pods", async || {
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for pod in cluster
            .api(kinds::POD, NAMESPACE)
            .list(&Default::default())
            .await
            .unwrap()
        {
            let pod = serde_json::to_value(pod).unwrap();
            let name = pod["metadata"]["name"].as_str().unwrap();
            let is_there = pod["metadata"]["deletionTimestamp"].is_null();
            // No workload's name begins with another one and a hyphen.
            for workload in workloads
                .iter()
                .filter(|workload| is_there && name.starts_with(&format!("{workload}-")))
            {
                found
                    .entry(workload.clone())
                    .or_default()
                    .insert(pod["metadata"]["uid"].to_string());
            }
        }
        for workload in workloads {
            let live = workload_of(cluster, workload).await?;
            let wanted = live["spec"]["replicas"].as_u64().unwrap_or(1);
            if found.get(workload).map_or(0, |pods| pods.len() as u64) != wanted {
                return Err(format!("{workload} wants {wanted} pods: {found:#?}"));
            }
        }
        Ok(found)
    })
    .await
}

/// The DaemonSet or Deployment of this name.
async fn workload_of(cluster: &Cluster, name: &str) -> Result<Value, String> {
    let daemon_set = cluster.get(kinds::DAEMON_SET, NAMESPACE, name).await;
    match daemon_set {
        Some(live) => Ok(live),
        None => cluster
            .get(kinds::DEPLOYMENT, NAMESPACE, name)
            .await
            .ok_or(format!("{name} is gone")),
    }
}

#[tokio::test]
async fn with_equal_images_only_the_listed_pods_restart() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    cluster
        .define(&[
            "servicemonitors.monitoring.coreos.com",
            "prometheusrules.monitoring.coreos.com",
            "certificates.cert-manager.io",
            "issuers.cert-manager.io",
        ])
        .await;
    cluster.apply(&configuration().to_string()).await;
    let uid = cluster.resource().await.unwrap()["metadata"]["uid"].clone();
    let objects = objects(&cluster, &uid).await;
    // The plan follows the variables of Weft's Deployment.
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "scale",
            "deployment",
            OPERATOR,
            "--replicas=0",
        ])
        .await;
    for object in &objects {
        let verb = if object["kind"] == "Namespace" {
            "apply"
        } else {
            "create"
        };
        let arguments = [verb, "--field-manager=manager", "-f", "-"];
        cluster
            .control_plane
            .kubectl_with_input(&arguments, &object.to_string())
            .await
            .unwrap();
    }
    for secret in ["kubemacpool-service", "webhook-server-cert"] {
        cluster.play_certificate(secret).await;
    }
    // As cert-manager marks what it issues.
    let issued = json!({
        "metadata": {
            "annotations": {
                "cert-manager.io/certificate-name": "kubevirt-ipam-controller-serving-cert"
            }
        }
    });
    cluster
        .patch(kinds::SECRET, NAMESPACE, "webhook-server-cert", issued)
        .await;
    let has_pods = |object: &&Value| object["spec"]["template"].is_object();
    let workloads: Vec<String> = objects
        .iter()
        .filter(has_pods)
        .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(workloads.len(), 10, "{workloads:?}");
    let before = pods(&cluster, &workloads).await;

    let is_taken = |object: &&Value| {
        object["kind"] != "Namespace" && object["kind"] != "CustomResourceDefinition"
    };
    let keys = objects
        .iter()
        .filter(is_taken)
        .map(|object| ObjectKey::of(object).unwrap());
    let planned = Planned::of(&cluster, &configuration().to_string(), &[], keys).await;
    assert_eq!(planned.restarts(), listed(), "{}", planned.reasons());

    let _operator = Operator::start_default(&cluster).await;
    wait_until("Weft has taken over", async || {
        for workload in &workloads {
            let live = workload_of(&cluster, workload).await?;
            if live["metadata"]["labels"]["weft.network/owner"].is_null()
                || live["status"]["observedGeneration"] != live["metadata"]["generation"]
            {
                return Err(format!("{workload}: {:#}", live["metadata"]));
            }
        }
        Ok(())
    })
    .await;
    cluster.wait_available().await;
    assert_eq!(planned.assert_happened(&cluster).await, listed());
    let after = pods(&cluster, &workloads).await;
    let restarted: BTreeSet<String> = workloads
        .into_iter()
        .filter(|workload| before[workload] != after[workload])
        .collect();
    assert_eq!(restarted, listed());
}
