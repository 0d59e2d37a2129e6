//! Trouble that only people can end, and whose end a watch reports. Until then the operator sends
//! no request, and then it goes on at once.

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::{Fault, Match, Proxy};

use crate::faults::{
    harness::*,
    requests::wait_component,
    scenario::{self, resource},
};

/// How many renewals of the Lease count as idle. The Lease is renewed every three seconds, and pauses
/// grow with the time that the trouble lasts: a timer would have come due by then.
const RENEWALS: usize = 5;

async fn start_operator(cluster: &Cluster, proxy: &Proxy) -> Operator {
    let options = OperatorOptions {
        proxy: Some(proxy),
        // A busy API server must not cost the Lease, after which the operator lists everything.
        lease_seconds: 9,
        ..Default::default()
    };
    Operator::start(cluster, options).await
}

/// As [`operator_is_idle`], for many renewals of the lease.
async fn stays_idle(proxy: &Proxy, during: &str) {
    operator_is_idle(proxy, during, RENEWALS).await;
}

/// A cluster with these components, and an operator whose requests are recorded.
async fn start(spec: &[&str]) -> (Cluster, Proxy, Operator) {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = start_operator(&cluster, &proxy).await;
    cluster.apply(&resource(spec)).await;
    cluster.wait_available().await;
    (cluster, proxy, operator)
}

/// A finalizer that nobody but its owner takes off.
const HOLD: &str = "example.com/hold";

async fn hold(cluster: &Cluster, name: &str, finalizers: Value) {
    cluster
        .patch(
            kinds::DAEMON_SET,
            NAMESPACE,
            name,
            json!({"metadata": {"finalizers": finalizers}}),
        )
        .await;
}

#[tokio::test]
async fn a_foreign_object_in_the_way_costs_no_request_until_it_changes() {
    let cluster = Cluster::start_default().await;
    let account = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": NAMESPACE}
        })
    };
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "multus"}, "rules": []
    });
    for theirs in [account("bridge-marker"), role] {
        cluster.apply(&theirs.to_string()).await;
    }
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = start_operator(&cluster, &proxy).await;
    cluster
        .apply(&resource(&["multus: {}", "linuxBridge: {}"]))
        .await;
    cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToApply",
            "kubectl annotate clusterroles",
        )
        .await;
    stays_idle(&proxy, "the wait for two foreign objects").await;
    // One of them changes, and stays in the way: the watch shows that, and no request is needed.
    cluster
        .patch(
            kinds::CLUSTER_ROLE,
            "",
            "multus",
            json!({"metadata": {"labels": {"of": "somebody"}}}),
        )
        .await;
    stays_idle(&proxy, "the wait for changed foreign objects").await;

    // Their owner deletes the one and gives the other away.
    proxy.clear();
    cluster
        .delete(kinds::SERVICE_ACCOUNT, NAMESPACE, "bridge-marker")
        .await;
    wait_component(&cluster, "linuxBridge", "Available").await;
    cluster
        .patch(
            kinds::CLUSTER_ROLE,
            "",
            "multus",
            json!({"metadata": {"annotations": {"weft.network/adopt": "true"}}}),
        )
        .await;
    cluster.wait_available().await;
    let conflicts: Vec<_> = proxy
        .writes()
        .into_iter()
        .filter(|write| {
            matches!(&*write.info.resource, "serviceaccounts" | "clusterroles")
                && write.code == Some(409)
        })
        .map(|write| write.info.path)
        .collect();
    assert!(
        conflicts.is_empty(),
        "what a watch shows is not created: {conflicts:?}"
    );
}

#[tokio::test]
async fn an_object_that_the_api_server_refuses_waits_for_another_spec() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = start_operator(&cluster, &proxy).await;
    // Weft accepts this operator for API servers that have the feature on. This one has it off.
    let refused = "placementConfiguration: {workloads: {tolerations: [{key: example.com/none, operator: Lt, value: '5'}]}}";
    cluster.apply(&resource(&["multus: {}", refused])).await;
    let status = cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToApply",
            "DaemonSet.apps \"multus\" is invalid",
        )
        .await;
    assert_eq!(
        condition(&status, "Progressing")["reason"],
        "InvalidConfiguration",
        "{status:#}"
    );
    stays_idle(&proxy, "the wait for another spec").await;
    // Another reconcile is no reason to try the same again.
    let before = operator.metric("weft_passes_total").await;
    proxy.clear();
    cluster
        .patch_resource(json!({"metadata": {"annotations": {"example.com/note": "hello"}}}))
        .await;
    operator.wait_passes_beyond(before).await;
    let attempts = proxy
        .writes()
        .iter()
        .filter(|write| write.info.resource == "daemonsets")
        .count();
    assert_eq!(attempts, 0, "the same is not tried again");

    cluster
        .patch_resource(json!({"spec": {"placementConfiguration": null}}))
        .await;
    cluster.wait_available().await;
}

#[tokio::test]
async fn a_wanted_object_held_by_a_finalizer_is_waited_for_without_requests() {
    let (cluster, proxy, _operator) = start(&["multus: {}"]).await;
    hold(&cluster, "multus", json!([HOLD])).await;
    cluster.delete(kinds::DAEMON_SET, NAMESPACE, "multus").await;
    cluster
        .wait_condition("Degraded", "True", "FailedToApply", HOLD)
        .await;
    stays_idle(&proxy, "the end of an object that is wanted").await;
    hold(&cluster, "multus", Value::Null).await;
    cluster.wait_available().await;
}

