//! How to recognise the operator that Weft replaces, kubernetes-nmstate, and what it made.

use serde_json::Value;
use weft_api::node_network::{GROUP, installation::KIND};
use weft_plan::{COMPONENT_LABEL, Kind, OWNER_LABEL, ObjectKey, kinds};

use super::{AGENT, Settings};

/// The name of its Deployment, and of Weft's.
const OPERATOR: &str = "nmstate-operator";
/// Its operator, and its agent, which goes on changing nodes where the operator is gone.
pub(super) const OPERATORS: &[(Kind, &str)] =
    &[(kinds::DEPLOYMENT, OPERATOR), (kinds::DAEMON_SET, AGENT)];
/// On nearly all that it makes.
const APP: &str = "kubernetes-nmstate";
/// The kinds whose objects Weft writes.
const WRITTEN: [Kind; 4] = [
    kinds::NMSTATE,
    kinds::NODE_NETWORK_CONFIGURATION_POLICY,
    kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT,
    kinds::NODE_NETWORK_STATE,
];

/// Reports whether it made this object.
pub(super) fn made(settings: &Settings, live: &Value) -> bool {
    let is_namespace = ObjectKey::of(live)
        .is_some_and(|key| key == ObjectKey::new(kinds::NAMESPACE, "", &settings.namespace));
    is_namespace || bears_its_mark(live)
}

/// Reports whether it owns this object through the resource, has labelled it, or has applied it
/// under its name.
fn bears_its_mark(live: &Value) -> bool {
    let metadata = &live["metadata"];
    let owned = metadata["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|owner| {
            owner["kind"] == KIND
                && owner["apiVersion"]
                    .as_str()
                    .and_then(|version| version.split_once('/'))
                    .is_some_and(|(group, _)| group == GROUP)
        });
    let applied = metadata["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|entry| entry["manager"] == OPERATOR);
    owned || applied || metadata["labels"]["app"] == APP
}

/// Reports whether an object of admission is its, and has the API server ask about objects of
/// `nmstate.io`.
///
/// By what it does and whose it is: its names differ between releases, have a prefix that can be
/// set, and the Operator Lifecycle Manager adds letters to them. It names the resources, if not
/// their group. A webhook for all groups, or one with a mark of its own, belongs to a user's policy
/// engine and stays.
pub(super) fn is_admission(object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    let of_its_package = labels["olm.owner"]
        .as_str()
        .is_some_and(|owner| owner.starts_with("kubernetes-nmstate-operator"));
    let is_marked = bears_its_mark(object) || of_its_package;
    let asks_by_webhook = list(&object["webhooks"]).any(|webhook| {
        names_what_weft_writes(&webhook["rules"]) && (is_marked || asks_it(webhook))
    });
    let asks_by_policy =
        is_marked && names_what_weft_writes(&object["spec"]["matchConstraints"]["resourceRules"]);
    labels[OWNER_LABEL].is_null() && (asks_by_webhook || asks_by_policy)
}

/// Reports whether one of these rules names objects of `nmstate.io`, by their group or by their
/// resource.
fn names_what_weft_writes(rules: &Value) -> bool {
    let is_written = |resource: &Value| {
        let plural = resource
            .as_str()
            .and_then(|resource| resource.split('/').next());
        WRITTEN.iter().any(|kind| Some(kind.plural) == plural)
    };
    list(rules).any(|rule| {
        let is_of = |group: &str| list(&rule["apiGroups"]).any(|one| one == group);
        is_of(GROUP) || is_of("*") && list(&rule["resources"]).any(is_written)
    })
}

