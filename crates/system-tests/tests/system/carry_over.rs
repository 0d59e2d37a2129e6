//! A decided value stays: over restarts and upgrades of the operator, on the way from
//! cluster-network-addons-operator and back. And it is forgotten with the resource.

use std::process::Command;

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::{Fault, Match, Proxy};

use crate::system::{
    deletion::{all_is_gone, gone},
    harness::*,
    install::passes,
};

const RECORD: &str = "cluster-networks-addons-operator-applied-cluster";
const INVENTORY: &str = "weft-inventory-networkaddonsconfig-cluster";
const DEVICE_PLUGIN: &str = "macvtap-deviceplugin-config";
const RANGE: &str = "kubemacpool-mac-range-config";

fn configuration(spec: Value) -> String {
    let api = "networkaddonsoperator.network.kubevirt.io/v1";
    json!({
        "apiVersion": api, "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
        "spec": spec
    })
    .to_string()
}

/// Returns the ConfigMap's data with the range of MAC addresses for KubeMacPool.
async fn range(cluster: &Cluster) -> Value {
    cluster
        .get(kinds::CONFIG_MAP, NAMESPACE, RANGE)
        .await
        .expect("KubeMacPool's range")["data"]
        .clone()
}

/// The record, which is JSON in a text.
async fn record(cluster: &Cluster) -> Option<Value> {
    let map = cluster.get(kinds::CONFIG_MAP, NAMESPACE, RECORD).await?;
    Some(
        serde_json::from_str(map["data"]["applied"].as_str().expect("data.applied")).expect("JSON"),
    )
}

async fn a_pass(operator: &Operator) {
    wait_until("a pass", async || {
        passes(operator)
            .await
            .gt(&0.0)
            .then_some(())
            .ok_or("none yet".into())
    })
    .await;
}

#[tokio::test]
async fn a_random_range_survives_restart_upgrade_and_the_way_to_cnao_and_back() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .install(&configuration(json!({"kubeMacPool": {}})))
        .await;
    let drawn = range(&cluster).await;
    let (start, end) = (
        drawn["RANGE_START"].as_str().unwrap(),
        drawn["RANGE_END"].as_str().unwrap(),
    );
    assert!(
        start.starts_with("02:") && start.ends_with(":00:00:00") && end.ends_with(":ff:ff:ff"),
        "{drawn}"
    );
    assert_eq!(
        cluster.resource().await.unwrap()["spec"],
        json!({"kubeMacPool": {}}),
        "nobody writes into the specification"
    );

    // A restart.
    operator.kill();
    let operator = Operator::start_default(&cluster).await;
    a_pass(&operator).await;
    cluster.wait_available().await;
    assert_eq!(range(&cluster).await, drawn);

    // An upgrade.
    operator.terminate().await;
    let upgraded = OperatorOptions {
        environment: &[("OPERATOR_VERSION", "99.0.0")],
        ..Default::default()
    };
    let operator = Operator::start(&cluster, upgraded).await;
    wait_until("the upgrade is complete", async || {
        match cluster.status().await {
            status if status["observedVersion"] == "99.0.0" => Ok(()),
            status => Err(format!("{status:#}")),
        }
    })
    .await;
    cluster.wait_available().await;
    assert_eq!(range(&cluster).await, drawn);

    // To CNAO: what it reads holds the range, next to all else in its own form.
    operator.terminate().await;
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
    let released = Command::new(weft_binary())
        .args(["release", "addons", "--yes"])
        .env("KUBECONFIG", cluster.control_plane.kubeconfig())
        .output();
    let released = released.unwrap();
    assert!(
        released.status.success(),
        "{}",
        String::from_utf8_lossy(&released.stderr)
    );
    assert_eq!(
        cluster.get(kinds::CONFIG_MAP, NAMESPACE, INVENTORY).await,
        None,
        "Weft itself remembers nothing any more"
    );
    let record = record(&cluster).await.expect("the record stays");
    assert_eq!(
        record["kubeMacPool"],
        json!({"rangeStart": start, "rangeEnd": end})
    );
    assert_eq!(
        record["selfSignConfiguration"]["caRotateInterval"],
        "168h0m0s"
    );
    assert_eq!(
        (
            &record["imagePullPolicy"],
            &record["placementConfiguration"]["workloads"]["affinity"]
        ),
        (&json!("IfNotPresent"), &json!({}))
    );

    // And back.
    cluster
        .apply_manifests(&["--split", "--domains", "addons"])
        .await;
    let operator = Operator::start_default(&cluster).await;
    // Status says Available since before: the operator has looked once it has ended a reconcile.
    a_pass(&operator).await;
    cluster.wait_available().await;
    assert!(
        cluster
            .get(kinds::CONFIG_MAP, NAMESPACE, INVENTORY)
            .await
            .is_some(),
        "Weft has it again"
    );
    assert_eq!(range(&cluster).await, drawn);
}

