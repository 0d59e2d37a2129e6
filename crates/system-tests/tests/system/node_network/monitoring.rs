//! Prometheus Operator, as far as its real definitions are it, and users who may only read.

use serde_json::json;
use weft_plan::{Kind, kinds};
use weft_testenv::proxy::Proxy;

use super::{NAMESPACE, nmstate, start};
use weft_system_tests::*;

const OBJECTS: [(Kind, &str); 5] = [
    (kinds::SERVICE, "nmstate-monitor"),
    (kinds::SERVICE_MONITOR, "controller-manager-metrics-monitor"),
    (kinds::PROMETHEUS_RULE, "nmstate-rules"),
    (kinds::ROLE, "prometheus-k8s"),
    (kinds::ROLE_BINDING, "prometheus-k8s"),
];

async fn there(cluster: &Cluster) -> usize {
    let mut there = 0;
    for (kind, name) in OBJECTS {
        there += usize::from(cluster.get(kind, NAMESPACE, name).await.is_some());
    }
    there
}

async fn wait_there(cluster: &Cluster, count: usize) {
    wait_until(
        &format!("{count} objects of monitoring"),
        async || match there(cluster).await {
            found if found == count => Ok(()),
            found => Err(found.to_string()),
        },
    )
    .await;
}

#[tokio::test]
async fn monitoring_comes_with_its_definitions_and_readers_read_everything() {
    let cluster = start(1).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster.apply(&nmstate("nmstate", &json!({}))).await;
    cluster.wait_available().await;
    assert_eq!(there(&cluster).await, 0);
    cluster
        .define(&[
            "servicemonitors.monitoring.coreos.com",
            "prometheusrules.monitoring.coreos.com",
        ])
        .await;
    wait_there(&cluster, OBJECTS.len()).await;
    cluster.wait_available().await;
    assert_not_warned(&cluster, &proxy);

    cluster
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "readers",
            "--clusterrole=nmstate-cluster-reader",
            "--user=reader",
        ])
        .await;
    let may = async |verb: &str, resource: &str| {
        let answer = cluster
            .control_plane
            .kubectl(&["auth", "can-i", verb, resource, "--as=reader"])
            .await;
        answer.is_ok_and(|answer| answer.trim() == "yes")
    };
    for resource in [
        "nmstates",
        "nodenetworkstates",
        "nodenetworkconfigurationpolicies",
        "nodenetworkconfigurationenactments",
    ] {
        let resource = format!("{resource}.nmstate.io");
        // The API server learns of the binding by a watch of its own.
        wait_until(&format!("a reader may list {resource}"), async || {
            may("list", &resource)
                .await
                .then_some(())
                .ok_or("not yet".to_owned())
        })
        .await;
        assert!(!may("patch", &resource).await, "{resource}");
    }

    cluster
        .kubectl(&["delete", "nmstate", "nmstate", "--timeout=60s"])
        .await;
    wait_there(&cluster, 0).await;
}