/// Reports whether a webhook is asked of its server: that has this name, after a prefix, or the
/// webhook is named after its project.
fn asks_it(webhook: &Value) -> bool {
    let ends_with =
        |field: &Value, end: &str| field.as_str().is_some_and(|text| text.ends_with(end));
    ends_with(
        &webhook["clientConfig"]["service"]["name"],
        "nmstate-webhook",
    ) || ends_with(&webhook["name"], ".nmstate.io")
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Reports whether a workload is that operator: by its image's name, or by its own name where the
/// label of Weft is missing. Or its agent, in a namespace where Weft takes over none: two agents
/// would change the same nodes. Or what it asks by, unless that goes when Weft takes over.
pub(super) fn is_operator(settings: &Settings, workload: &Value) -> bool {
    let metadata = &workload["metadata"];
    if let Some(key) = ObjectKey::of(workload).filter(|key| kinds::ADMISSION.contains(&key.kind)) {
        let goes = leftovers(settings).contains(&key) && made(settings, workload);
        return is_admission(workload) && !goes;
    }
    if workload["kind"] == "DaemonSet" {
        let is_ours = metadata["namespace"] == *settings.namespace
            || !metadata["labels"][OWNER_LABEL].is_null();
        return metadata["name"] == AGENT && !is_ours && made(settings, workload);
    }
    let is_its_image = |image: &str| {
        let name = image.rsplit('/').next().unwrap_or_default();
        name.split(['@', ':']).next().is_some_and(|name| {
            name == "kubernetes-nmstate-operator" || name == "kubernetes-nmstate-rhel9-operator"
        })
    };
    let by_name = metadata["name"] == OPERATOR && metadata["labels"][COMPONENT_LABEL].is_null();
    let containers = workload
        .pointer("/spec/template/spec/containers")
        .and_then(Value::as_array);
    by_name
        || containers
            .into_iter()
            .flatten()
            .filter_map(|container| container["image"].as_str())
            .any(is_its_image)
}

/// Objects of the original that Weft does not need: its webhook and the pods besides the agent,
/// with everything that belongs to them.
///
/// Objects without its labels stay (see [`made`]), so another user's object of the same name is
/// safe.
pub(super) fn leftovers(settings: &Settings) -> Vec<ObjectKey> {
    let of_kind = |kind: Kind, names: &[&str]| -> Vec<ObjectKey> {
        let namespace = if kind.namespaced {
            &*settings.namespace
        } else {
            ""
        };
        names
            .iter()
            .map(|name| ObjectKey::new(kind, namespace, name))
            .collect()
    };
    [
        of_kind(kinds::MUTATING_WEBHOOK_CONFIGURATION, &["nmstate"]),
        of_kind(
            kinds::DEPLOYMENT,
            &[
                "nmstate-webhook",
                "nmstate-cert-manager",
                "nmstate-metrics",
                "nmstate-console-plugin",
            ],
        ),
        of_kind(kinds::POD_DISRUPTION_BUDGET, &["nmstate-webhook"]),
        of_kind(
            kinds::SERVICE,
            &[
                "nmstate-webhook",
                "nmstate-monitor",
                "nmstate-console-plugin",
            ],
        ),
        of_kind(
            kinds::CONFIG_MAP,
            &["nmstate-config", "nmstate-tls-config", "nginx-conf"],
        ),
        of_kind(
            kinds::SERVICE_MONITOR,
            &["controller-manager-metrics-monitor"],
        ),
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
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {
            "namespace": namespace, "name": name, "labels": labels
        },
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
    }

    #[test]
    fn the_operator_is_known_by_image_and_by_name() {
        let is_operator = |workload: &Value| is_operator(&Settings::default(), workload);
        for (namespace, name, image) in [
            (
                "nmstate",
                "nmstate-operator",
                "registry.example/mirror@sha256:00",
            ),
            (
                "openshift-nmstate",
                "nmstate-operator",
                "registry.example/x/kubernetes-nmstate-rhel9-operator@sha256:00",
            ),
            (
                "elsewhere",
                "renamed",
                "quay.io/nmstate/kubernetes-nmstate-operator:v0.86.0",
            ),
        ] {
            assert!(
                is_operator(&workload("Deployment", namespace, name, image, json!({}))),
                "{namespace}/{name}"
            );
        }
        assert!(!is_operator(&workload(
            "Deployment",
            "n",
            "other",
            "registry.example/other:1",
            json!({})
        )));
        let applied_over = json!({COMPONENT_LABEL: "operator"});
        assert!(is_operator(&workload(
            "Deployment",
            "nmstate",
            OPERATOR,
            "quay.io/nmstate/kubernetes-nmstate-operator",
            applied_over
        )));
    }

    #[test]
    fn an_agent_of_another_namespace_blocks_and_one_of_ours_is_adopted() {
        let agent =
            |namespace: &str| workload("DaemonSet", namespace, AGENT, "x", json!({"app": APP}));
        assert!(is_operator(
            &Settings::default(),
            &agent("openshift-nmstate")
        ));
        assert!(!is_operator(&Settings::default(), &agent("nmstate")));
        let somebody_elses = workload("DaemonSet", "elsewhere", AGENT, "x", json!({}));
        assert!(!is_operator(&Settings::default(), &somebody_elses));
    }

    fn rule(group: &str, resource: &str) -> Value {
        json!({
            "operations": ["*"], "apiGroups": [group], "apiVersions": ["*"], "resources": [resource]
        })
    }

    fn hooks(name: &str, labels: Value, webhook: &str, service: &str, rule: Value) -> Value {
        let service = json!({
            "clientConfig": {"service": {"namespace": "n", "name": service}}, "name": webhook,
            "rules": [rule]
        });
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": name, "labels": labels},
            "webhooks": [{"name": "other.example.com", "rules": []}, service]})
    }

    fn policy(metadata: Value, rule: Value) -> Value {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": metadata,
            "spec": {"matchConstraints": {"resourceRules": [rule]}}})
    }

    #[test]
    fn its_webhooks_are_known_by_their_rules_and_their_owner() {
        let policies = "nodenetworkconfigurationpolicies";
        let its = || json!({"app": APP});
        let package = json!({"olm.owner": "kubernetes-nmstate-operator.v0.86.0"});
        let owner = json!([
            {"apiVersion": "nmstate.io/v1", "kind": "NMState", "name": "nmstate", "uid": "u"}
        ]);
        for (object, expected) in [
            // As it is installed with a prefix, of each release: its group is `*`.
            (
                hooks(
                    "test-nmstate",
                    its(),
                    "x-mutate.nmstate.io",
                    "test-nmstate-webhook",
                    rule("*", policies),
                ),
                true,
            ),
            (
                hooks(
                    "a",
                    json!({}),
                    "x",
                    "test-nmstate-webhook",
                    rule("*", &format!("{policies}/status")),
                ),
                true,
            ),
            (
                hooks(
                    "b",
                    json!({}),
                    "x-mutate.nmstate.io",
                    "s",
                    rule("nmstate.io", "*"),
                ),
                true,
            ),
            (
                hooks("c-8fk2p", package, "x", "s", rule("nmstate.io", "nmstates")),
                true,
            ),
            (
                policy(
                    json!({"name": "d", "ownerReferences": owner}),
                    rule("nmstate.io", policies),
                ),
                true,
            ),
            (
                policy(json!({"name": "e", "labels": its()}), rule("*", policies)),
                true,
            ),
            // It goes when Weft takes over.
            (
                hooks(
                    "nmstate",
                    its(),
                    "x-mutate.nmstate.io",
                    "nmstate-webhook",
                    rule("*", policies),
                ),
                false,
            ),
            // Not its mark, so it would stay.
            (
                hooks(
                    "nmstate",
                    json!({}),
                    "x",
                    "nmstate-webhook",
                    rule("*", policies),
                ),
                true,
            ),
            // Policy engines, and somebody's own rules.
            (
                hooks(
                    "kyverno-resource",
                    json!({}),
                    "validate.kyverno.svc-fail",
                    "kyverno-svc",
                    rule("*", "*/*"),
                ),
                false,
            ),
            (
                hooks(
                    "kyverno-nncp",
                    json!({}),
                    "validate.kyverno.svc-fail",
                    "kyverno-svc",
                    rule("nmstate.io", policies),
                ),
                false,
            ),
            (
                hooks(
                    "gatekeeper",
                    its(),
                    "validation.gatekeeper.sh",
                    "gatekeeper",
                    rule("*", "*"),
                ),
                false,
            ),
            (
                hooks(
                    "f",
                    its(),
                    "x.nmstate.io",
                    "nmstate-webhook",
                    rule("apps", "deployments"),
                ),
                false,
            ),
            (
                policy(json!({"name": "ours"}), rule("nmstate.io", policies)),
                false,
            ),
            (
                hooks(
                    "g",
                    json!({OWNER_LABEL: "x"}),
                    "x.nmstate.io",
                    "nmstate-webhook",
                    rule("nmstate.io", policies),
                ),
                false,
            ),
        ] {
            assert_eq!(
                is_operator(&Settings::default(), &object),
                expected,
                "{object:#}"
            );
        }
    }

    #[test]
    fn weft_does_not_take_itself_for_it() {
        let objects: Vec<Value> = serde_saphyr::from_multiple(include_str!(
            "../../../../deploy/node-network/operator.yaml"
        ))
        .unwrap();
        let deployments: Vec<_> = objects
            .iter()
            .filter(|object| object["kind"] == "Deployment")
            .collect();
        assert_eq!(deployments.len(), 1);
        assert!(!is_operator(&Settings::default(), deployments[0]));
        let policies: Vec<Value> = serde_saphyr::from_multiple(include_str!(
            "../../../../deploy/admission/node-network.yaml"
        ))
        .unwrap();
        assert!(policies.len() >= 4 && !policies.iter().any(is_admission));
    }

    #[test]
    fn its_objects_are_known_by_owner_label_or_manager() {
        let object = |metadata: Value| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata
            })
        };
        let owner = |version: &str| {
            json!({
                "name": "a",
                "ownerReferences": [
                    {"apiVersion": version, "kind": "NMState", "name": "nmstate", "uid": "u"}
                ]
            })
        };
        for (metadata, expected) in [
            (owner("nmstate.io/v1"), true),
            (owner("nmstate.io/v1beta1"), true),
            (owner("example.com/v1"), false),
            (
                json!({"name": "a", "labels": {"app": "kubernetes-nmstate"}}),
                true,
            ),
            (
                json!({
                    "name": "a",
                    "managedFields": [{"manager": "nmstate-operator", "operation": "Apply"}]
                }),
                true,
            ),
            (
                json!({
                    "name": "a", "managedFields": [{"manager": "kubectl", "operation": "Update"}]
                }),
                false,
            ),
        ] {
            assert_eq!(
                made(&Settings::default(), &object(metadata.clone())),
                expected,
                "{metadata}"
            );
        }
    }
}
