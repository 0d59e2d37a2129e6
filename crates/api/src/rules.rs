//! Common properties of the CEL rules of all schemas.
//!
//! `kubectl apply` itself refuses a configuration that can never work. No webhook is needed. Three
//! things hold for every rule:
//!
//! - **CEL of Kubernetes 1.33**, the oldest version that Weft runs on.
//! - **It stands as low in the schema as it can.** A rule is not enforced on an update that leaves
//!   its part of the object as it was (CRDValidationRatcheting, on since 1.30), so an old object
//!   that breaks a rule can still be changed elsewhere.
//! - **It does not fail to evaluate**, whatever the object holds: such a failure is refused on
//!   every update, and its message is not ours. Hence the `has(...)` and `matches(...)` in front of
//!   what needs them.
//!
//! An empty text means "not given", as it does for the operators that first served these APIs:
//! clients written in Go send one for a field that they leave out.

use kube_core::Rule;

/// Refuses with `message` unless `expression` holds.
pub(crate) fn rule(expression: impl Into<String>, message: impl AsRef<str>) -> Rule {
    Rule::new(expression).message(message.as_ref())
}

/// The same, about a field below the one that the rule stands at.
pub(crate) fn rule_for(
    field: &str,
    expression: impl Into<String>,
    message: impl AsRef<str>,
) -> Rule {
    rule(expression, message).field_path(field)
}

/// The text matches, as an expression.
pub(crate) fn matches(text: &str, pattern: &str) -> String {
    format!("{text}.matches('{}')", pattern.replace('\\', "\\\\"))
}

/// The text that the rule stands at is empty or matches, as an expression.
pub(crate) fn empty_or(pattern: &str) -> String {
    format!("self == '' || {}", matches("self", pattern))
}
