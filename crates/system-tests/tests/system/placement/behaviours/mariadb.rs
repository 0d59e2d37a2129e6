//! Accounts at the database: what mariadb-operator's test harness asks of every operator that has
//! one.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use weft_plan::kinds;

use crate::system::{
    harness::{condition, wait_until},
    placement::site::*,
};

/// An account that another user has made, with its Secret.
async fn made_by_others(site: &Site<'_>, name: &str) {
    site.secret(
        &format!("{name}-secret"),
        &[("DatabasePassword", "p@ss/word")],
    )
    .await;
    site.put(json!({"apiVersion": "mariadb.openstack.org/v1beta1", "kind": "MariaDBAccount", "metadata": {"name": name},
        "spec": {"userName": "somebody", "secret": format!("{name}-secret"), "requireTLS": true}}))
        .await;
}

/// The URL in the configuration that has been written.
async fn url(site: &Site<'_>) -> String {
    let conf = site.file("placement.conf").await;
    let line = conf
        .lines()
        .find_map(|line| line.strip_prefix("connection = "))
        .unwrap_or_else(|| panic!("{conf}"));
    line.trim_matches('"').to_owned()
}

async fn expected_url(site: &Site<'_>, account: &str) -> String {
    let account = site.wait_there(kinds::MARIADB_ACCOUNT, account).await;
    let secret = site
        .wait_there(kinds::SECRET, account["spec"]["secret"].as_str().unwrap())
        .await;
    let (user, password) = (
        account["spec"]["userName"].as_str().unwrap(),
        decoded(&secret["data"]["DatabasePassword"]),
    );
    format!(
        "mysql+pymysql://{user}:{password}@hostname-for-openstack.{}.svc/placement?read_default_file=/etc/my.cnf",
        site.namespace
    )
}

/// An account of another user's stays as it is, but for the finalizer and the name of the
/// database.
pub async fn uses_a_pre_existing_account_and_sets_a_finalizer(site: &Site<'_>) {
    made_by_others(site, ACCOUNT).await;
    site.inputs().await;
    site.placement(json!({})).await;
    site.wait(
        kinds::MARIADB_ACCOUNT,
        ACCOUNT,
        "has the finalizer",
        |live| has_finalizer(live, FINALIZER),
    )
    .await;
    site.wait_says(
        "MariaDBAccountReady",
        "True",
        "Ready",
        "MariaDBAccount creation complete",
    )
    .await;
    site.plays_mariadb(ACCOUNT).await;
    site.wait_is("ServiceConfigReady", "True").await;
    assert!(
        url(site)
            .await
            .starts_with("mysql+pymysql://somebody:p%40ss%2Fword@"),
        "{}",
        url(site).await
    );
    // Long after it was claimed.
    let account = site.get(kinds::MARIADB_ACCOUNT, ACCOUNT).await.unwrap();
    assert_eq!(
        account["metadata"]["labels"],
        json!({"mariaDBDatabaseName": "placement"})
    );
    assert_eq!(
        account["spec"],
        json!({
            "userName": "somebody", "secret": format!("{ACCOUNT}-secret"), "requireTLS": true,
            "accountType": "User"
        })
    );
    assert_eq!(
        account["metadata"]["ownerReferences"],
        Value::Null,
        "it outlives the PlacementAPI"
    );
}

pub async fn ensures_an_account_is_created_and_sets_a_finalizer(site: &Site<'_>) {
    site.inputs().await;
    site.placement(json!({})).await;
    let account = site.wait_there(kinds::MARIADB_ACCOUNT, ACCOUNT).await;
    assert!(has_finalizer(&account, FINALIZER));
    assert_eq!(
        account["metadata"]["labels"]["mariaDBDatabaseName"],
        "placement"
    );
    assert_eq!(account["metadata"]["ownerReferences"][0]["name"], NAME);
    let user = account["spec"]["userName"].as_str().unwrap();
    assert!(
        user.starts_with("placement_") && user.len() == "placement_".len() + 4,
        "{user}"
    );
    assert_eq!(
        (&account["spec"]["secret"], &account["spec"]["requireTLS"]),
        (&json!(format!("{ACCOUNT}-db-secret")), &json!(false))
    );
    let secret = site
        .wait_there(kinds::SECRET, &format!("{ACCOUNT}-db-secret"))
        .await;
    assert_eq!(
        (
            secret["immutable"].as_bool(),
            decoded(&secret["data"]["DatabasePassword"]).len()
        ),
        (Some(true), 32)
    );
    // It is not yet that the user is there.
    let live = site
        .wait_says(
            "MariaDBAccountReady",
            "True",
            "Ready",
            "MariaDBAccount creation complete",
        )
        .await;
    assert_eq!(condition(&live["status"], "DBReady")["status"], "False");
}

