//! What the schema cannot say: `serviceNetwork` is a text or a list of texts, so the schema leaves it open, and CEL in a definition does not see
//! it. An admission policy does.

use serde_json::{Value, json};

use super::{GROUP, PLURAL, VERSION};

/// The name of the policy and of its binding.
const NAME: &str = "weft-network-config";

/// The services' blocks as a list.
const SERVICES: &str = "has(object.spec.serviceNetwork) ? (type(object.spec.serviceNetwork) == string ? [object.spec.serviceNetwork] : type(object.spec.serviceNetwork) == list ? object.spec.serviceNetwork : []) : []";

/// The pods' blocks, as texts.
const PODS: &str = "(has(object.spec.clusterNetworks) ? object.spec.clusterNetworks : has(object.spec.clusterNetwork) ? object.spec.clusterNetwork : []).filter(block, has(block.cidr)).map(block, block.cidr)";

/// A `ValidatingAdmissionPolicy` and its binding. Without them all that they refuse is refused by the operator, in status.
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
                {"name": "has-spec", "expression": "has(object.spec)"},
                // What is stored already can still be labelled, and lose its finalizers.
                {
                    "name": "spec-changed",
                    "expression": "oldObject == null || !has(oldObject.spec) || object.spec != oldObject.spec",
                },
            ],
            "variables": [
                {"name": "services", "expression": SERVICES},
                {"name": "pods", "expression": PODS},
                {
                    "name": "external",
                    "expression": "has(object.spec.defaultNetwork) && has(object.spec.defaultNetwork.type) && object.spec.defaultNetwork.type.lowerAscii() == 'none'",
                },
                {
                    "name": "blocks",
                    "expression": "variables.services.filter(block, type(block) == string && isCIDR(block))",
                },
                {"name": "podBlocks", "expression": "variables.pods.filter(block, isCIDR(block))"},
            ],
            "validations": [
                refused(
                    "variables.external || variables.services.size() > 0",
                    "spec.serviceNetwork is missing: write the block of addresses of services, for example 172.30.0.0/16, or a list of one block of each address family",
                ),
                refused(
                    "!has(object.spec.serviceNetwork) || type(object.spec.serviceNetwork) == string || type(object.spec.serviceNetwork) == list",
                    "spec.serviceNetwork must be a text such as 172.30.0.0/16, or a list of one block of each address family",
                ),
                refused(
                    "variables.services.all(block, type(block) == string && isCIDR(block) && cidr(block) == cidr(block).masked())",
                    "spec.serviceNetwork must be a block of addresses in CIDR notation with all host bits zero, for example 172.30.0.0/16, or a list of one of each address family",
                ),
                refused(
                    "variables.services.size() <= 2 && (variables.blocks.size() != 2 || cidr(variables.blocks[0]).ip().family() != cidr(variables.blocks[1]).ip().family())",
                    "spec.serviceNetwork has at most one block of each address family: remove the others",
                ),
                refused(
                    "variables.blocks.size() == 0 || variables.podBlocks.size() == 0 || [4, 6].all(family, variables.blocks.exists(block, cidr(block).ip().family() == family) == variables.podBlocks.exists(block, cidr(block).ip().family() == family))",
                    "spec.serviceNetwork and spec.clusterNetworks must have the same address families: IPv4, IPv6 or both",
                ),
                refused(
                    "variables.blocks.all(one, variables.podBlocks.all(other, cidr(one).ip().family() != cidr(other).ip().family() || !cidr(one).containsCIDR(other) && !cidr(other).containsCIDR(one)))",
                    "spec.serviceNetwork and spec.clusterNetworks must not overlap: choose blocks that have no address in common",
                ),
            ],
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

/// Refuses with `message` unless `expression` holds.
fn refused(expression: &str, message: &str) -> Value {
    json!({"expression": expression, "message": message, "reason": "Invalid"})
}
