//! What the schema cannot say: CEL in a definition does not see the namespace of the object. An admission policy does.

use serde_json::{Value, json};

use super::{GROUP, PLURAL, VERSION};

/// The name of the policy and of its binding.
const NAME: &str = "weft-placement";

/// A `ValidatingAdmissionPolicy` and its binding. Without them the operator refuses the same, in status.
pub fn admission() -> Vec<Value> {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            // An expression that cannot be evaluated refuses nothing: the operator looks once more.
            "failurePolicy": "Ignore",
            "matchConstraints": {
                "resourceRules": [{
                    "apiGroups": [GROUP],
                    "apiVersions": [VERSION],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [PLURAL],
                }],
            },
            "matchConditions": [
                {
                    "name": "names-a-namespace",
                    "expression": "has(object.spec) && has(object.spec.topologyRef) && has(object.spec.topologyRef.namespace) && object.spec.topologyRef.namespace != ''",
                },
                // What is stored already can still be labelled, and lose its finalizers.
                {
                    "name": "spec-changed",
                    "expression": "oldObject == null || !has(oldObject.spec) || object.spec != oldObject.spec",
                },
            ],
            "validations": [{
                "expression": "object.spec.topologyRef.namespace == object.metadata.namespace",
                "message": "spec.topologyRef.namespace: Customizing namespace field is not supported: remove it, the Topology is looked for in the namespace of the PlacementAPI",
                "reason": "Invalid",
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": NAME},
        "spec": {"policyName": NAME, "validationActions": ["Deny"]},
    });
    vec![policy, binding]
}
