//! The API server's warnings about the manifests of all sorts of installations, and about the objects
//! of the add-ons with their options.
//!
//! `--monitoring` and the alerts need the definitions of Prometheus Operator. They are the real ones.

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::Proxy;

use weft_system_tests::*;

const DOMAINS: &str = "addons,cluster-network,node-network,placement";
const OF_PROMETHEUS: [&str; 2] = [
    "servicemonitors.monitoring.coreos.com",
    "prometheusrules.monitoring.coreos.com",
];

#[tokio::test]
async fn the_manifests_of_each_installation_cause_no_warning() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    cluster.define(&OF_PROMETHEUS).await;
    let server = "--api-server=https://192.0.2.1:6443";
    let file = "--node-kubeconfig=/etc/kubernetes/kubelet.conf";
    let everywhere = [
        "--placement-namespaces=*",
        "--keystone-urls=https://keystone.example:5000",
        "--image-pull-policy=Always",
    ];
    let single = ["--monitoring", "--domains", DOMAINS];
    let mut installations = vec![
        [&single[..], &[server]].concat(),
        [&single[..], &[file], &everywhere].concat(),
    ];
    for domain in DOMAINS.split(',') {
        let split = ["--split", "--monitoring", "--domains", domain];
        installations.push(match domain {
            "cluster-network" => [&split[..], &[file]].concat(),
            "placement" => [&split[..], &everywhere].concat(),
            _ => split.to_vec(),
        });
    }
    let apply = ["apply", "--warnings-as-errors", "-f", "-"];
    for arguments in installations {
        let manifests = manifests_of(&weft_binary(), &arguments);
        let applied = cluster.control_plane.kubectl_with_input(&apply, &manifests);
        let applied = applied.await;
        assert!(applied.is_ok(), "{arguments:?}: {applied:?}");
    }
    for kind in [kinds::SERVICE_MONITOR, kinds::PROMETHEUS_RULE] {
        let api = cluster.api(kind, "weft-system");
        let there = api.list(&Default::default()).await.unwrap();
        assert_eq!(there.items.len(), 1, "{}", kind.kind);
    }
}

/// The tests of cert-manager, OpenShift, the cluster network, node networks and Placement look for
/// warnings, too.
#[tokio::test]
async fn the_add_ons_with_tls_placement_and_alerts_cause_no_warning() {
    let cluster = Cluster::start_default().await;
    cluster.define(&OF_PROMETHEUS).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    let mut resource: Value =
        serde_saphyr::from_str(&example("network-addons-config.yaml")).unwrap();
    resource["spec"]["tlsSecurityProfile"] = json!({
        "type": "Custom",
        "custom": {"minTLSVersion": "VersionTLS12", "ciphers": ["ECDHE-ECDSA-AES128-GCM-SHA256"]}
    });
    let placement = json!({
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 1,
            "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
        }]}}
    });
    resource["spec"]["placementConfiguration"] =
        json!({"infra": placement, "workloads": placement});
    resource["spec"]["selfSignConfiguration"] = json!({
        "caRotateInterval": "168h", "caOverlapInterval": "24h",
        "certRotateInterval": "24h", "certOverlapInterval": "8h"
    });
    cluster.install(&resource.to_string()).await;
    for name in [
        "kubemacpool-prometheus-rule",
        "prometheus-rules-cluster-network-addons-operator",
    ] {
        let rule = cluster.get(kinds::PROMETHEUS_RULE, NAMESPACE, name).await;
        assert!(rule.is_some(), "{name}");
    }
    assert_not_warned(&cluster, &proxy);
    // Without these choices, the same objects again.
    cluster
        .patch_resource(json!({"spec": {
            "tlsSecurityProfile": {"type": "Old", "custom": null}, "placementConfiguration": null
        }}))
        .await;
    cluster.wait_available().await;
    assert_not_warned(&cluster, &proxy);
}
