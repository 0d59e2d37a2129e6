//! How to recognise the operator that Weft replaces, kubernetes-nmstate, and what it made.

use serde_json::Value;
use weft_api::node_network::{GROUP, installation::KIND};
use weft_plan::{Kind, OWNER_LABEL, ObjectKey, kinds};

use super::{AGENT, Settings};

/// The name of its Deployment, and of Weft's.
const OPERATOR: &str = "nmstate-operator";
/// Its operator; and its agent, which goes on changing nodes where the operator is gone.
pub(super) const OPERATORS: &[(Kind, &str)] = &[(kinds::DEPLOYMENT, OPERATOR), (kinds::DAEMON_SET, AGENT)];
/// On Weft's own Deployment, to tell it from the original's, which has the same name.
const COMPONENT_LABEL: &str = "weft.network/component";
/// On nearly all that it makes.
const APP: &str = "kubernetes-nmstate";

/// Whether it made this object: it owns it through the resource, has labelled it, or has applied it under its name.
pub(super) fn made(settings: &Settings, live: &Value) -> bool {
    let metadata = &live["metadata"];
    let owned = metadata["ownerReferences"].as_array().into_iter().flatten().any(|owner| {
        owner["kind"] == KIND
            && owner["apiVersion"].as_str().and_then(|version| version.split_once('/')).is_some_and(|(group, _)| group == GROUP)
    });
    let applied = metadata["managedFields"].as_array().into_iter().flatten().any(|entry| entry["manager"] == OPERATOR);
    let is_namespace = ObjectKey::of(live).is_some_and(|key| key == ObjectKey::new(kinds::NAMESPACE, "", &settings.namespace));
    owned || applied || is_namespace || metadata["labels"]["app"] == APP
}

/// Whether a workload is that operator: by its image's name, or by its own name where the label of Weft is missing. Or its agent, in a namespace
/// where Weft takes over none: two agents would change the same nodes.
pub(super) fn is_operator(settings: &Settings, workload: &Value) -> bool {
    let metadata = &workload["metadata"];
    if workload["kind"] == "DaemonSet" {
        let is_ours = metadata["namespace"] == *settings.namespace || !metadata["labels"][OWNER_LABEL].is_null();
        return metadata["name"] == AGENT && !is_ours && made(settings, workload);
    }
    let is_its_image = |image: &str| {
        let name = image.rsplit('/').next().unwrap_or_default();
        name.split(['@', ':'])
            .next()
            .is_some_and(|name| name == "kubernetes-nmstate-operator" || name == "kubernetes-nmstate-rhel9-operator")
    };
    let by_name = metadata["name"] == OPERATOR && metadata["labels"][COMPONENT_LABEL].is_null();
    let containers = workload.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    by_name || containers.into_iter().flatten().filter_map(|container| container["image"].as_str()).any(is_its_image)
}

