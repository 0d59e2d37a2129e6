//! Pods that take their time, and the end.

use serde_json::json;
use weft_plan::kinds;

use super::UNREADY;
use crate::system::{
    harness::{condition, wait_until},
    placement::site::*,
};

/// Beyond the original's words, the message says what is waited for.
pub async fn shows_the_deployment_progressing(site: &Site<'_>) {
    site.with_database(json!({"containerImage": UNREADY})).await;
    let live = site.wait_is("DeploymentReady", "False").await;
    let said = condition(&live["status"], "DeploymentReady");
    assert_eq!(said["reason"], "Requested");
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .starts_with("Deployment in progress"),
        "{said}"
    );
    // Nothing is registered that does not answer.
    assert!(
        site.get(kinds::KEYSTONE_SERVICE, "placement")
            .await
            .is_none()
    );
    assert_eq!(
        with_status(&live, "Unknown"),
        ["KeystoneEndpointReady", "KeystoneServiceReady"]
    );
}

/// The original goes on to say that it is in progress.
pub async fn tells_that_a_rollout_hits_its_deadline(site: &Site<'_>) {
    site.with_database(json!({"containerImage": UNREADY})).await;
    site.wait_is("DeploymentReady", "False").await;
    // Its controller then has nothing left to say that would overwrite this.
    let live = site
        .wait(kinds::DEPLOYMENT, NAME, "has made its pod", |live| {
            let status = &live["status"];
            status["observedGeneration"] == live["metadata"]["generation"]
                && status["updatedReplicas"] == 1
                && status["unavailableReplicas"] == 1
        })
        .await;
    let mut status = live["status"].clone();
    for one in status["conditions"].as_array_mut().unwrap() {
        if one["type"] == "Progressing" {
            one["status"] = "False".into();
            one["reason"] = "ProgressDeadlineExceeded".into();
            one["message"] = "has timed out progressing.".into();
        }
    }
    site.says(kinds::DEPLOYMENT, NAME, status).await;
    let live = site
        .wait_placement("it is told", |live| {
            let said = condition(&live["status"], "DeploymentReady");
            said["reason"] == "Error"
                && said["message"]
                    .as_str()
                    .unwrap_or_default()
                    .contains("ProgressDeadlineExceeded")
        })
        .await;
    assert_eq!(condition(&live["status"], "Ready")["status"], "False");
}

pub async fn reaches_ready_when_deployment_rollout_finished(site: &Site<'_>) {
    site.with_database(json!({"containerImage": UNREADY})).await;
    site.wait_is("DeploymentReady", "False").await;
    site.patch(json!({"spec": {"containerImage": "registry.test/placement:2"}}))
        .await;
    site.plays_keystone().await;
    site.wait_says("DeploymentReady", "True", "Ready", "Deployment completed")
        .await;
    site.wait_ready().await;
}

pub async fn removes_the_finalizers_when_deleted(site: &Site<'_>) {
    site.deployed(json!({})).await;
    let held = [
        (kinds::KEYSTONE_SERVICE, "placement"),
        (kinds::KEYSTONE_ENDPOINT, "placement"),
        (kinds::MARIADB_DATABASE, "placement"),
        (kinds::MARIADB_ACCOUNT, ACCOUNT),
    ];
    for (kind, name) in held {
        assert!(site.has_finalizer(kind, name, FINALIZER).await, "{kind}");
        // As its operator does, so that it is still there to look at.
        site.cluster
            .patch(
                kind,
                &site.namespace,
                name,
                json!({"metadata": {"finalizers": [FINALIZER, "test/of-its-operator"]}}),
            )
            .await;
    }
    site.delete().await;
    site.wait_gone().await;
    for (kind, name) in held {
        assert!(!site.has_finalizer(kind, name, FINALIZER).await, "{kind}");
        site.cluster
            .patch(
                kind,
                &site.namespace,
                name,
                json!({"metadata": {"finalizers": null}}),
            )
            .await;
    }
}

/// The original leaves the database with its finalizer then.
pub async fn is_deleted_where_the_account_is_missing(site: &Site<'_>) {
    site.deployed(json!({})).await;
    // While Weft stands by, it would be made again.
    site.patch(json!({"metadata": {"annotations": {"weft.network/pause": "test"}}}))
        .await;
    site.cluster
        .patch(
            kinds::MARIADB_ACCOUNT,
            &site.namespace,
            ACCOUNT,
            json!({"metadata": {"finalizers": null}}),
        )
        .await;
    site.cluster
        .delete(kinds::MARIADB_ACCOUNT, &site.namespace, ACCOUNT)
        .await;
    site.cluster
        .delete(
            kinds::SECRET,
            &site.namespace,
            &format!("{ACCOUNT}-db-secret"),
        )
        .await;
    site.delete().await;
    site.patch(json!({"metadata": {"annotations": null}})).await;
    site.wait_gone().await;
    assert!(
        !site
            .has_finalizer(kinds::MARIADB_DATABASE, "placement", FINALIZER)
            .await
    );
}

/// With everything in it that holds each other: the peers wait for Weft, and the namespace for all
/// of them.
pub async fn goes_with_its_namespace(site: &Site<'_>) {
    site.secret("ac", &[("AC_ID", "a"), ("AC_SECRET", "b")])
        .await;
    site.put(json!({
        "apiVersion": "topology.openstack.org/v1beta1", "kind": "Topology",
        "metadata": {"name": "zones"}, "spec": {}
    }))
    .await;
    site.deployed(
        json!({"topologyRef": {"name": "zones"}, "auth": {"applicationCredentialSecret": "ac"}}),
    )
    .await;
    for (kind, name) in [
        (kinds::MARIADB_DATABASE, "placement"),
        (kinds::MARIADB_ACCOUNT, ACCOUNT),
        (kinds::KEYSTONE_SERVICE, "placement"),
        (kinds::KEYSTONE_ENDPOINT, "placement"),
    ] {
        let finalizers = json!({"metadata": {"finalizers": [FINALIZER, "test/of-its-operator"]}});
        site.cluster
            .patch(kind, &site.namespace, name, finalizers)
            .await;
    }
    site.cluster
        .delete(kinds::NAMESPACE, "", &site.namespace)
        .await;
    wait_until(&format!("{} is gone", site.namespace), async || {
        site.peers_let_go().await;
        match site
            .cluster
            .get(kinds::NAMESPACE, "", &site.namespace)
            .await
        {
            None => Ok(()),
            Some(live) => Err(format!("{:#}", live["status"])),
        }
    })
    .await;
}
