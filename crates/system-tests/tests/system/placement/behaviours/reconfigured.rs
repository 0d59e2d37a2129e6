//! Tests of later changes.

use serde_json::{Value, json};

use crate::system::placement::site::*;

pub async fn updates_the_deployment_if_configuration_changes(site: &Site<'_>) {
    site.with_database(json!({})).await;
    let before = site.config_hash().await;
    assert!(!before.is_empty());
    assert!(!site.file("custom.conf").await.contains("debug"));
    site.patch(json!({"spec": {"customServiceConfig": "[DEFAULT]\ndebug = true\n"}}))
        .await;
    site.wait_other_hash(&before).await;
    assert!(site.file("custom.conf").await.contains("debug = true"));
}

pub async fn updates_the_deployment_if_password_changes(site: &Site<'_>) {
    site.with_database(json!({})).await;
    let before = site.config_hash().await;
    site.password("another").await;
    site.wait_other_hash(&before).await;
    assert!(site.file("placement.conf").await.contains("another"));
}

pub async fn updates_the_keystone_auth_url_if_keystone_internal_endpoint_changes(site: &Site<'_>) {
    site.with_database(json!({})).await;
    let before = site.config_hash().await;
    let moved =
        json!({"apiEndpoints": {"internal": "https://keystone-internal.elsewhere.svc:5000"}});
    site.says(weft_plan::kinds::KEYSTONE_API, "keystone", moved)
        .await;
    site.wait_other_hash(&before).await;
    assert!(
        site.file("placement.conf")
            .await
            .contains("https://keystone-internal.elsewhere.svc:5000")
    );
}

/// By another bundle of certificates.
pub async fn reconfigures_the_api_pod(site: &Site<'_>) {
    site.secret("bundle", &[("tls-ca-bundle.pem", "CA")]).await;
    site.with_database(json!({"tls": {"caBundleSecretName": "bundle"}}))
        .await;
    let before = site.config_hash().await;
    site.secret("bundle", &[("tls-ca-bundle.pem", "another CA")])
        .await;
    site.wait_other_hash(&before).await;
}

async fn with_selector(site: &Site<'_>) {
    // Jobs run where it leads.
    site.label_node("foo", "bar").await;
    site.with_database(json!({"nodeSelector": {"foo": "bar"}}))
        .await;
    site.wait_pod("has the selector", |pod| {
        pod["nodeSelector"] == json!({"foo": "bar"})
    })
    .await;
    assert_eq!(
        site.job().await["spec"]["template"]["spec"]["nodeSelector"],
        json!({"foo": "bar"})
    );
}

/// The Deployment's is this now, and a Job with the same has been made.
async fn becomes(site: &Site<'_>, selector: Value) {
    site.wait_pod("has another selector", |pod| {
        pod["nodeSelector"] == selector
    })
    .await;
    let jobs = site.all(weft_plan::kinds::JOB).await;
    assert!(
        jobs.iter()
            .any(|job| job["spec"]["template"]["spec"]["nodeSelector"] == selector),
        "{selector}"
    );
}

pub async fn sets_nodeselector(site: &Site<'_>) {
    with_selector(site).await;
}

pub async fn updates_nodeselector_when_changed(site: &Site<'_>) {
    with_selector(site).await;
    site.label_node("foo2", "bar2").await;
    site.patch(json!({"spec": {"nodeSelector": {"foo": null, "foo2": "bar2"}}}))
        .await;
    becomes(site, json!({"foo2": "bar2"})).await;
}

pub async fn removes_nodeselector_when_cleared(site: &Site<'_>) {
    with_selector(site).await;
    site.patch(json!({"spec": {"nodeSelector": {"foo": null}}}))
        .await;
    assert_eq!(
        site.wait_there(weft_plan::kinds::PLACEMENT_API, NAME).await["spec"]["nodeSelector"],
        json!({})
    );
    becomes(site, Value::Null).await;
}

pub async fn removes_nodeselector_when_nilled(site: &Site<'_>) {
    with_selector(site).await;
    site.patch(json!({"spec": {"nodeSelector": null}})).await;
    becomes(site, Value::Null).await;
}