async fn renamed(site: &Site<'_>) {
    site.deployed(json!({})).await;
    site.patch(json!({"spec": {"databaseAccount": "some-new-account"}}))
        .await;
    site.wait(
        kinds::MARIADB_ACCOUNT,
        "some-new-account",
        "has the finalizer",
        |live| has_finalizer(live, FINALIZER),
    )
    .await;
}

pub async fn ensures_a_new_account_exists_when_accountname_is_changed(site: &Site<'_>) {
    renamed(site).await;
    site.wait_says(
        "DBReady",
        "False",
        "Requested",
        "DB create job still running",
    )
    .await;
    assert!(
        site.has_finalizer(kinds::MARIADB_ACCOUNT, ACCOUNT, FINALIZER)
            .await,
        "pods still use it"
    );
}

pub async fn moves_the_finalizer_to_a_new_account_when_create_is_complete(site: &Site<'_>) {
    renamed(site).await;
    site.plays_mariadb("some-new-account").await;
    site.wait(
        kinds::MARIADB_ACCOUNT,
        ACCOUNT,
        "has lost the finalizer",
        |live| !has_finalizer(live, FINALIZER),
    )
    .await;
    site.wait_ready().await;
    // Not before all pods run with the new one.
    let pods = site.all(kinds::POD).await;
    let hash = site.config_hash().await;
    let old: Vec<_> = pods
        .iter()
        .filter(|pod| {
            pod["metadata"]["labels"]["owner"] == NAME
                && pod["metadata"]["deletionTimestamp"].is_null()
        })
        .filter(|pod| config_hash(&pod["spec"]) != hash)
        .map(|pod| &pod["metadata"]["name"])
        .collect();
    assert!(old.is_empty(), "{old:?}");
    assert!(
        site.has_finalizer(kinds::MARIADB_ACCOUNT, "some-new-account", FINALIZER)
            .await
    );
}

pub async fn removes_the_finalizer_from_all_associated_accounts_when_deleted(site: &Site<'_>) {
    renamed(site).await;
    for account in [ACCOUNT, "some-new-account"] {
        site.cluster
            .patch(
                kinds::MARIADB_ACCOUNT,
                &site.namespace,
                account,
                json!({"metadata": {"finalizers": [FINALIZER, "test/of-its-operator"]}}),
            )
            .await;
    }
    site.delete().await;
    site.wait_gone().await;
    for account in [ACCOUNT, "some-new-account"] {
        assert!(
            !site
                .has_finalizer(kinds::MARIADB_ACCOUNT, account, FINALIZER)
                .await,
            "{account}"
        );
        site.cluster
            .patch(
                kinds::MARIADB_ACCOUNT,
                &site.namespace,
                account,
                json!({"metadata": {"finalizers": null}}),
            )
            .await;
    }
}

pub async fn sets_the_correct_database_url(site: &Site<'_>) {
    site.with_database(json!({})).await;
    site.wait_is("ServiceConfigReady", "True").await;
    assert_eq!(url(site).await, expected_url(site, ACCOUNT).await);
}

pub async fn updates_the_database_url_when_the_account_changes(site: &Site<'_>) {
    renamed(site).await;
    let before = url(site).await;
    site.plays_mariadb("some-new-account").await;
    site.wait_is("DBReady", "True").await;
    site.wait_is("ServiceConfigReady", "True").await;
    assert_eq!(
        url(site).await,
        expected_url(site, "some-new-account").await
    );
    assert_ne!(url(site).await, before);
}

pub async fn gets_a_config_hash_when_the_account_is_complete(site: &Site<'_>) {
    site.with_database(json!({})).await;
    assert_eq!(site.config_hash().await.len(), 64);
}

pub async fn updates_the_config_hash_when_the_account_changes(site: &Site<'_>) {
    renamed(site).await;
    let before = site.config_hash().await;
    site.plays_mariadb("some-new-account").await;
    site.wait_other_hash(&before).await;
}

