//! The real definitions of Prometheus Operator, without the operator: the objects that Weft makes
//! for it come with the definitions and go with them.

use serde_json::{Value, json};
use weft_plan::{Kind, kinds};
use weft_testenv::proxy::Proxy;

use crate::system::{deletion::gone, harness::*, install::becomes_idle};

const MONITORS: &str = "servicemonitors.monitoring.coreos.com";
const RULES: &str = "prometheusrules.monitoring.coreos.com";
const OF_OPERATOR: [(Kind, &str); 5] = [
    (
        kinds::SERVICE_MONITOR,
        "service-monitor-cluster-network-addons-operator",
    ),
    (
        kinds::PROMETHEUS_RULE,
        "prometheus-rules-cluster-network-addons-operator",
    ),
    (
        kinds::SERVICE,
        "cluster-network-addons-operator-prometheus-metrics",
    ),
    (kinds::ROLE, "cluster-network-addons-operator-monitoring"),
    (
        kinds::ROLE_BINDING,
        "cluster-network-addons-operator-monitoring",
    ),
];
const OF_KUBEMACPOOL: [(Kind, &str); 5] = [
    (kinds::SERVICE_MONITOR, "kubemacpool-metrics-monitor"),
    (kinds::PROMETHEUS_RULE, "kubemacpool-prometheus-rule"),
    (kinds::SERVICE, "kubemacpool-metrics-service"),
    (kinds::ROLE, "kubemacpool-prometheus"),
    (kinds::ROLE_BINDING, "kubemacpool-prometheus"),
];

#[tokio::test]
async fn monitoring_comes_and_goes_with_its_definitions() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    let plain = cluster.snapshot().await;

    // One of the two is of no use.
    cluster.define(&[MONITORS]).await;
    becomes_idle(&cluster, &proxy).await;
    assert!(there(&cluster, &OF_OPERATOR).await.is_empty());
    cluster.define(&[RULES]).await;
    wait_there(&cluster, &OF_OPERATOR, 5).await;
    wait_there(&cluster, &OF_KUBEMACPOOL, 5).await;
    cluster.wait_available().await;
    assert_not_warned(&cluster, &proxy);
    becomes_idle(&cluster, &proxy).await;
    let binding = cluster
        .get(kinds::ROLE_BINDING, NAMESPACE, OF_OPERATOR[4].1)
        .await
        .unwrap();
    assert_eq!(
        binding["subjects"][0]["namespace"], "openshift-monitoring",
        "as the shipped Deployment says"
    );

    // The operator's pod, which kwok plays, is what it leads to.
    wait_until("the Service leads to the operator's port", async || {
        let slices = cluster
            .kubectl(&[
                "-n",
                NAMESPACE,
                "get",
                "endpointslices",
                "-l",
                &format!("kubernetes.io/service-name={}", OF_OPERATOR[2].1),
                "-o",
                "json",
            ])
            .await;
        // The add-ons' pods have the label, too, but no port of that name: Kubernetes lists them in
        // a slice without ports.
        let slices = serde_json::from_str::<Value>(&slices).unwrap();
        let with_ports: Vec<_> = slices["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|slice| slice["ports"][0].is_object())
            .collect();
        let [slice] = with_ports[..] else {
            return Err(slices.to_string());
        };
        let pods: Vec<_> = slice["endpoints"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|endpoint| endpoint["targetRef"]["name"].to_string())
            .collect();
        let right = slice["ports"][0]["name"] == "metrics" && slice["ports"][0]["port"] == 8443;
        if right && pods.len() == 1 && pods[0].contains(OPERATOR) {
            Ok(())
        } else {
            Err(slice.to_string())
        }
    })
    .await;

    // Kept in order, also after a restart.
    operator.kill();
    let rule = cluster
        .masked(kinds::PROMETHEUS_RULE, NAMESPACE, OF_OPERATOR[1].1)
        .await
        .unwrap();
    cluster
        .patch(
            kinds::PROMETHEUS_RULE,
            NAMESPACE,
            OF_OPERATOR[1].1,
            json!({"spec": {"groups": []}}),
        )
        .await;
    cluster
        .delete(kinds::SERVICE_MONITOR, NAMESPACE, OF_OPERATOR[0].1)
        .await;
    let operator = Operator::start_via(&cluster, &proxy).await;
    cluster.wait_same(&rule, "its alerts were taken out").await;
    wait_there(&cluster, &OF_OPERATOR, 5).await;

    // With the add-on goes what is its own.
    cluster
        .patch_resource(json!({"spec": {"kubeMacPool": null}}))
        .await;
    cluster.wait_available().await;
    assert!(there(&cluster, &OF_KUBEMACPOOL).await.is_empty());
    assert_eq!(there(&cluster, &OF_OPERATOR).await.len(), 5);
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;

    // Prometheus Operator is uninstalled, while the operator works and while it does not.
    cluster.kubectl(&["delete", "crd", MONITORS]).await;
    wait_there(&cluster, &OF_OPERATOR[1..], 0).await;
    wait_there(&cluster, &OF_KUBEMACPOOL[1..], 0).await;
    cluster.wait_available().await;
    let mut again = cluster.snapshot().await;
    again.objects.retain(|name, _| {
        plain.objects.contains_key(name) || !name.starts_with("CustomResourceDefinition ")
    });
    let names = |snapshot: &Snapshot| snapshot.objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&again), names(&plain));
    cluster.define(&[MONITORS]).await;
    wait_there(&cluster, &OF_OPERATOR, 5).await;
    cluster.wait_available().await;
    operator.kill();
    cluster.kubectl(&["delete", "crd", MONITORS, RULES]).await;
    let _operator = Operator::start_via(&cluster, &proxy).await;
    wait_there(&cluster, &OF_OPERATOR[2..], 0).await;
    cluster.wait_available().await;
    becomes_idle(&cluster, &proxy).await;

    // With the resource goes all of it.
    cluster.define(&[MONITORS, RULES]).await;
    wait_there(&cluster, &OF_OPERATOR, 5).await;
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--wait=false"])
        .await;
    gone(&cluster).await;
    for objects in [OF_OPERATOR, OF_KUBEMACPOOL] {
        assert_eq!(there(&cluster, &objects).await, Vec::<&str>::new());
    }
}

async fn wait_there(cluster: &Cluster, objects: &[(Kind, &'static str)], count: usize) {
    wait_until(&format!("{count} of {objects:?} are there"), async || {
        let there = there(cluster, objects).await;
        if there.len() == count {
            Ok(())
        } else {
            Err(format!("{there:?}"))
        }
    })
    .await;
}

async fn there(cluster: &Cluster, objects: &[(Kind, &'static str)]) -> Vec<&'static str> {
    let mut there = Vec::new();
    for (kind, name) in objects {
        if cluster.get(*kind, NAMESPACE, name).await.is_some() {
            there.push(*name);
        }
    }
    there
}
