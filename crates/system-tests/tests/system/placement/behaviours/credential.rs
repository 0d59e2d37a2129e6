//! The application credential.

use serde_json::{Value, json};
use weft_plan::kinds;

use super::UNREADY;
use crate::system::{harness::condition, placement::site::*};

const CONSUMER: &str = "openstack.org/placementapi-ac-consumer";

async fn credential(site: &Site<'_>, name: &str) {
    site.secret(
        name,
        &[
            ("AC_ID", &format!("id-of-{name}")),
            ("AC_SECRET", &format!("secret-of-{name}")),
        ],
    )
    .await;
}

fn names(name: &str) -> Value {
    json!({"auth": {"applicationCredentialSecret": name}})
}

pub async fn renders_application_credential_auth(site: &Site<'_>) {
    credential(site, "ac").await;
    site.with_database(names("ac")).await;
    site.wait_is("ServiceConfigReady", "True").await;
    let conf = site.file("placement.conf").await;
    for line in [
        "auth_type = v3applicationcredential",
        "application_credential_id = id-of-ac",
        "application_credential_secret = secret-of-ac",
    ] {
        assert!(conf.lines().any(|one| one == line), "{line}\n{conf}");
    }
    for option in ["username", "password", "project_name", "user_domain_name"] {
        assert!(
            !conf
                .lines()
                .any(|line| line.starts_with(&format!("{option} ="))),
            "{option}\n{conf}"
        );
    }
}

pub async fn waits_for_the_secret_and_names_a_missing_key(site: &Site<'_>) {
    site.inputs().await;
    site.placement(names("ac")).await;
    site.wait_says(
        "InputReady",
        "False",
        "Requested",
        "Input data resources missing: secret/ac",
    )
    .await;
    site.secret("ac", &[("AC_ID", "a")]).await;
    site.plays_mariadb(ACCOUNT).await;
    let why = "Service config create error occurred field not found in Secret: field 'AC_SECRET' not found in secret/ac";
    site.wait_says("ServiceConfigReady", "False", "Error", why)
        .await;
    site.wait_is("InputReady", "True").await;
    credential(site, "ac").await;
    site.wait_is("ServiceConfigReady", "True").await;
}

pub async fn says_which_value_is_empty_and_keeps_what_works(site: &Site<'_>) {
    credential(site, "ac").await;
    site.deployed(names("ac")).await;
    let before = site.config_hash().await;
    site.secret("ac", &[("AC_ID", "a"), ("AC_SECRET", "")])
        .await;
    let why = "Service config create error occurred field 'AC_SECRET' of secret/ac is empty, and a value is needed there: write it into the Secret";
    site.wait_says("ServiceConfigReady", "False", "Error", why)
        .await;
    site.secret("ac", &[("AC_ID", "a\n"), ("AC_SECRET", "b")])
        .await;
    site.wait_placement("names the line break", |live| {
        let said = condition(&live["status"], "ServiceConfigReady");
        said["message"]
            .as_str()
            .unwrap_or_default()
            .contains("field 'AC_ID' of secret/ac has the control character '\\n' at position 2")
    })
    .await;
    assert_eq!(
        site.config_hash().await,
        before,
        "the pods go on with what they have"
    );
    site.secret("ac", &[("AC_ID", "a"), ("AC_SECRET", "b")])
        .await;
    site.wait_other_hash(&before).await;
    site.wait_ready().await;
}

pub async fn holds_the_secret_until_pods_run_without_it(site: &Site<'_>) {
    for name in ["first", "second", "third"] {
        credential(site, name).await;
    }
    let live = site.deployed(names("first")).await;
    assert_eq!(live["status"]["applicationCredentialSecret"], "first");
    assert!(site.has_finalizer(kinds::SECRET, "first", CONSUMER).await);

    // Pods with the second never become ready: both are in use.
    site.patch(json!({
        "spec": {"containerImage": UNREADY, "auth": {"applicationCredentialSecret": "second"}}
    }))
    .await;
    site.wait_is("DeploymentReady", "False").await;
    for name in ["first", "second"] {
        assert!(
            site.has_finalizer(kinds::SECRET, name, CONSUMER).await,
            "{name}"
        );
    }
    assert_eq!(
        site.get(kinds::PLACEMENT_API, NAME).await.unwrap()["status"]["applicationCredentialSecret"],
        "first"
    );
    // The third is there before any pod has run with the second.
    site.patch(json!({
        "spec": {
            "containerImage": "registry.test/placement",
            "auth": {"applicationCredentialSecret": "third"}
        }
    }))
    .await;
    site.wait_placement("runs with the third", |live| {
        live["status"]["applicationCredentialSecret"] == "third"
            && condition(&live["status"], "Ready")["status"] == "True"
    })
    .await;
    for (name, is_held) in [("first", false), ("second", false), ("third", true)] {
        assert_eq!(
            site.has_finalizer(kinds::SECRET, name, CONSUMER).await,
            is_held,
            "{name}"
        );
    }
}

pub async fn releases_the_secret_when_deleted_or_cleared(site: &Site<'_>) {
    credential(site, "ac").await;
    site.deployed(names("ac")).await;
    site.patch(json!({"spec": {"auth": null}})).await;
    site.wait_placement("has none", |live| {
        live["status"]["applicationCredentialSecret"].is_null()
    })
    .await;
    assert!(!site.has_finalizer(kinds::SECRET, "ac", CONSUMER).await);
    site.patch(json!({"spec": names("ac")})).await;
    site.wait_placement("has it again", |live| {
        live["status"]["applicationCredentialSecret"] == "ac"
    })
    .await;
    assert!(site.has_finalizer(kinds::SECRET, "ac", CONSUMER).await);
    site.delete().await;
    site.wait_gone().await;
    let secret = site.get(kinds::SECRET, "ac").await.unwrap();
    assert_eq!(
        (
            &secret["metadata"]["finalizers"],
            &secret["metadata"]["labels"]
        ),
        (&Value::Null, &Value::Null),
        "as it was"
    );
}

/// The spec named the Secret and took it back before the first pod had it, so no status names it.
pub async fn releases_a_secret_that_pods_never_had(site: &Site<'_>) {
    credential(site, "ac").await;
    site.deployed(json!({})).await;
    site.patch(
        json!({"spec": {"containerImage": UNREADY, "auth": {"applicationCredentialSecret": "ac"}}}),
    )
    .await;
    site.wait(kinds::SECRET, "ac", "is held", |live| {
        has_finalizer(live, CONSUMER)
    })
    .await;
    site.wait_is("DeploymentReady", "False").await;
    site.patch(json!({"spec": {"containerImage": "registry.test/placement", "auth": null}}))
        .await;
    site.wait_ready().await;
    let secret = site.get(kinds::SECRET, "ac").await.unwrap();
    assert_eq!(
        (
            &secret["metadata"]["finalizers"],
            &secret["metadata"]["labels"]
        ),
        (&Value::Null, &Value::Null),
        "as it was"
    );
}