/// A rule of the cluster is in the way: that is said where users look, and once it is gone all goes
/// on.
pub async fn says_that_an_account_may_not_be_held_or_let_go(site: &Site<'_>) {
    let (name, namespace) = (
        format!("{}-accounts", site.namespace),
        site.namespace.clone(),
    );
    let forbid = async |forbids: bool| {
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": ["mariadb.openstack.org"], "apiVersions": ["*"], "operations": ["UPDATE"],
            "resources": ["mariadbaccounts"]}]},
        "validations": [
            {
                "expression": if forbids { "false" } else { "true" },
                "message": "accounts are frozen"
            }
        ]}});
        let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"],
            "matchResources": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
            }}});
        site.cluster
            .apply(&format!("{policy}\n---\n{binding}"))
            .await;
        // It is in force a moment later.
        wait_until("the rule is in force", async || {
            let tried = site
                .cluster
                .api(kinds::MARIADB_ACCOUNT, &namespace)
                .patch(
                    ACCOUNT,
                    &PatchParams {
                        dry_run: true,
                        ..Default::default()
                    },
                    &Patch::Merge(json!({"metadata": {"annotations": {"tried": "1"}}})),
                )
                .await;
            if tried.is_err() == forbids {
                Ok(())
            } else {
                Err("not yet".to_owned())
            }
        })
        .await;
    };
    made_by_others(site, ACCOUNT).await;
    forbid(true).await;
    site.inputs().await;
    site.placement(json!({})).await;
    let says = async |what: &str| {
        site.wait_placement(what, |live| {
            let found = condition(&live["status"], "MariaDBAccountReady");
            let message = found["message"].as_str().unwrap_or_default();
            found["status"] == "False"
                && message.contains(&format!("{namespace}/{ACCOUNT}"))
                && message.contains("accounts are frozen")
        })
        .await
    };
    says("it cannot be held").await;
    forbid(false).await;
    site.wait_is("MariaDBAccountReady", "True").await;

    forbid(true).await;
    site.cluster
        .api(kinds::PLACEMENT_API, &namespace)
        .delete(NAME, &Default::default())
        .await
        .unwrap();
    says("it cannot be let go").await;
    forbid(false).await;
    site.wait_gone().await;
    assert!(
        !site
            .has_finalizer(kinds::MARIADB_ACCOUNT, ACCOUNT, FINALIZER)
            .await
    );
}

/// The database is another user's to run from now on, maybe the same one: what mariadb-operator
/// has of it stays, with the data.
pub async fn leaves_the_database_to_mariadb_operator_when_another_is_named(site: &Site<'_>) {
    site.deployed(json!({})).await;
    let made = [
        (kinds::MARIADB_DATABASE, "placement".to_owned()),
        (kinds::MARIADB_ACCOUNT, ACCOUNT.to_owned()),
        (kinds::SECRET, format!("{ACCOUNT}-db-secret")),
    ];
    let account = site.wait_there(kinds::MARIADB_ACCOUNT, ACCOUNT).await;
    site.secret(
        "another",
        &[("url", "mysql+pymysql://placement:x@db.example/placement")],
    )
    .await;
    let another =
        json!({"spec": {"databaseInstance": null, "database": {"urlSecret": {"name": "another"}}}});
    let left = async || {
        for (kind, name) in &made {
            let is_left = |live: &Value| {
                !has_finalizer(live, FINALIZER) && live["metadata"]["ownerReferences"].is_null()
            };
            site.wait(*kind, name, "is left", is_left).await;
        }
    };
    site.patch(another.clone()).await;
    left().await;
    site.wait_says(
        "DBReady",
        "True",
        "Ready",
        "The database is given by spec.database",
    )
    .await;
    site.wait_ready().await;

    // And back: they are used as they are.
    site.patch(json!({"spec": {"databaseInstance": "openstack", "database": null}}))
        .await;
    site.wait(kinds::MARIADB_DATABASE, "placement", "is held", |live| {
        has_finalizer(live, FINALIZER)
    })
    .await;
    site.wait_says("DBReady", "True", "Ready", "DB create completed")
        .await;
    let again = site.wait_there(kinds::MARIADB_ACCOUNT, ACCOUNT).await;
    assert_eq!(
        (&again["spec"], has_finalizer(&again, FINALIZER)),
        (&account["spec"], true)
    );
    assert_eq!(url(site).await, expected_url(site, ACCOUNT).await);
    site.wait_ready().await;

    site.patch(another).await;
    left().await;
    site.delete().await;
    site.wait_gone().await;
    for (kind, name) in &made {
        assert_eq!(
            site.wait_there(*kind, name).await["metadata"]["deletionTimestamp"],
            Value::Null,
            "{kind}"
        );
    }
}
