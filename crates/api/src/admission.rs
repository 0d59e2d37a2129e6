//! `ValidatingAdmissionPolicy`s: what a schema cannot say, said by the API server itself.

use serde_json::{Value, json};

/// A policy about what people write into the specification of a kind.
///
/// Without it everything works as well: the operator says the same in status. So an expression that cannot be evaluated refuses nothing, and what is
/// stored already can still be labelled, and lose its finalizers: only a specification that changes is judged.
pub(crate) struct SpecificationPolicy<'a> {
    /// The name of the policy and of its binding.
    pub name: &'a str,
    /// The group of the kind.
    pub group: &'a str,
    /// The versions in which it is served.
    pub versions: &'a [&'a str],
    /// Its name in URLs.
    pub plural: &'a str,
    /// What must hold for the policy to look at an object: a name and an expression.
    pub when: (&'a str, &'a str),
    /// What the validations share: names and expressions.
    pub variables: &'a [(&'a str, &'a str)],
    /// See [`refused`].
    pub validations: Vec<Value>,
    /// What becomes of an object that a validation finds fault with: `Deny`, or `Warn`, which tells the user and lets it pass.
    pub action: &'a str,
}

impl SpecificationPolicy<'_> {
    /// The policy and its binding.
    pub(crate) fn objects(self) -> [Value; 2] {
        let named = |&(name, expression): &(&str, &str)| json!({"name": name, "expression": expression});
        let changed = ("spec-changed", "oldObject == null || !has(oldObject.spec) || object.spec != oldObject.spec");
        let mut spec = json!({
            "failurePolicy": "Ignore",
            "matchConstraints": {
                "resourceRules": [{
                    "apiGroups": [self.group],
                    "apiVersions": self.versions,
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [self.plural],
                }],
            },
            "matchConditions": [named(&self.when), named(&changed)],
            "validations": self.validations,
        });
        if !self.variables.is_empty() {
            spec["variables"] = self.variables.iter().map(named).collect();
        }
        policy(self.name, &spec, self.action)
    }
}

/// A policy of this name and specification, and the binding by which it counts.
pub(crate) fn policy(name: &str, spec: &Value, action: &str) -> [Value; 2] {
    let object = |kind: &str, spec: &Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    [
        object("ValidatingAdmissionPolicy", spec),
        object("ValidatingAdmissionPolicyBinding", &json!({"policyName": name, "validationActions": [action]})),
    ]
}

/// Finds fault, with `message`, unless `expression` holds. The reason is `Invalid`, unless somebody lacks a right.
pub(crate) fn refused(expression: &str, message: &str) -> Value {
    json!({"expression": expression, "message": message, "reason": "Invalid"})
}
