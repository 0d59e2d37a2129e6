//! From the minimal example through refused and forced changes to a deletion that takes nothing
//! away, and one that does.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_plan::{OWNER_LABEL, ObjectKey, kinds};
use weft_testenv::proxy::Proxy;

use super::{NAMESPACE, RECORD, SDN, holds, minimal, record, start, text, weft};
use crate::system::{harness::*, install};

const VXLAN: &str = "spec.defaultNetwork.openshiftSDNConfig.vxlanPort";

#[tokio::test]
async fn a_default_network_lives_on_through_refused_changes_and_deletions() {
    let cluster = start().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;

    cluster.apply(&minimal()).await;
    cluster.wait_available().await;
    everything_is_there(&cluster).await;
    assert_not_warned(&cluster, &proxy);
    install::becomes_idle(&cluster, &proxy).await;
    install::a_pass_writes_nothing(&cluster, &proxy, &operator).await;
    let installed = cluster.snapshot().await;

    // A restarted operator finds all as it should be.
    operator.terminate().await;
    proxy.clear();
    let operator = Operator::start_via(&cluster, &proxy).await;
    wait_until("the first pass", async || {
        install::passes(&operator)
            .await
            .gt(&0.0)
            .then_some(())
            .ok_or("none yet".into())
    })
    .await;
    install::only(&proxy, &["list", "watch"]);
    assert_same(&installed, &cluster.snapshot().await, "after a restart");

    refused_and_undone(&cluster, &installed).await;
    let operator = forced(&cluster, operator, &proxy).await;
    deleted_and_made_again(&cluster).await;
    removed(&cluster).await;
    another(&cluster).await;
    uninstalled(&cluster, operator).await;
}

/// Weft goes, and the network stays.
async fn uninstalled(cluster: &Cluster, operator: Operator) {
    operator.terminate().await;
    let gone = weft(
        cluster,
        &["uninstall", "--yes", "--domains", "cluster-network"],
        "",
    )
    .await;
    assert!(gone.status.success(), "{}", text(&gone));
    assert!(
        text(&gone).contains(" objects of NetworkConfig default: pods use it, so it stays"),
        "{}",
        text(&gone)
    );
    assert_eq!(cluster.resource().await, None);
    assert_eq!(
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "cluster-network-operator")
            .await,
        None
    );
    assert!(
        cluster
            .get(kinds::DAEMON_SET, "kube-flannel", "kube-flannel-ds")
            .await
            .is_some()
    );
    assert_eq!(record(cluster).await["defaultNetwork"]["type"], "Flannel");
}

/// Another type of network in the same place, with the rights that `weft manifests` gives for it.
async fn another(cluster: &Cluster) {
    cluster.apply(&example("network-config-flannel.yaml")).await;
    let resource = cluster.wait_available().await;
    assert_eq!(
        resource["status"]["effectiveConfiguration"]["defaultNetwork"]["type"],
        "Flannel"
    );
    assert!(
        cluster
            .get(kinds::DAEMON_SET, "kube-flannel", "kube-flannel-ds")
            .await
            .is_some()
    );
    assert_eq!(record(cluster).await["defaultNetwork"]["type"], "Flannel");
}

