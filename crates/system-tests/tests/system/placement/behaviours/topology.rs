//! Where pods run, by a Topology.

use serde_json::{Value, json};
use weft_plan::kinds;

use crate::system::{harness::condition, placement::site::*};

fn finalizer() -> String {
    format!("{FINALIZER}-{NAME}")
}

async fn topology(site: &Site<'_>, name: &str) -> Value {
    let constraint = json!({
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"
    });
    site.put(json!({
        "apiVersion": "topology.openstack.org/v1beta1", "kind": "Topology",
        "metadata": {"name": name}, "spec": {"topologySpreadConstraints": [constraint]}
    }))
    .await
}

async fn with_topology(site: &Site<'_>) {
    topology(site, "topology").await;
    topology(site, "topology-alt").await;
    site.deployed(json!({"topologyRef": {"name": "topology"}}))
        .await;
}

pub async fn points_to_a_non_existing_topology(site: &Site<'_>) {
    site.inputs().await;
    site.placement(json!({"topologyRef": {"name": "not-there"}}))
        .await;
    // It is only looked for when it is needed.
    let live = site.wait_is("DBReady", "False").await;
    assert_eq!(
        condition(&live["status"], "TopologyReady")["status"],
        "Unknown"
    );
    assert_eq!(condition(&live["status"], "Ready")["status"], "False");
    site.plays_mariadb(ACCOUNT).await;
    let why = r#"Topology config create error occurred topologies.topology.openstack.org "not-there" not found"#;
    site.wait_says("TopologyReady", "False", "Error", why).await;
    assert!(site.get(kinds::DEPLOYMENT, NAME).await.is_none());
    topology(site, "not-there").await;
    site.wait_says(
        "TopologyReady",
        "True",
        "Ready",
        "Topology config create completed",
    )
    .await;
}

pub async fn sets_topology_in_cr_status(site: &Site<'_>) {
    with_topology(site).await;
    let live = site.wait_ready().await;
    assert_eq!(
        live["status"]["lastAppliedTopology"],
        json!({"name": "topology", "namespace": site.namespace})
    );
    assert_eq!(live["status"]["conditions"].as_array().unwrap().len(), 16);
    assert!(
        site.has_finalizer(kinds::TOPOLOGY, "topology", &finalizer())
            .await
    );
    assert!(
        !site
            .has_finalizer(kinds::TOPOLOGY, "topology-alt", &finalizer())
            .await
    );
    // It stays until it is not used any more. The fields of its maker stay.
    let labels = topology(site, "topology").await["metadata"]["labels"].clone();
    assert!(labels.is_null(), "{labels}");
}

pub async fn sets_topology_in_resource_specs(site: &Site<'_>) {
    with_topology(site).await;
    let pod = site.deployment().await["spec"]["template"]["spec"].clone();
    assert_eq!(pod["affinity"], Value::Null);
    let constraint = &pod["topologySpreadConstraints"][0];
    assert_eq!(constraint["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(
        constraint["labelSelector"]["matchLabels"],
        json!({"service": "placement", "owner": NAME})
    );
}

pub async fn updates_topology_when_the_reference_changes(site: &Site<'_>) {
    with_topology(site).await;
    site.patch(json!({"spec": {"topologyRef": {"name": "topology-alt"}}}))
        .await;
    site.wait_placement("has the other one", |live| {
        live["status"]["lastAppliedTopology"]["name"] == "topology-alt"
    })
    .await;
    assert!(
        site.has_finalizer(kinds::TOPOLOGY, "topology-alt", &finalizer())
            .await
    );
    assert!(
        !site
            .has_finalizer(kinds::TOPOLOGY, "topology", &finalizer())
            .await
    );
}

pub async fn removes_topologyref_from_the_spec(site: &Site<'_>) {
    with_topology(site).await;
    site.patch(json!({"spec": {"topologyRef": null}})).await;
    let live = site
        .wait_placement("has none", |live| {
            live["status"]["lastAppliedTopology"].is_null()
        })
        .await;
    assert_eq!(condition(&live["status"], "TopologyReady"), Value::Null);
    let pod = site.deployment().await["spec"]["template"]["spec"].clone();
    assert_eq!(pod["topologySpreadConstraints"], Value::Null);
    assert!(pod["affinity"]["podAntiAffinity"].is_object());
    for name in ["topology", "topology-alt"] {
        assert!(
            !site
                .has_finalizer(kinds::TOPOLOGY, name, &finalizer())
                .await,
            "{name}"
        );
    }
}

/// The original holds it for ever, as status has never named it.
pub async fn releases_a_topology_that_the_deployment_never_had(site: &Site<'_>) {
    let constraint = json!({
        "maxSkew": 0, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"
    });
    site.put(json!({
        "apiVersion": "topology.openstack.org/v1beta1", "kind": "Topology",
        "metadata": {"name": "impossible"}, "spec": {"topologySpreadConstraints": [constraint]}
    }))
    .await;
    topology(site, "topology").await;
    site.with_database(json!({"topologyRef": {"name": "impossible"}}))
        .await;
    let live = site.wait_is("DeploymentReady", "False").await;
    let said = condition(&live["status"], "DeploymentReady");
    assert!(
        said["message"].as_str().unwrap().contains("maxSkew"),
        "{said}"
    );
    assert!(
        site.has_finalizer(kinds::TOPOLOGY, "impossible", &finalizer())
            .await
    );
    site.patch(json!({"spec": {"topologyRef": {"name": "topology"}}}))
        .await;
    site.plays_keystone().await;
    site.wait_ready().await;
    assert!(
        !site
            .has_finalizer(kinds::TOPOLOGY, "impossible", &finalizer())
            .await
    );
    assert!(
        site.has_finalizer(kinds::TOPOLOGY, "topology", &finalizer())
            .await
    );
}