#[tokio::test]
async fn an_unwanted_object_held_by_a_finalizer_waits_without_requests() {
    let (cluster, proxy, _operator) = start(&["multus: {}", "linuxBridge: {}"]).await;
    hold(&cluster, "bridge-marker", json!([HOLD])).await;
    cluster
        .patch_resource(json!({"spec": {"linuxBridge": null}}))
        .await;
    cluster
        .wait_condition("Degraded", "True", "FailedToDeleteObjects", HOLD)
        .await;
    stays_idle(&proxy, "the end of an object that is not wanted").await;
    hold(&cluster, "bridge-marker", Value::Null).await;
    cluster.wait_available().await;
}

#[tokio::test]
async fn a_teardown_that_a_finalizer_holds_up_sends_no_request() {
    let (cluster, proxy, _operator) = start(&["multus: {}"]).await;
    hold(&cluster, "multus", json!([HOLD])).await;
    cluster
        .delete(kinds::NETWORK_ADDONS_CONFIG, "", "cluster")
        .await;
    cluster
        .wait_condition("Degraded", "True", "FailedToDeleteObjects", HOLD)
        .await;
    stays_idle(&proxy, "a teardown").await;
    hold(&cluster, "multus", Value::Null).await;
    scenario::gone(&cluster).await;
}

#[tokio::test]
async fn leftovers_that_a_finalizer_holds_are_waited_for_without_requests() {
    let (cluster, proxy, operator) = start(&["multus: {}"]).await;
    hold(&cluster, "multus", json!([HOLD])).await;
    cluster
        .delete(kinds::NETWORK_ADDONS_CONFIG, "", "cluster")
        .await;
    cluster
        .wait_condition("Degraded", "True", "FailedToDeleteObjects", HOLD)
        .await;
    // The resource goes before its objects.
    cluster
        .patch_resource(json!({"metadata": {"finalizers": null}}))
        .await;
    operator
        .wait_logged("the resource is gone without its finalizer")
        .await;
    stays_idle(&proxy, "the removal of what a resource has left").await;
    hold(&cluster, "multus", Value::Null).await;
    scenario::gone(&cluster).await;
}

/// A forbidden watch reports nothing, so a timer makes the operator look instead.
#[tokio::test]
async fn a_foreign_object_that_may_not_be_watched_is_tried_again_by_timer() {
    let cluster = Cluster::start_default().await;
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "bridge-marker", "namespace": NAMESPACE}
    });
    cluster.apply(&account.to_string()).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let watch = Match::any()
        .user(OPERATOR_USER)
        .resource("serviceaccounts")
        .name("bridge-marker");
    let blind =
        ["list", "watch"].map(|verb| proxy.inject(watch.clone().verb(verb), Fault::status(403)));
    let _operator = start_operator(&cluster, &proxy).await;
    cluster.apply(&resource(&["linuxBridge: {}"])).await;
    cluster
        .wait_condition("Degraded", "True", "FailedToApply", "kubectl annotate")
        .await;
    blind[0].wait_hits(1, PATIENCE).await.unwrap();
    cluster
        .delete(kinds::SERVICE_ACCOUNT, NAMESPACE, "bridge-marker")
        .await;
    cluster.wait_available().await;
}

#[tokio::test]
async fn a_foreign_object_in_the_way_of_placement_costs_no_request() {
    const SPACE: &str = "openstack";
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        manifests: &["--split", "--domains", "placement"],
        resource: (kinds::PLACEMENT_API, "placement"),
        resource_namespace: SPACE,
        ..Default::default()
    })
    .await;
    let in_space = |kind: &str, name: &str, rest: Value| {
        let mut object = json!({
            "apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": SPACE}
        });
        object
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().cloned().unwrap());
        object.to_string()
    };
    cluster
        .apply(&in_space(
            "ServiceAccount",
            "placement-placement",
            json!({}),
        ))
        .await;
    let url =
        json!({"stringData": {"url": "mysql+pymysql://placement:secret@db.example/placement"}});
    cluster
        .apply(&in_space("Secret", "placement-db", url))
        .await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = start_operator(&cluster, &proxy).await;
    let spec = json!({
        "auth": {"strategy": "noauth2"}, "database": {"urlSecret": {"name": "placement-db"}}
    });
    let metadata = json!({"name": "placement", "namespace": SPACE});
    let placement = json!({
        "apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
        "metadata": metadata, "spec": spec
    });
    cluster.apply(&placement.to_string()).await;
    let ready = async |wanted: &str, message: &str| {
        wait_until(&format!("Ready is {wanted}"), async || {
            let status = cluster.status().await;
            let told = condition(&status, "Ready");
            if told["status"] == wanted && status.to_string().contains(message) {
                Ok(())
            } else {
                Err(format!("{status:#}"))
            }
        })
        .await;
    };
    ready("False", "exists already and is not Weft's").await;
    stays_idle(&proxy, "the wait for a foreign ServiceAccount").await;
    cluster
        .delete(kinds::SERVICE_ACCOUNT, SPACE, "placement-placement")
        .await;
    ready("True", "").await;
}
