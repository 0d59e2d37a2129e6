//! Weft adopts or removes the objects of kubernetes-nmstate after its operator has gone.

use serde_json::{Value, json};
use weft_plan::{ObjectKey, kinds};

use super::{
    AGENT, NAMESPACE, agent,
    agents::{enactments, wait_decisions},
    nmstate, start, variable,
};
use weft_system_tests::*;

#[tokio::test]
async fn weft_waits_for_the_end_of_the_other_operator_and_takes_over_its_agent() {
    let cluster = start(1).await;
    cluster.apply(&nmstate("nmstate", &json!({}))).await;
    let uid = cluster.resource().await.unwrap()["metadata"]["uid"].clone();
    left_by_the_original(&cluster, &uid).await;
    let before = agent(&cluster).await.unwrap()["metadata"]["uid"].clone();
    cluster
        .apply("{apiVersion: nmstate.io/v1, kind: NodeNetworkConfigurationPolicy, metadata: {name: br1}, spec: {desiredState: {}}}")
        .await;
    cluster
        .apply("{apiVersion: nmstate.io/v1, kind: NodeNetworkConfigurationPolicy, metadata: {name: theirs}, spec: {nodeSelector: {none: ''}, desiredState: {}}}")
        .await;
    let status = json!({"status": their_status()}).to_string();
    cluster
        .kubectl(&[
            "patch",
            "nncp",
            "theirs",
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ])
        .await;
    let made = [
        (kinds::DAEMON_SET, NAMESPACE, AGENT),
        (kinds::DEPLOYMENT, NAMESPACE, "nmstate-webhook"),
        (kinds::SERVICE, NAMESPACE, "nmstate-webhook"),
        (kinds::MUTATING_WEBHOOK_CONFIGURATION, "", "nmstate"),
    ];
    let objects = made.map(|(kind, namespace, name)| ObjectKey::new(kind, namespace, name));
    let planned = Planned::of(&cluster, &nmstate("nmstate", &json!({})), &[], objects).await;
    let _operator = Operator::start_default(&cluster).await;

    // Of several that are in the way the operator is named first. The watches of them fill one
    // after the other.
    cluster
        .wait_condition(
            "Blocked",
            "True",
            "OtherOperatorRunning",
            "kubectl -n openshift-nmstate delete deployment nmstate-operator",
        )
        .await;
    assert!(
        cluster
            .get(kinds::DEPLOYMENT, NAMESPACE, "nmstate-webhook")
            .await
            .is_some(),
        "it writes nothing meanwhile"
    );
    wait_until("a policy says so, too", async || {
        let shown = cluster
            .kubectl(&["get", "nncp", "br1", "--no-headers"])
            .await;
        if shown
            .split_whitespace()
            .eq(["br1", "Blocked", "OtherOperatorRunning"])
        {
            Ok(())
        } else {
            Err(shown)
        }
    })
    .await;
    wait_until("the policy says the same as the resource", async || {
        let policy = cluster
            .get(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", "br1")
            .await
            .unwrap();
        let said = condition(&policy["status"], "Blocked")["message"].clone();
        let wanted = blocked_message(&cluster).await;
        if said == wanted {
            Ok(())
        } else {
            Err(format!("{said}, and not {wanted}"))
        }
    })
    .await;
    let theirs = cluster
        .get(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", "theirs")
        .await
        .unwrap();
    let mut expected = their_status();
    expected["observedGeneration"] = (-1).into(); // The default of the definition.
    assert_eq!(
        theirs["status"], expected,
        "what the other operator says stays as it is"
    );
    assert_eq!(enactments(&cluster).await.len(), 0);

    cluster
        .kubectl(&[
            "-n",
            "openshift-nmstate",
            "scale",
            "deployment",
            "nmstate-operator",
            "--replicas=0",
        ])
        .await;
    // Its agent in a namespace that is not ours goes on: two would change the same node.
    cluster
        .wait_condition(
            "Blocked",
            "True",
            "OtherOperatorRunning",
            "kubectl -n openshift-nmstate delete daemonset nmstate-handler",
        )
        .await;
    cluster
        .kubectl(&["-n", "openshift-nmstate", "delete", "daemonset", AGENT])
        .await;

    let resource = cluster.wait_available().await;
    assert_eq!(condition(&resource["status"], "Blocked"), Value::Null);
    wait_decisions(&cluster, "br1", &[("node-1", "Granted 1")]).await;
    for (name, phase) in [("br1", "Progressing"), ("theirs", "Ignored")] {
        let status = wait_until(&format!("{name} is {phase}"), async || {
            let live = cluster
                .get(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", name)
                .await
                .unwrap();
            if condition(&live["status"], phase)["status"] == "True" {
                Ok(live["status"].clone())
            } else {
                Err(live["status"].to_string())
            }
        })
        .await;
        assert_eq!(condition(&status, "Blocked"), Value::Null);
    }
    assert_eq!(planned.assert_happened(&cluster).await, planned.restarts());
    let live = agent(&cluster).await.unwrap();
    assert_eq!(live["metadata"]["uid"], before, "the same DaemonSet");
    assert_eq!(
        variable(&live, "INTERFACES_FILTER"),
        Value::Null,
        "what it said and Weft does not is gone"
    );
    let container = &live["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["securityContext"]["privileged"],
        Value::Null,
        "{container:#}"
    );
    for (kind, namespace, name) in [
        (kinds::MUTATING_WEBHOOK_CONFIGURATION, "", "nmstate"),
        (kinds::DEPLOYMENT, NAMESPACE, "nmstate-webhook"),
        (kinds::SERVICE, NAMESPACE, "nmstate-webhook"),
        (kinds::POD_DISRUPTION_BUDGET, NAMESPACE, "nmstate-webhook"),
        (
            kinds::NETWORK_POLICY,
            NAMESPACE,
            "default-deny-labelled-operand",
        ),
    ] {
        assert_eq!(
            cluster.get(kind, namespace, name).await,
            None,
            "{kind} {name}"
        );
    }
    assert!(
        cluster
            .get(kinds::CONFIG_MAP, NAMESPACE, "nginx-conf")
            .await
            .is_some(),
        "somebody else's, of one of its names"
    );
}

/// Of another name than it has by itself, as with a prefix, and without it: the API server goes on
/// asking, and nobody answers.
#[tokio::test]
async fn webhooks_of_the_other_operator_block_without_it() {
    let cluster = start(1).await;
    cluster
        .apply("{apiVersion: nmstate.io/v1, kind: NodeNetworkConfigurationPolicy, metadata: {name: br1}, spec: {desiredState: {}}}")
        .await;
    let policies = |group: &str| {
        json!([
            {
                "operations": ["CREATE", "UPDATE"], "apiGroups": [group], "apiVersions": ["*"],
                "resources": ["nodenetworkconfigurationpolicies"]
            }
        ])
    };
    let hooks = |name: &str, webhook: &str, group: &str, failure: &str| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [{
            "name": webhook, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": failure, "rules": policies(group),
            "clientConfig": {"service": {"namespace": "nowhere", "name": name, "path": "/x"}}}]})
    };
    let rules = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "test-nmstate-policies", "labels": {"app": "kubernetes-nmstate"}},
    "spec": {
        "matchConstraints": {"resourceRules": policies("nmstate.io")},
        "validations": [{"expression": "true"}]
    }});
    let engine = hooks(
        "policy-engine",
        "validate.example.com",
        "nmstate.io",
        "Ignore",
    );
    let left = hooks(
        "test-nmstate",
        "nodenetworkconfigurationpolicies-mutate.nmstate.io",
        "*",
        "Fail",
    );
    for object in [engine, rules, left] {
        cluster
            .control_plane
            .kubectl_with_input(&["create", "-f", "-"], &object.to_string())
            .await
            .unwrap();
    }
    // The API server learns of the webhooks by a watch of its own.
    wait_until("the webhook is asked", async || {
        let annotate = ["annotate", "--dry-run=server", "nncp", "br1", "a=b"];
        let refused = match cluster.control_plane.kubectl(&annotate).await {
            Ok(done) => return Err(done),
            Err(error) => error.to_string(),
        };
        assert!(
            refused.contains("nodenetworkconfigurationpolicies-mutate.nmstate.io"),
            "{refused}"
        );
        Ok(())
    })
    .await;
    cluster.apply(&nmstate("nmstate", &json!({}))).await;
    let _operator = Operator::start_default(&cluster).await;

    let command = "kubectl delete mutatingwebhookconfiguration test-nmstate";
    cluster
        .wait_condition("Blocked", "True", "OtherWebhooks", command)
        .await;
    wait_until("a policy says so, and an event", async || {
        let policy = cluster
            .get(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", "br1")
            .await
            .unwrap();
        let said = condition(&policy["status"], "Blocked");
        let events = cluster
            .kubectl(&[
                "get",
                "events",
                "-o",
                "custom-columns=:.reason,:.message",
                "--no-headers",
            ])
            .await;
        let is_told = said["reason"] == "OtherWebhooks"
            && events
                .lines()
                .any(|line| line.starts_with("OtherWebhooks") && line.contains(command));
        if is_told {
            Ok(())
        } else {
            Err(format!("{said:#}\n{events}"))
        }
    })
    .await;
    let shown = weft_status(&cluster).await;
    assert!(shown.contains(command), "{shown}");
    assert_eq!(
        (agent(&cluster).await, enactments(&cluster).await.len()),
        (None, 0),
        "it writes nothing meanwhile"
    );

    cluster
        .delete(kinds::MUTATING_WEBHOOK_CONFIGURATION, "", "test-nmstate")
        .await;
    cluster
        .wait_condition(
            "Blocked",
            "True",
            "OtherAdmissionPolicy",
            "kubectl delete validatingadmissionpolicy test-nmstate-policies",
        )
        .await;
    assert_eq!(agent(&cluster).await, None);
    cluster
        .delete(
            kinds::VALIDATING_ADMISSION_POLICY,
            "",
            "test-nmstate-policies",
        )
        .await;
    cluster.wait_available().await;
    wait_decisions(&cluster, "br1", &[("node-1", "Granted 1")]).await;
    let engine = cluster
        .get(kinds::MUTATING_WEBHOOK_CONFIGURATION, "", "policy-engine")
        .await;
    assert!(
        engine.is_some(),
        "somebody's policy engine is in nobody's way"
    );
}