/// As CNAO 0.102 writes it.
const OF_CNAO: &str = r#"{"multus":{},"kubeMacPool":{"rangeStart":"02:5f:11:00:00:00","rangeEnd":"02:5f:11:ff:ff:ff"},"imagePullPolicy":"IfNotPresent","selfSignConfiguration":{"caRotateInterval":"48h0m0s","caOverlapInterval":"24h0m0s","certRotateInterval":"24h0m0s","certOverlapInterval":"12h0m0s"},"placementConfiguration":{"infra":{"affinity":{}},"workloads":{"nodeSelector":{"kubernetes.io/os":"linux"},"affinity":{},"tolerations":[{"key":"node.kubernetes.io/unschedulable","operator":"Exists","effect":"NoSchedule"}]}}}"#;

/// Carries over the record that CNAO wrote in the operands' namespace, and finds Weft's own in the
/// namespace `own`.
async fn carries_over_a_record(manifests: &'static [&'static str], own: &str) -> Cluster {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        manifests,
        ..Default::default()
    })
    .await;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": RECORD, "namespace": NAMESPACE}, "data": {"applied": OF_CNAO}
    });
    cluster.apply(&map.to_string()).await;
    let _operator = Operator::start_default(&cluster).await;
    cluster
        .install(&configuration(json!({"multus": {}, "kubeMacPool": {}})))
        .await;
    assert_eq!(
        range(&cluster).await,
        json!({"RANGE_START": "02:5f:11:00:00:00", "RANGE_END": "02:5f:11:ff:ff:ff"})
    );
    let manager = cluster
        .get(kinds::DEPLOYMENT, NAMESPACE, "kubemacpool-cert-manager")
        .await
        .unwrap();
    let environment = manager["spec"]["template"]["spec"]["containers"][0]["env"]
        .as_array()
        .unwrap();
    assert!(
        environment.contains(&json!({"name": "CERT_OVERLAP_INTERVAL", "value": "12h0m0s"})),
        "its rotation too: {environment:#?}"
    );
    let record = cluster.get(kinds::CONFIG_MAP, own, RECORD).await.unwrap();
    let pool =
        |applied: &str| serde_json::from_str::<Value>(applied).unwrap()["kubeMacPool"].clone();
    assert_eq!(
        pool(record["data"]["applied"].as_str().unwrap()),
        pool(OF_CNAO)
    );
    cluster
}

#[tokio::test]
async fn a_record_of_cnao_is_gone_on_from() {
    carries_over_a_record(&[], NAMESPACE).await;
}

/// The original owns its record and the ConfigMap of the macvtap device plugin by the resource: the
/// garbage collector would delete what users wrote.
#[tokio::test]
async fn record_and_device_plugin_config_lose_the_originals_owner() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    cluster.apply(&configuration(json!({"macvtap": {}}))).await;
    let uid = cluster.resource().await.unwrap()["metadata"]["uid"].clone();
    let owner = json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "name": "cluster", "uid": uid, "controller": true, "blockOwnerDeletion": true
    });
    let version = "networkaddonsoperator.network.kubevirt.io/version";
    let users =
        json!({"DP_MACVTAP_CONF": "[{\"name\": \"dataplane\", \"lowerDevice\": \"eth1\"}]"});
    for (name, data) in [
        (RECORD, json!({"applied": OF_CNAO})),
        (DEVICE_PLUGIN, users.clone()),
    ] {
        let metadata = json!({
            "name": name, "namespace": NAMESPACE, "labels": {version: "0.90.0"},
            "ownerReferences": [owner]
        });
        cluster
            .apply(
                &json!({
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data
                })
                .to_string(),
            )
            .await;
    }
    let _operator = Operator::start_default(&cluster).await;
    cluster.wait_available().await;
    wait_until("the original owns neither", async || {
        for name in [RECORD, DEVICE_PLUGIN] {
            let map = cluster
                .get(kinds::CONFIG_MAP, NAMESPACE, name)
                .await
                .unwrap();
            let metadata = &map["metadata"];
            if !metadata["ownerReferences"].is_null() || metadata["labels"][version] == "0.90.0" {
                return Err(metadata.to_string());
            }
        }
        Ok(())
    })
    .await;
    let record = cluster
        .get(kinds::CONFIG_MAP, NAMESPACE, RECORD)
        .await
        .unwrap();
    assert!(
        record["metadata"]["labels"][version].is_string(),
        "{record}"
    );

    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster"])
        .await;
    wait_until("the record is gone", async || {
        match cluster.get(kinds::CONFIG_MAP, NAMESPACE, RECORD).await {
            None => Ok(()),
            Some(record) => Err(record.to_string()),
        }
    })
    .await;
    assert_eq!(
        cluster
            .get(kinds::CONFIG_MAP, NAMESPACE, DEVICE_PLUGIN)
            .await
            .unwrap()["data"],
        users,
        "it is the users'"
    );
}

