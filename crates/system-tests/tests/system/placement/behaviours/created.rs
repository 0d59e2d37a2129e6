//! A PlacementAPI that has just been made, and its password.

use serde_json::{Value, json};
use weft_plan::kinds;

use crate::system::{harness::condition, placement::site::*};

pub async fn should_have_the_spec_fields_defaulted(site: &Site<'_>) {
    site.put(json!({"apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI", "metadata": {"name": NAME},
        "spec": {"databaseInstance": "openstack", "secret": SECRET}}))
        .await;
    let spec = site.wait_there(kinds::PLACEMENT_API, NAME).await["spec"].clone();
    for (field, value) in [
        ("databaseInstance", json!("openstack")),
        ("databaseAccount", json!("placement")),
        ("serviceUser", json!("placement")),
        ("replicas", json!(1)),
        ("passwordSelectors", json!({"service": "PlacementPassword"})),
        ("preserveJobs", json!(false)),
    ] {
        assert_eq!(spec[field], value, "{field}");
    }
}

pub async fn should_have_the_status_fields_initialized(site: &Site<'_>) {
    site.placement(json!({})).await;
    let status = site
        .wait_placement("has a status", |live| {
            live["status"]["conditions"].is_array()
        })
        .await["status"]
        .clone();
    assert_eq!(
        (
            &status["hash"],
            &status["databaseHostname"],
            &status["readyCount"]
        ),
        (&Value::Null, &Value::Null, &json!(0))
    );
}

pub async fn should_have_a_finalizer(site: &Site<'_>) {
    site.placement(json!({})).await;
    site.wait(kinds::PLACEMENT_API, NAME, "has the finalizer", |live| {
        has_finalizer(live, FINALIZER)
    })
    .await;
}

pub async fn should_not_create_a_config_map(site: &Site<'_>) {
    site.placement(json!({})).await;
    site.wait_is("InputReady", "False").await;
    no_config(site).await;
}

async fn no_config(site: &Site<'_>) {
    let maps = site.all(kinds::CONFIG_MAP).await;
    // Every namespace has that one.
    assert!(
        maps.iter()
            .all(|map| map["metadata"]["name"] == "kube-root-ca.crt"),
        "{maps:#?}"
    );
    assert!(
        site.get(kinds::SECRET, &format!("{NAME}-config-data"))
            .await
            .is_none()
    );
}

pub async fn should_have_input_not_ready_and_unknown_conditions_initialized(site: &Site<'_>) {
    site.placement(json!({})).await;
    let live = site.wait_is("InputReady", "False").await;
    assert_eq!(live["status"]["conditions"].as_array().unwrap().len(), 15);
    assert_eq!(with_status(&live, "False"), ["Ready", "InputReady"]);
    assert_eq!(
        with_status(&live, "True"),
        [
            "RoleBindingReady",
            "RoleReady",
            "ServiceAccountReady",
            "Stalled"
        ]
    );
    let unknown = [
        ("CreateServiceReady", "Create service not started"),
        ("DBReady", "DB create not started"),
        ("DBSyncReady", "DBsync not started"),
        ("DeploymentReady", "Deployment not started"),
        ("KeystoneEndpointReady", "KeystoneEndpoint not created"),
        ("KeystoneServiceReady", "Service registration not started"),
        ("NetworkAttachmentsReady", "NetworkAttachments not started"),
        ("ServiceConfigReady", "Service config create not started"),
        ("TLSInputReady", "Input data not checked"),
    ];
    assert_eq!(with_status(&live, "Unknown"), unknown.map(|(name, _)| name));
    for (name, message) in unknown {
        let said = condition(&live["status"], name);
        assert_eq!(
            (&said["reason"], &said["message"]),
            (&json!("Init"), &json!(message)),
            "{name}"
        );
    }
    // The Secret that is missing is named.
    let said = condition(&live["status"], "InputReady");
    assert_eq!(
        (&said["reason"], &said["severity"], &said["message"]),
        (
            &json!("Error"),
            &json!("Warning"),
            &json!(format!("Input data resources missing: secret/{SECRET}"))
        )
    );
}

pub async fn reports_that_input_is_not_ready(site: &Site<'_>) {
    site.secret(SECRET, &[("AnotherPassword", "12345678")])
        .await;
    site.placement(json!({})).await;
    let why = format!(
        "field not found in Secret: field 'PlacementPassword' not found in secret/{SECRET}"
    );
    site.wait_says(
        "InputReady",
        "False",
        "Error",
        &format!("Input data error occurred {why}"),
    )
    .await;
    // The key comes, by a watch.
    site.password("12345678").await;
    site.wait_says("InputReady", "True", "Ready", "Input data complete")
        .await;
}

pub async fn should_have_input_ready(site: &Site<'_>) {
    site.password("12345678").await;
    site.placement(json!({})).await;
    site.wait_says("InputReady", "True", "Ready", "Input data complete")
        .await;
    // Without a KeystoneAPI it comes no further.
    site.galera().await;
    site.plays_mariadb(ACCOUNT).await;
    let live = site.wait_is("ServiceConfigReady", "False").await;
    assert_eq!(
        condition(&live["status"], "ServiceConfigReady")["reason"],
        "Requested"
    );
}

pub async fn should_not_create_a_config_map_with_the_secret(site: &Site<'_>) {
    site.password("12345678").await;
    site.placement(json!({})).await;
    site.wait_is("InputReady", "True").await;
    no_config(site).await;
}
