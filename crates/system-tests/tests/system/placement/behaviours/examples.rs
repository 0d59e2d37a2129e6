//! The examples in the README of placement-operator, as they are under `examples/placement`.

use serde_json::{Value, json};
use weft_plan::kinds;

use super::networks::plays_multus;
use crate::system::{harness::example, placement::site::*};

/// Applies an example here, and waits until the PlacementAPI in it has its database.
async fn applied(site: &Site<'_>, file: &str) {
    site.inputs().await;
    site.secret("placement-secret", &[("PlacementPassword", "12345678")])
        .await;
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&example(&format!("placement/{file}"))).unwrap();
    for mut document in documents.into_iter().filter(|document| !document.is_null()) {
        if document["kind"] == "PlacementAPI" {
            document["metadata"]["name"] = NAME.into();
        }
        site.put(document).await;
    }
    site.plays_mariadb("placement").await;
}

pub async fn pods_have_a_card_on_the_additional_network(site: &Site<'_>) {
    applied(site, "additional-networks.yaml").await;
    site.wait_is("DeploymentReady", "True").await;
    for pod in site.pods(1).await {
        plays_multus(site, &pod, &["172.18.0.50"]).await;
    }
    site.plays_keystone().await;
    let live = site.wait_ready().await;
    assert_eq!(
        live["status"]["networkAttachments"][format!("{}/storage", site.namespace)],
        json!(["172.18.0.50"])
    );
}

pub async fn the_internal_endpoint_is_on_the_isolated_network(site: &Site<'_>) {
    applied(site, "isolated-network.yaml").await;
    let service = site.wait_there(kinds::SERVICE, "placement-internal").await;
    assert_eq!(service["spec"]["type"], "LoadBalancer");
    assert_eq!(
        service["metadata"]["annotations"]["metallb.universe.tf/loadBalancerIPs"],
        "172.17.0.202"
    );
    // MetalLB's part.
    site.says(
        kinds::SERVICE,
        "placement-internal",
        json!({"loadBalancer": {"ingress": [{"ip": "172.17.0.202"}]}}),
    )
    .await;
    site.plays_keystone().await;
    site.wait_ready().await;
}