/// The objects that the renderer prints, the record in full, and nothing that the garbage collector
/// could take away.
async fn everything_is_there(cluster: &Cluster) {
    let images = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        images.path(),
        "NODE_IMAGE=docker.io/openshift/origin-node:v4.0.0\nHYPERSHIFT_IMAGE=docker.io/openshift/origin-hypershift:v4.0.0\n",
    )
    .unwrap();
    let render = [
        "render-network",
        "--config",
        "-",
        "--out",
        "-",
        "--images",
        images.path().to_str().unwrap(),
    ];
    let rendered = weft(cluster, &render, &minimal()).await;
    assert!(rendered.status.success(), "{}", text(&rendered));
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(std::str::from_utf8(&rendered.stdout).unwrap()).unwrap();
    let wanted: BTreeSet<_> = documents.iter().filter_map(ObjectKey::of).collect();
    assert_eq!(wanted.len(), 22, "{wanted:#?}");
    for key in &wanted {
        let live = cluster
            .get(
                key.kind,
                key.namespace.as_deref().unwrap_or_default(),
                &key.name,
            )
            .await;
        let live = live.unwrap_or_else(|| panic!("{} is not there", key.human()));
        assert_eq!(
            live["metadata"]["labels"][OWNER_LABEL],
            "networkconfig.default",
            "{}",
            key.human()
        );
        assert!(
            live["metadata"]["ownerReferences"].is_null(),
            "{} would go with the NetworkConfig",
            key.human()
        );
    }
    let applied = record(cluster).await;
    assert_eq!(applied["serviceNetwork"], "172.30.0.0/16");
    assert_eq!(
        applied["clusterNetworks"],
        json!([{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}])
    );
    let sdn = &applied["defaultNetwork"]["openshiftSDNConfig"];
    assert_eq!(
        (&sdn["mode"], &sdn["vxlanPort"]),
        (&json!("NetworkPolicy"), &json!(4789)),
        "{applied}"
    );
    assert_eq!(applied["deployKubeProxy"], false);
    let resource = cluster.resource().await.unwrap();
    assert!(
        holds(&resource["status"]["effectiveConfiguration"], &applied),
        "{resource:#}"
    );
    assert!(
        resource["spec"]["defaultNetwork"]
            .get("openshiftSDNConfig")
            .is_none(),
        "nothing is written into it: {resource}"
    );
}

fn vxlan_port(port: u16) -> Value {
    json!({"spec": {"defaultNetwork": {"openshiftSDNConfig": {"vxlanPort": port}}}})
}

/// Waits until status refuses this value.
async fn wait_refused(cluster: &Cluster, port: u16) -> Value {
    wait_until(&format!("vxlanPort {port} is refused"), async || {
        let status = cluster.status().await;
        let refused = &status["refusedChange"]["fields"][0];
        if refused["field"] == VXLAN && refused["new"].as_str() == Some(&*port.to_string()) {
            Ok(status)
        } else {
            Err(format!("{status:#}"))
        }
    })
    .await
}

