//! Add-ons whose programs end without the kinds of KubeVirt: they wait for these kinds, and go on
//! by themselves.

use serde_json::json;
use weft_plan::{KUBEVIRT, kinds};
use weft_testenv::{played, proxy::Proxy};

use crate::system::{certificates::weft_about, harness::*, install::becomes_idle};

const DEPLOYMENTS: [&str; 2] = ["secondary-dns", "kubevirt-ipam-controller-manager"];

async fn deployed(cluster: &Cluster) -> usize {
    let mut found = 0;
    for name in DEPLOYMENTS {
        let live = cluster.get(kinds::DEPLOYMENT, NAMESPACE, name).await;
        found += usize::from(live.is_some());
    }
    found
}

#[tokio::test]
async fn add_ons_for_virtual_machines_wait_for_kubevirt() {
    let cluster = Cluster::start(ClusterOptions {
        kubevirt: false,
        ..Default::default()
    })
    .await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    let resource = json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
        "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
        "spec": {"linuxBridge": {}, "kubeSecondaryDNS": {}, "kubevirtIpamController": {}}
    })
    .to_string();
    cluster.apply(&resource).await;
    let missing = |name: &str, definition: &str| {
        format!(
            "Deployment {NAMESPACE}/{name}: waits for KubeVirt: the cluster does not have the definition {definition}"
        )
    };
    let [machines, instances] = KUBEVIRT;
    for message in [
        missing(DEPLOYMENTS[0], instances),
        missing(DEPLOYMENTS[1], machines),
    ] {
        cluster
            .wait_condition("Degraded", "True", "FailedToApply", &message)
            .await;
    }
    assert_eq!(deployed(&cluster).await, 0);
    let plan = weft_about(&cluster, &resource, &["plan", "-f", "-"]).await;
    assert!(
        plan.contains("kubeSecondaryDNS: waits for KubeVirt: ")
            && plan.contains("kubevirtIpamController: waits for KubeVirt: "),
        "{plan}"
    );
    // Nobody asks for what is not there.
    becomes_idle(&cluster, &proxy).await;

    cluster.apply(played::KUBEVIRT).await;
    cluster.wait_available().await;
    assert_eq!(deployed(&cluster).await, 2);

    // KubeVirt is uninstalled. Another administrator decides whether the add-ons go, too.
    for definition in KUBEVIRT {
        cluster
            .delete(kinds::CUSTOM_RESOURCE_DEFINITION, "", definition)
            .await;
    }
    cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToApply",
            &missing(DEPLOYMENTS[1], machines),
        )
        .await;
    assert_eq!(deployed(&cluster).await, 2);
}
