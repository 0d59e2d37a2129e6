//! The services' block of a NetworkConfig, and the block that the API server has.

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::proxy::{Fault, Match, Proxy};

use super::{NAMESPACE, RECORD, minimal, record, start, text, weft};
use weft_system_tests::*;

const USER: &str =
    "system:serviceaccount:openshift-cluster-network-operator:cluster-network-operator";

/// The minimal example has another block than the API server of the test environment.
const CONTRADICTION: &str = "spec.serviceNetwork: 172.30.0.0/16 contradicts the cluster, which has 10.96.0.0/16 (ServiceCIDR kubernetes)";

#[tokio::test]
async fn a_service_network_that_the_cluster_contradicts_is_in_a_notice() {
    let cluster = start().await;
    let _operator = Operator::start_default(&cluster).await;
    cluster.apply(&minimal()).await;
    cluster.wait_available().await;
    wait_contradiction(&cluster).await;
    let plan = weft(&cluster, &["plan", "-f", "-"], &minimal()).await;
    assert!(text(&plan).contains(CONTRADICTION), "{}", text(&plan));

    // Forced to the block that the cluster has.
    cluster
        .patch_resource(json!({"spec": {"serviceNetwork": "10.96.0.0/16"}}))
        .await;
    cluster.delete(kinds::CONFIG_MAP, NAMESPACE, RECORD).await;
    wait_until("the other block is in force", async || {
        let recorded = record(&cluster).await;
        if recorded["serviceNetwork"] == "10.96.0.0/16" {
            Ok(())
        } else {
            Err(recorded.to_string())
        }
    })
    .await;
    wait_until("the notice is gone", async || {
        let notices = cluster.status().await["notices"].to_string();
        if notices.contains("ServiceCIDR") {
            Err(notices)
        } else {
            Ok(())
        }
    })
    .await;
    services_are_named(&cluster).await;
}

/// A plan names the Services that another block leaves out: where the operator refuses the change,
/// and where the change is forced, without the record.
async fn services_are_named(cluster: &Cluster) {
    let other = minimal().replace("172.30.0.0/16", "10.97.0.0/16");
    let same = minimal().replace("172.30.0.0/16", "10.96.0.0/16");
    let named = "\n  default/kubernetes: 10.96.0.1";
    let plan = async |file: &str| weft(cluster, &["plan", "-f", "-"], file).await;
    let refused = plan(&other).await;
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    for part in ["the operator would refuse it", named] {
        assert!(text(&refused).contains(part), "{}", text(&refused));
    }
    cluster.delete(kinds::CONFIG_MAP, NAMESPACE, RECORD).await;
    let forced = plan(&other).await;
    assert_eq!(forced.status.code(), Some(1), "{}", text(&forced));
    assert!(text(&forced).contains(named), "{}", text(&forced));
    assert!(!text(&plan(&same).await).contains(named));
}

/// An older API server does not serve the kind, and a role may lack the permission.
#[tokio::test]
async fn a_cluster_that_does_not_show_its_service_cidr_holds_up_nothing() {
    let cluster = start().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    cluster.apply(&minimal()).await;
    for code in [403, 404] {
        let fault = proxy.inject(
            Match::any().user(USER).resource("servicecidrs"),
            Fault::Reply {
                code,
                retry_after: None,
            },
        );
        let operator = Operator::start_via(&cluster, &proxy).await;
        // Another generation, so that this operator writes status.
        cluster
            .patch_resource(json!({"spec": {"deployKubeProxy": (code == 404).then_some(false)}}))
            .await;
        cluster.wait_available().await;
        let notices = cluster.status().await["notices"].to_string();
        assert!(!notices.contains("ServiceCIDR"), "{code}: {notices}");
        fault.remove();
        // The API server shows it from now on.
        wait_contradiction(&cluster).await;
        operator.terminate().await;
    }
}

async fn wait_contradiction(cluster: &Cluster) {
    wait_until("a notice about the services' block", async || {
        let notices = cluster.status().await["notices"].to_string();
        if notices.contains(CONTRADICTION) {
            Ok(())
        } else {
            Err(notices)
        }
    })
    .await;
}