/// Returns the output of `weft status`.
async fn weft_status(cluster: &Cluster) -> String {
    let mut command = tokio::process::Command::new(weft_binary());
    command
        .args(["status", "--domains", "node-network"])
        .env("KUBECONFIG", cluster.control_plane.kubeconfig());
    String::from_utf8(command.output().await.unwrap().stdout).unwrap()
}

/// The other operator's report about a policy.
fn their_status() -> Value {
    json!({"conditions": [{"type": "Available", "status": "True", "reason": "SuccessfullyConfigured", "message": "1/1 nodes successfully configured",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
}

async fn blocked_message(cluster: &Cluster) -> Value {
    condition(&cluster.status().await, "Blocked")["message"].clone()
}

/// A part of its objects, each owned by the resource as it does it, and itself, in OpenShift's
/// namespace.
async fn left_by_the_original(cluster: &Cluster, uid: &Value) {
    let owners = json!([
        {
            "apiVersion": "nmstate.io/v1", "kind": "NMState", "name": "nmstate", "uid": uid,
            "controller": true, "blockOwnerDeletion": true
        }
    ]);
    let labels = json!({"app": "kubernetes-nmstate"});
    let owned = |namespace: Option<&str>, name: &str| {
        json!({
            "namespace": namespace, "name": name, "labels": labels, "ownerReferences": owners
        })
    };
    let template = |name: &str, env: Value| {
        json!({
            "metadata": {"labels": {"name": name}},
            "spec": {
                "containers": [
                    {
                        "name": name, "image": "registry.example/handler:1", "env": env,
                        "securityContext": {"privileged": true}
                    }
                ]
            }
        })
    };
    let workload = |namespace: &str, kind: &str, name: &str, metadata: Value| {
        json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": {"name": name}},
                "template": template(name, json!([{"name": "INTERFACES_FILTER", "value": namespace}]))
            }
        })
    };
    let service = json!({"namespace": NAMESPACE, "name": "nmstate-webhook", "path": "/x"});
    let webhook = json!({"name": "x.nmstate.io", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore", "clientConfig": {"service": service},
    "rules": [
        {
            "operations": ["CREATE"], "apiGroups": ["nmstate.io"], "apiVersions": ["v1"],
            "resources": ["nodenetworkconfigurationpolicies"]
        }
    ]});
    let operator = workload(
        "x",
        "Deployment",
        "kubernetes-nmstate-operator",
        json!({"namespace": "openshift-nmstate", "name": "nmstate-operator"}),
    );
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-nmstate"}}),
        workload(NAMESPACE, "DaemonSet", AGENT, owned(Some(NAMESPACE), AGENT)),
        workload(
            "x",
            "DaemonSet",
            AGENT,
            json!({"namespace": "openshift-nmstate", "name": AGENT, "labels": labels}),
        ),
        workload(
            "x",
            "Deployment",
            "nmstate-webhook",
            owned(Some(NAMESPACE), "nmstate-webhook"),
        ),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": owned(Some(NAMESPACE), "nmstate-webhook"),
            "spec": {"ports": [{"port": 443}]}
        }),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": owned(Some(NAMESPACE), "nmstate-webhook"), "spec": {"minAvailable": 1}
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": owned(Some(NAMESPACE), "default-deny-labelled-operand"),
            "spec": {"podSelector": {}}
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": owned(None, "nmstate"), "webhooks": [webhook]
        }),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": NAMESPACE, "name": "nginx-conf"}
        }),
        operator,
    ] {
        cluster
            .control_plane
            .kubectl_with_input(&["create", "-f", "-"], &object.to_string())
            .await
            .unwrap();
    }
}