/// The original ran with its operands. One operator for all domains has a namespace of its own.
#[tokio::test]
async fn a_record_of_cnao_is_found_with_the_operands() {
    let cluster = carries_over_a_record(&["--domains", "addons"], "weft-system").await;
    assert_eq!(
        cluster
            .get(kinds::CONFIG_MAP, NAMESPACE, RECORD)
            .await
            .unwrap()["data"]["applied"],
        OF_CNAO,
        "the original's stays as it is"
    );
}

#[tokio::test]
async fn the_record_is_written_last_and_not_while_something_fails() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    let failing = proxy.inject(
        Match::any()
            .user(OPERATOR_USER)
            .verb("patch")
            .resource("daemonsets")
            .name("multus"),
        Fault::status(500),
    );
    cluster
        .apply(&configuration(json!({"multus": {}, "linuxBridge": {}})))
        .await;
    cluster
        .wait_condition("Degraded", "True", "FailedToApply", "multus")
        .await;
    assert_eq!(
        record(&cluster).await,
        None,
        "what is not applied is not recorded as applied"
    );
    failing.remove();
    cluster.wait_available().await;
    assert!(record(&cluster).await.is_some());
    let work = Match::any().user(OPERATOR_USER).writes();
    let carried_out = proxy
        .writes()
        .into_iter()
        .filter(|write| work.selects(&write.info) && write.code.is_some_and(|code| code < 300));
    let names: Vec<_> = carried_out
        .filter(|write| write.info.resource != "networkaddonsconfigs")
        .map(|write| write.info.name)
        .collect();
    let at = |name: &str| {
        names
            .iter()
            .position(|other| other == name)
            .unwrap_or_else(|| panic!("{name} in {names:?}"))
    };
    assert!(
        names[at(RECORD)..]
            .iter()
            .all(|name| name == RECORD || name == INVENTORY),
        "after the record only Weft's own notes: {names:?}"
    );
    assert!(
        at(RECORD) > at("multus") && at(INVENTORY) < at("multus"),
        "{names:?}"
    );
}