/// An unsafe change changes nothing but status, and what is in force is still kept in order.
/// Undone, all is as it was.
async fn refused_and_undone(cluster: &Cluster, installed: &Snapshot) {
    let file = minimal().replace(
        "type: OpenShiftSDN",
        "type: OpenShiftSDN\n    openshiftSDNConfig: {vxlanPort: 4790}",
    );
    let plan = weft(cluster, &["plan", "-f", "-"], &file).await;
    assert_eq!(plan.status.code(), Some(2), "{}", text(&plan));
    assert!(
        text(&plan).contains(VXLAN) && text(&plan).contains("applied-default"),
        "the verdict beforehand: {}",
        text(&plan)
    );

    cluster.patch_resource(vxlan_port(4790)).await;
    let status = wait_refused(cluster, 4790).await;
    assert_eq!(status["refusedChange"]["fields"][0]["old"], "4789");
    let told = condition(&status, "Degraded");
    assert_eq!(
        (&told["status"], &told["reason"]),
        (&json!("True"), &json!("InvalidOperatorConfig"))
    );
    for part in [
        "not applying unsafe change",
        VXLAN,
        "4789",
        "4790",
        "delete configmap applied-default",
    ] {
        assert!(
            told["message"].as_str().unwrap().contains(part),
            "{part}: {told}"
        );
    }
    assert_eq!(
        condition(&status, "Available")["status"],
        "True",
        "the network is there"
    );
    assert_eq!(condition(&status, "Upgradeable")["reason"], "ChangeRefused");
    assert!(
        holds(&status["effectiveConfiguration"], &record(cluster).await),
        "{status:#}"
    );
    let shown = text(&weft(cluster, &["status", "--domains", "cluster-network"], "").await);
    assert!(
        shown.contains(&format!("refused: {VXLAN}: 4789 -> 4790")),
        "{shown}"
    );
    wait_until("an event tells of it", async || {
        let events = cluster
            .kubectl(&[
                "get",
                "events.v1.events.k8s.io",
                "-n",
                "default",
                "-o",
                "jsonpath={.items[*].note}",
            ])
            .await;
        if events.contains(VXLAN) {
            Ok(())
        } else {
            Err(events)
        }
    })
    .await;
    let status = weft(cluster, &["status"], "").await;
    assert!(text(&status).contains(VXLAN), "{}", text(&status));

    // Drift in the old objects is repaired meanwhile.
    cluster.delete(kinds::DAEMON_SET, SDN, "sdn").await;
    cluster
        .patch(
            kinds::CONFIG_MAP,
            SDN,
            "sdn-config",
            json!({"data": {"sdn-config.yaml": "broken"}}),
        )
        .await;
    let of_resource = |line: &String| line.contains(" NetworkConfig default ");
    wait_until("the last configuration is kept in order", async || {
        let changed: Vec<_> = installed
            .diff(&cluster.snapshot().await)
            .into_iter()
            .filter(|line| !of_resource(line))
            .collect();
        if changed.is_empty() {
            Ok(())
        } else {
            Err(format!("{changed:#?}"))
        }
    })
    .await;

    cluster
        .patch_resource(json!({"spec": {"defaultNetwork": {"openshiftSDNConfig": null}}}))
        .await;
    let resource = cluster.wait_available().await;
    assert!(
        resource["status"]["refusedChange"].is_null(),
        "{resource:#}"
    );
    assert_eq!(
        condition(&resource["status"], "Upgradeable")["status"],
        "True"
    );
}

/// Without the record there is no check: whether it is deleted after the change or before it, and
/// also while the operator is down.
async fn forced(cluster: &Cluster, operator: Operator, proxy: &Proxy) -> Operator {
    cluster.patch_resource(vxlan_port(4790)).await;
    wait_refused(cluster, 4790).await;
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "configmap", RECORD])
        .await;
    wait_port(cluster, 4790).await;

    // First the record, then the change. The operator does not recreate at once a record that was
    // deleted on purpose.
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "configmap", RECORD])
        .await;
    wait_until("status tells that the record is gone", async || {
        let notices = cluster.status().await["notices"].to_string();
        if notices.contains("ConfigMap openshift-cluster-network-operator/applied-default") {
            Ok(())
        } else {
            Err(notices)
        }
    })
    .await;
    assert_eq!(record(cluster).await, Value::Null);
    install::becomes_idle(cluster, proxy).await;
    assert_eq!(record(cluster).await, Value::Null);
    cluster.patch_resource(vxlan_port(4791)).await;
    wait_port(cluster, 4791).await;

    cluster.patch_resource(vxlan_port(4792)).await;
    wait_refused(cluster, 4792).await;
    operator.kill();
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "configmap", RECORD])
        .await;
    let operator = Operator::start_via(cluster, proxy).await;
    wait_port(cluster, 4792).await;
    operator
}

async fn wait_port(cluster: &Cluster, port: u16) {
    let resource = cluster.wait_available().await;
    assert_eq!(
        resource["status"]["effectiveConfiguration"]["defaultNetwork"]["openshiftSDNConfig"]["vxlanPort"],
        port
    );
    assert_eq!(
        record(cluster).await["defaultNetwork"]["openshiftSDNConfig"]["vxlanPort"],
        port
    );
    let config = cluster
        .get(kinds::CONFIG_MAP, SDN, "sdn-controller-config")
        .await
        .unwrap();
    assert!(
        config["data"]["controller-config.yaml"]
            .as_str()
            .unwrap()
            .contains(&port.to_string()),
        "{config:#}"
    );
}

