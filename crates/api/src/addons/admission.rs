//! Warnings at `kubectl apply` about what is accepted but better written otherwise.

use serde_json::{Value, json};

use super::{GROUP, PLURAL, VERSION, VERSION_V1ALPHA1};

/// The name of the policy and of its binding.
const NAME: &str = "weft-network-addons-config-hints";

/// A `ValidatingAdmissionPolicy` and its binding. They only warn: nothing is refused, and without them everything works as well.
///
/// A warning comes when the specification changes, so that writes of others (labels, finalizers) stay quiet.
pub fn admission() -> Vec<Value> {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Ignore",
            "matchConstraints": {
                "resourceRules": [{
                    "apiGroups": [GROUP],
                    "apiVersions": [VERSION, VERSION_V1ALPHA1],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [PLURAL],
                }],
            },
            "matchConditions": [
                {"name": "has-spec", "expression": "has(object.spec)"},
                {
                    "name": "spec-changed",
                    "expression": "oldObject == null || !has(oldObject.spec) || object.spec != oldObject.spec",
                },
            ],
            "validations": [
                hint(
                    "!has(object.spec.kubeSecondaryDNS) || !has(object.spec.kubeSecondaryDNS.DOMAIN)",
                    "spec.kubeSecondaryDNS.DOMAIN is understood, but the field is called domain: please write domain",
                ),
                hint(
                    "!has(object.spec.kubeSecondaryDNS) || !has(object.spec.kubeSecondaryDNS.NAME_SERVER_IP)",
                    "spec.kubeSecondaryDNS.NAME_SERVER_IP is understood, but the field is called nameServerIP: please write nameServerIP",
                ),
            ],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME, "validationActions": ["Warn"]},
    });
    vec![policy, binding]
}

/// Says `message` unless `expression` holds.
fn hint(expression: &str, message: &str) -> Value {
    json!({"expression": expression, "message": message})
}
