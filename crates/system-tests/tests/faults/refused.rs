//! A component whose manifest the API server refuses.

use weft_testenv::proxy::{Match, Proxy};

use crate::faults::{
    harness::{Cluster, NAMESPACE, OPERATOR_USER, Operator, condition, wait_until},
    requests::wait_component,
    scenario::{FULL, resource},
};

/// Somebody's policy refuses one DaemonSet.
const POLICY: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-multus}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [daemonsets]}
  validations:
  - {expression: "object.metadata.name != 'multus'", message: "no second network here"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-multus}
spec: {policyName: no-multus, validationActions: [Deny]}
"#;

const REFUSED: &str = r#"
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: multus, namespace: default}
spec:
  selector: {matchLabels: {app: x}}
  template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: i}]}}
"#;

#[tokio::test]
async fn one_refused_object_stops_one_component_until_it_is_refused_no_more() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster.apply(POLICY).await;
    // Policies work a moment after they are made, and still work a moment after they are deleted.
    let refused = async || {
        cluster
            .control_plane
            .kubectl_with_input(&["create", "--dry-run=server", "-f", "-"], REFUSED)
            .await
            .err()
    };
    wait_until("the policy works", async || {
        refused()
            .await
            .map(drop)
            .ok_or_else(|| "not yet".to_owned())
    })
    .await;

    cluster.play_kubemacpool().await;
    cluster.apply(&resource(&FULL)).await;
    let status = cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToApply",
            "no second network here",
        )
        .await;
    let message = condition(&status, "Degraded")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.starts_with(&format!("multus: DaemonSet {NAMESPACE}/multus: ")),
        "{message}"
    );
    assert_eq!(
        message.lines().count(),
        1,
        "nothing else is wrong: {message}"
    );
    wait_component(&cluster, "linuxBridge", "Available").await;
    wait_component(&cluster, "kubeMacPool", "Available").await;
    wait_component(&cluster, "multus", "Degraded").await;
    assert_eq!(
        condition(&cluster.status().await, "Available")["status"],
        "False"
    );
    let attempts = proxy
        .writes()
        .iter()
        .filter(|write| {
            Match::any()
                .user(OPERATOR_USER)
                .resource("daemonsets")
                .name("multus")
                .selects(&write.info)
        })
        .count();
    assert!((1..=8).contains(&attempts), "{attempts} attempts");

    cluster
        .kubectl(&[
            "delete",
            "validatingadmissionpolicybinding,validatingadmissionpolicy",
            "no-multus",
        ])
        .await;
    cluster.wait_available().await;
}