/// A deletion leaves the network alone, and another NetworkConfig goes on from there: with the same
/// check.
async fn deleted_and_made_again(cluster: &Cluster) {
    let resource = cluster.resource().await.unwrap();
    let uid = async || {
        cluster.get(kinds::DAEMON_SET, SDN, "sdn").await.unwrap()["metadata"]["uid"].clone()
    };
    let before = (uid().await, cluster.snapshot().await);
    let plan = weft(cluster, &["plan", "--delete", "-f", "-"], &minimal()).await;
    assert!(
        text(&plan).contains("stays\n  pods use it, so it stays")
            && text(&plan).contains("\n  = DaemonSet openshift-sdn/sdn\n"),
        "{}",
        text(&plan)
    );
    assert_eq!(
        text(&plan)
            .matches("weft.network/remove=OpenShiftSDN")
            .count(),
        1,
        "the reason is told once: {}",
        text(&plan)
    );
    assert!(
        text(&plan).contains("Objects: 22 to stay."),
        "{}",
        text(&plan)
    );
    cluster
        .kubectl(&["delete", "networkconfig", "default", "--timeout=60s"])
        .await;
    let of_resource = |line: &String| line.contains(" NetworkConfig default ");
    let changed: Vec<_> = before
        .1
        .diff(&cluster.snapshot().await)
        .into_iter()
        .filter(|line| !of_resource(line))
        .collect();
    assert!(changed.is_empty(), "{changed:#?}");

    cluster.apply(&super::config(&json!({
        "serviceNetwork": "172.31.0.0/16", "clusterNetworks": resource["spec"]["clusterNetworks"],
        "defaultNetwork": resource["spec"]["defaultNetwork"]
    }))).await;
    cluster
        .wait_condition(
            "Degraded",
            "True",
            "InvalidOperatorConfig",
            "spec.serviceNetwork",
        )
        .await;
    cluster.apply(&super::config(&resource["spec"])).await;
    cluster.wait_available().await;
    assert_eq!(uid().await, before.0, "the same network");
}

/// With an annotation that names the network, the network goes, too. Definitions and namespaces
/// stay.
async fn removed(cluster: &Cluster) {
    cluster
        .kubectl(&[
            "annotate",
            "networkconfig",
            "default",
            "weft.network/remove=Flannel",
        ])
        .await;
    let plan = weft(cluster, &["plan", "--delete", "-f", "-"], &minimal()).await;
    assert!(
        text(&plan).contains("names \"Flannel\"") && text(&plan).contains("stays"),
        "{}",
        text(&plan)
    );
    cluster
        .kubectl(&[
            "annotate",
            "--overwrite",
            "networkconfig",
            "default",
            "weft.network/remove=OpenShiftSDN",
        ])
        .await;
    let plan = weft(cluster, &["plan", "--delete", "-f", "-"], &minimal()).await;
    assert!(
        text(&plan).contains("- DaemonSet openshift-sdn/sdn"),
        "{}",
        text(&plan)
    );
    cluster
        .kubectl(&["delete", "networkconfig", "default", "--timeout=60s"])
        .await;
    wait_until(
        "nothing is left but definitions and namespaces",
        async || {
            let stays = |title: &String| {
                title.starts_with("CustomResourceDefinition ") || title.starts_with("Namespace ")
            };
            let left: Vec<_> = cluster
                .leftovers()
                .await
                .into_iter()
                .filter(|title| !stays(title))
                .collect();
            if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:#?}"))
            }
        },
    )
    .await;
    let definition = cluster
        .get(
            kinds::CUSTOM_RESOURCE_DEFINITION,
            "",
            "hostsubnets.network.openshift.io",
        )
        .await
        .unwrap();
    assert!(
        definition["metadata"]["labels"][OWNER_LABEL].is_null(),
        "released: {}",
        definition["metadata"]["labels"]
    );
}
