//! Networks next to the cluster's own. The original's tests have none of this.

use serde_json::{Value, json};
use weft_plan::kinds;

use crate::system::placement::site::*;

const LACKING: &str = "NetworkAttachments error occurred not all pods have interfaces with ips as configured in NetworkAttachments: [storage]";

async fn network(site: &Site<'_>, config: &str) {
    network_named(site, "storage", config).await;
}

async fn network_named(site: &Site<'_>, name: &str, config: &str) {
    site.put(json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name}, "spec": {"config": config}
    }))
    .await;
}

/// Plays Multus: it writes the addresses of a pod, on networks in this namespace and on the default
/// one.
pub async fn plays_multus(site: &Site<'_>, pod: &Value, ips: &[&str]) {
    let status = json!([{
        "name": "kindnet", "interface": "eth0", "ips": ["10.244.0.5"], "default": true
    },
        {"name": format!("{}/storage", site.namespace), "interface": "storage", "ips": ips}]);
    let annotation = json!({
        "metadata": {"annotations": {"k8s.v1.cni.cncf.io/network-status": status.to_string()}}
    });
    site.cluster
        .patch(
            kinds::POD,
            &site.namespace,
            pod["metadata"]["name"].as_str().unwrap(),
            annotation,
        )
        .await;
}

pub async fn attaches_pods_and_tells_their_addresses(site: &Site<'_>) {
    network(site, r#"{"cniVersion": "0.3.1", "type": "macvlan", "ipam": {"type": "whereabouts", "gateway": "172.18.0.1"}}"#).await;
    site.with_database(json!({"networkAttachments": ["storage"], "replicas": 2}))
        .await;
    let expected = json!([
        {
            "name": "storage", "namespace": site.namespace, "interface": "storage",
            "default-route": ["172.18.0.1"]
        }
    ]);
    for template in [site.deployment().await, site.job().await] {
        let annotation =
            template["spec"]["template"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"]
                .as_str()
                .unwrap();
        assert_eq!(serde_json::from_str::<Value>(annotation).unwrap(), expected);
    }
    // The pods are ready, and nothing says yet on which networks they are.
    let pods = site.pods(2).await;
    site.wait_is("DeploymentReady", "True").await;
    site.wait_says("NetworkAttachmentsReady", "False", "Error", LACKING)
        .await;
    assert!(
        site.get(kinds::KEYSTONE_SERVICE, "placement")
            .await
            .is_none()
    );
    // Two addresses of one pod are none of another.
    plays_multus(site, &pods[0], &["172.18.0.50", "fd00:18::50"]).await;
    let live = site
        .wait_placement("tells the first", |live| {
            live["status"]["networkAttachments"].is_object()
        })
        .await;
    assert_eq!(
        weft_system_tests::condition(&live["status"], "NetworkAttachmentsReady")["message"],
        LACKING
    );
    plays_multus(site, &pods[1], &["172.18.0.51", "fd00:18::51"]).await;
    let live = site
        .wait_says(
            "NetworkAttachmentsReady",
            "True",
            "Ready",
            "NetworkAttachments completed",
        )
        .await;
    let told = &live["status"]["networkAttachments"];
    let mut storage: Vec<_> = told[format!("{}/storage", site.namespace)]
        .as_array()
        .unwrap()
        .iter()
        .map(|ip| ip.as_str().unwrap())
        .collect();
    storage.sort_unstable();
    assert_eq!(
        storage,
        ["172.18.0.50", "172.18.0.51", "fd00:18::50", "fd00:18::51"]
    );
    assert_eq!(told["kindnet"].as_array().unwrap().len(), 2);
    site.plays_keystone().await;
    site.wait_ready().await;
}

pub async fn waits_for_a_network_that_is_missing(site: &Site<'_>) {
    site.with_database(json!({"networkAttachments": ["storage"]}))
        .await;
    site.wait_says(
        "NetworkAttachmentsReady",
        "False",
        "Error",
        "NetworkAttachment resources missing: storage",
    )
    .await;
    assert!(site.get(kinds::DEPLOYMENT, NAME).await.is_none());
    network(site, "no JSON").await;
    site.wait_placement("it cannot be read", |live| {
        let said = weft_system_tests::condition(&live["status"], "NetworkAttachmentsReady");
        said["message"]
            .as_str()
            .unwrap_or_default()
            .contains("spec.config of NetworkAttachmentDefinition storage is no JSON")
    })
    .await;
    network(site, "").await;
    site.deployment().await;
}

pub async fn needs_no_addresses_without_replicas(site: &Site<'_>) {
    network(site, "{}").await;
    let live = site
        .deployed(json!({"networkAttachments": ["storage"], "replicas": 0}))
        .await;
    assert_eq!(live["status"]["networkAttachments"], Value::Null);
}

pub async fn makes_no_pods_where_two_networks_are_one_interface(site: &Site<'_>) {
    for name in ["storage-network-a", "storage-network-b", "tenant"] {
        network_named(site, name, "{}").await;
    }
    site.with_database(json!({"networkAttachments": ["storage-network-a", "storage-network-b"]}))
        .await;
    site.wait_placement("names both", |live| {
        let said = weft_system_tests::condition(&live["status"], "NetworkAttachmentsReady");
        let both = "NetworkAttachments error occurred storage-network-a and storage-network-b would both be the interface storage-network in the pods";
        said["status"] == "False" && said["message"].as_str().unwrap_or_default().starts_with(both)
    })
    .await;
    assert!(
        site.all(kinds::JOB).await.is_empty() && site.get(kinds::DEPLOYMENT, NAME).await.is_none()
    );
    site.patch(json!({"spec": {"networkAttachments": ["storage-network-a", "tenant"]}}))
        .await;
    site.deployment().await;
}