#[tokio::test]
async fn a_resource_that_is_created_again_begins_like_the_first() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    let configuration =
        configuration(json!({"kubeMacPool": {}, "ovs": {}, "kubevirtIpamController": {}}));
    cluster.install(&configuration).await;
    let (whole, first) = (cluster.snapshot().await, range(&cluster).await);

    // Deleted, and created again when it is gone.
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster"])
        .await;
    all_is_gone(&cluster, "kubectl delete").await;
    cluster.install(&configuration).await;
    let second = range(&cluster).await;
    assert_ne!(first, second, "what was decided is forgotten");
    same_but_for_the_range(&whole, &cluster, "created again").await;

    // Created again at once, while the teardown runs: somebody's finalizer keeps it from its end
    // for a while.
    for cascade in ["background", "foreground"] {
        let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        cluster
            .patch(kinds::DAEMON_SET, NAMESPACE, "ovs-cni-amd64", held)
            .await;
        let before = range(&cluster).await;
        let old = cluster.resource().await.unwrap()["metadata"]["uid"].clone();
        cluster
            .kubectl(&[
                "delete",
                "networkaddonsconfig",
                "cluster",
                "--wait=false",
                &format!("--cascade={cascade}"),
            ])
            .await;
        let create = async || {
            cluster
                .control_plane
                .kubectl_with_input(&["create", "-f", "-"], &configuration)
                .await
        };
        cluster
            .wait_condition("Progressing", "True", "Removing", "ovs-cni-amd64")
            .await;
        let refused = create()
            .await
            .expect_err("the old one is still there")
            .to_string();
        assert!(refused.contains("already exists"), "{refused}");
        cluster
            .patch(
                kinds::DAEMON_SET,
                NAMESPACE,
                "ovs-cni-amd64",
                json!({"metadata": {"finalizers": null}}),
            )
            .await;
        wait_until("it is created again", async || {
            create().await.map(drop).map_err(|error| error.to_string())
        })
        .await;
        cluster.play_kubemacpool().await;
        cluster.wait_available().await;
        assert_ne!(cluster.resource().await.unwrap()["metadata"]["uid"], old);
        assert_ne!(range(&cluster).await, before, "--cascade={cascade}");
        same_but_for_the_range(
            &whole,
            &cluster,
            &format!("created again at once, --cascade={cascade}"),
        )
        .await;
        no_owner_but_the_resource(&cluster).await;
    }

    // Somebody takes the finalizer off by hand, and creates it again at once: what is there belongs
    // to a resource that is gone.
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--wait=false"])
        .await;
    let patch = [
        "patch",
        "networkaddonsconfig",
        "cluster",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ];
    if cluster.control_plane.kubectl(&patch).await.is_err() {
        gone(&cluster).await;
    }
    wait_until("it is created again", async || {
        let created = cluster
            .control_plane
            .kubectl_with_input(&["create", "-f", "-"], &configuration)
            .await;
        created.map(drop).map_err(|error| error.to_string())
    })
    .await;
    wait_until("all is as it was", async || {
        // The Secret goes with what belonged to the resource that is gone. In life its maker makes
        // it anew whenever it is missing.
        cluster.play_kubemacpool().await;
        let differences = without_range(&whole).diff(&without_range(&cluster.snapshot().await));
        if differences.is_empty() {
            Ok(())
        } else {
            Err(differences.join("\n"))
        }
    })
    .await;
    no_owner_but_the_resource(&cluster).await;
}

async fn same_but_for_the_range(whole: &Snapshot, cluster: &Cluster, when: &str) {
    assert_same(
        &without_range(whole),
        &without_range(&cluster.snapshot().await),
        when,
    );
}

/// The range is in KubeMacPool's ConfigMap, in Weft's notes and in status.
fn without_range(snapshot: &Snapshot) -> Snapshot {
    let mut snapshot = snapshot.clone();
    snapshot.objects.retain(|name, _| {
        ![RANGE, RECORD, INVENTORY]
            .iter()
            .any(|range| name.ends_with(range))
    });
    // The creator's name in `managedFields` belongs to the test.
    if let Some(resource) = snapshot.objects.get_mut("NetworkAddonsConfig cluster") {
        resource["metadata"]
            .as_object_mut()
            .unwrap()
            .retain(|field, _| !matches!(field.as_str(), "writers" | "annotations"));
        resource
            .pointer_mut("/status/effectiveConfiguration/kubeMacPool")
            .into_iter()
            .for_each(|range| *range = "drawn".into());
    }
    snapshot
}

/// All that is owned by a NetworkAddonsConfig is owned by the one that is there.
async fn no_owner_but_the_resource(cluster: &Cluster) {
    let uid = cluster.resource().await.unwrap()["metadata"]["uid"].clone();
    for kind in [
        kinds::DEPLOYMENT,
        kinds::DAEMON_SET,
        kinds::SECRET,
        kinds::CLUSTER_ROLE,
        kinds::MUTATING_WEBHOOK_CONFIGURATION,
    ] {
        for object in cluster
            .api(kind, NAMESPACE)
            .list(&Default::default())
            .await
            .unwrap()
        {
            let owners = object
                .metadata
                .owner_references
                .into_iter()
                .flatten()
                .filter(|owner| owner.kind == "NetworkAddonsConfig");
            for owner in owners {
                assert_eq!(uid, owner.uid, "{kind} {:?}", object.metadata.name);
            }
        }
    }
}