/// What it made and Weft does without: its webhook and the pods beside the agent, with all that belongs to these.
///
/// What it labels in no way is left alone (see [`made`]), so a name that somebody else uses harms nobody.
pub(super) fn leftovers(settings: &Settings) -> Vec<ObjectKey> {
    let of_kind = |kind: Kind, names: &[&str]| -> Vec<ObjectKey> {
        let namespace = if kind.namespaced { &*settings.namespace } else { "" };
        names.iter().map(|name| ObjectKey::new(kind, namespace, name)).collect()
    };
    [
        of_kind(kinds::MUTATING_WEBHOOK_CONFIGURATION, &["nmstate"]),
        of_kind(kinds::DEPLOYMENT, &["nmstate-webhook", "nmstate-cert-manager", "nmstate-metrics", "nmstate-console-plugin"]),
        of_kind(kinds::POD_DISRUPTION_BUDGET, &["nmstate-webhook"]),
        of_kind(kinds::SERVICE, &["nmstate-webhook", "nmstate-monitor", "nmstate-console-plugin"]),
        of_kind(kinds::CONFIG_MAP, &["nmstate-config", "nmstate-tls-config", "nginx-conf"]),
        of_kind(kinds::SERVICE_MONITOR, &["controller-manager-metrics-monitor"]),
        of_kind(
            kinds::NETWORK_POLICY,
            &[
                "allow-cert-manager-egress-api-6443",
                "allow-metrics-egress-api-6443",
                "allow-metrics-ingress-443",
                "allow-metrics-ingress-8443",
                "allow-operator-egress-api-6443",
                "allow-plugin-nmstate-console-plugin-ingress",
                "allow-webhook-egress-api-6443",
                "allow-webhook-ingress-443",
                "allow-webhook-ingress-9443",
                "default-deny-labelled-operand",
                "default-deny-labelled-operator",
            ],
        ),
        of_kind(kinds::ROLE_BINDING, &["prometheus-k8s"]),
        of_kind(kinds::ROLE, &["prometheus-k8s"]),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn workload(kind: &str, namespace: &str, name: &str, image: &str, labels: Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"namespace": namespace, "name": name, "labels": labels},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
    }

    #[test]
    fn the_operator_is_known_by_image_and_by_name() {
        let is_operator = |workload: &Value| is_operator(&Settings::default(), workload);
        for (namespace, name, image) in [
            ("nmstate", "nmstate-operator", "registry.example/mirror@sha256:00"),
            ("openshift-nmstate", "nmstate-operator", "registry.example/x/kubernetes-nmstate-rhel9-operator@sha256:00"),
            ("elsewhere", "renamed", "quay.io/nmstate/kubernetes-nmstate-operator:v0.86.0"),
        ] {
            assert!(is_operator(&workload("Deployment", namespace, name, image, json!({}))), "{namespace}/{name}");
        }
        assert!(!is_operator(&workload("Deployment", "n", "other", "registry.example/other:1", json!({}))));
        let applied_over = json!({COMPONENT_LABEL: "operator"});
        assert!(is_operator(&workload("Deployment", "nmstate", OPERATOR, "quay.io/nmstate/kubernetes-nmstate-operator", applied_over)));
    }

    #[test]
    fn an_agent_of_another_namespace_is_in_the_way_and_one_of_ours_is_taken_over() {
        let agent = |namespace: &str| workload("DaemonSet", namespace, AGENT, "x", json!({"app": APP}));
        assert!(is_operator(&Settings::default(), &agent("openshift-nmstate")));
        assert!(!is_operator(&Settings::default(), &agent("nmstate")));
        let somebody_elses = workload("DaemonSet", "elsewhere", AGENT, "x", json!({}));
        assert!(!is_operator(&Settings::default(), &somebody_elses));
    }

    #[test]
    fn weft_does_not_take_itself_for_it() {
        let objects: Vec<Value> = serde_saphyr::from_multiple(include_str!("../../../../deploy/node-network/operator.yaml")).unwrap();
        let deployments: Vec<_> = objects.iter().filter(|object| object["kind"] == "Deployment").collect();
        assert_eq!(deployments.len(), 1);
        assert!(!is_operator(&Settings::default(), deployments[0]));
    }

    #[test]
    fn what_it_made_is_known_by_owner_label_or_manager() {
        let object = |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        let owner = |version: &str| json!({"name": "a", "ownerReferences": [{"apiVersion": version, "kind": "NMState", "name": "nmstate", "uid": "u"}]});
        for (metadata, expected) in [
            (owner("nmstate.io/v1"), true),
            (owner("nmstate.io/v1beta1"), true),
            (owner("example.com/v1"), false),
            (json!({"name": "a", "labels": {"app": "kubernetes-nmstate"}}), true),
            (json!({"name": "a", "managedFields": [{"manager": "nmstate-operator", "operation": "Apply"}]}), true),
            (json!({"name": "a", "managedFields": [{"manager": "kubectl", "operation": "Update"}]}), false),
        ] {
            assert_eq!(made(&Settings::default(), &object(metadata.clone())), expected, "{metadata}");
        }
    }
}
