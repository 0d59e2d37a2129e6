//! The fields of a pod that say where it runs, as schemas with the API server's own rules for pods:
//! what it would refuse in a DaemonSet or Deployment is refused where somebody writes it.
//!
//! A definition has no references, so affinity is repeated at each use and in each version. It has
//! no texts for that reason: with them the definition would no longer fit the annotation in which
//! `kubectl apply` keeps what it applied (256 KiB for all annotations). A pattern or an enumeration
//! costs the API server nothing. The limits of lists keep the cost of the rules below its bound,
//! and no user comes near them.

use kube_core::Rule;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::{
    patterns::{DNS_LABEL, LABEL_KEY, LABEL_KEY_LENGTH, LABEL_VALUE},
    rules::{matches, rule, rule_for},
};

/// The form of the key of a label, for people.
const KEY: &str = "up to 63 letters, digits, '-', '_' and '.', a letter or digit at both ends, with or without a DNS name and '/' before it";
/// The rule for the value of a label, for people.
const VALUE: &str = "at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends";

/// Labels that a node must have.
pub(crate) fn labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 256,
        "additionalProperties": {
            "type": "string", "maxLength": 63, "x-kubernetes-validations": label_value()
        },
        "x-kubernetes-validations": label_keys(),
    })
}

/// The name in the key of a label, and the text before it, without the limits of 63 and 253
/// characters. A pattern with such a limit is large, and a rule's pattern is compiled for each value.
const OF_LABEL_KEY: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";

/// The same for the value of a label, whose length the schema limits.
const OF_LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";

/// The text is the key of a label, as an expression.
fn is_label_key(text: &str) -> String {
    // Without a slash, the index is -1.
    format!(
        "{} && {text}.size() - ({text}.indexOf('/') + 1) <= 63 && {text}.indexOf('/') <= 253",
        matches(text, OF_LABEL_KEY)
    )
}

fn label_keys() -> [Rule; 1] {
    let is_key = format!(
        "self.all(key, key.size() <= {LABEL_KEY_LENGTH} && {})",
        is_label_key("key")
    );
    [rule(is_key, format!("keys must be keys of labels: {KEY}"))]
}

/// For the value of a label.
pub(crate) fn label_value() -> [Rule; 1] {
    [rule(
        matches("self", OF_LABEL_VALUE),
        format!("must be the value of a label: {VALUE}"),
    )]
}

/// For the key of an expression, at the expression.
pub(crate) fn expression_key() -> Rule {
    rule_for(
        ".key",
        is_label_key("self.key"),
        format!("must be the key of a label: {KEY}"),
    )
}

/// For the values of an expression about labels, at the expression.
pub(crate) fn expression_values() -> Rule {
    rule_for(
        ".values",
        "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
        "In and NotIn need values, Exists and DoesNotExist have none",
    )
}

/// The affinity of a pod.
pub(crate) fn affinity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "nodeAffinity": node_affinity(), "podAffinity": pod_affinity(),
            "podAntiAffinity": pod_affinity()
        },
    })
}

/// The tolerations of a pod.
pub(crate) fn tolerations(_: &mut SchemaGenerator) -> Schema {
    let item = json!({
        "type": "object",
        "properties": {
            "key": {
                "type": "string", "maxLength": LABEL_KEY_LENGTH,
                "x-kubernetes-validations": toleration_key()
            },
                // Lt and Gt are behind a feature gate of the API server, which answers for it.
                "operator": {"type": "string", "enum": ["", "Equal", "Exists", "Lt", "Gt"]},
                "value": {"type": "string", "maxLength": 63},
                "effect": {
                    "type": "string", "enum": ["", "NoSchedule", "PreferNoSchedule", "NoExecute"]
                },
                "tolerationSeconds": {"type": "integer", "format": "int64"},
            },
        "x-kubernetes-validations": toleration(),
    });
    json_schema!({
        "type": "array", "maxItems": 1024, "x-kubernetes-list-type": "atomic", "items": item
    })
}

fn toleration_key() -> [Rule; 1] {
    [rule(
        format!("self == '' || ({})", is_label_key("self")),
        format!("must be the key of a taint: {KEY}"),
    )]
}

fn toleration() -> [Rule; 5] {
    let operator = "(has(self.operator) ? self.operator : '')";
    let value = "(has(self.value) ? self.value : '')";
    [
        rule_for(
            ".operator",
            format!("{operator} == 'Exists' || (has(self.key) && self.key != '')"),
            "must be Exists where key is empty, which tolerates all taints: set it to Exists, or set key",
        ),
        rule_for(
            ".value",
            format!("{operator} != 'Exists' || {value} == ''"),
            "must be empty where operator is Exists: remove it, or set operator to Equal",
        ),
        rule_for(
            ".value",
            format!(
                "!({operator} in ['', 'Equal']) || {}",
                matches(value, OF_LABEL_VALUE)
            ),
            format!("must be the value of a taint: {VALUE}"),
        ),
        rule_for(
            ".value",
            format!(
                "!({operator} in ['Lt', 'Gt']) || {}",
                matches(value, "^(0|-?[1-9][0-9]{0,18})$")
            ),
            "must be a whole number where operator is Lt or Gt, for example '950'",
        ),
        rule_for(
            ".effect",
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "must be NoExecute where tolerationSeconds is set: set it to that, or remove tolerationSeconds",
        ),
    ]
}

fn node_affinity() -> Value {
    // A preferred term may name values that no label can have.
    let (required, preferred) = (
        node_term(json!({"type": "string", "maxLength": 63, "pattern": LABEL_VALUE})),
        node_term(json!({"type": "string", "maxLength": 253})),
    );
    let mut terms = list(1024, required);
    terms["x-kubernetes-validations"] = json!(node_terms());
    json!({
        "type": "object",
        "properties": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "type": "object",
                "required": ["nodeSelectorTerms"],
                "properties": {"nodeSelectorTerms": terms},
            },
            "preferredDuringSchedulingIgnoredDuringExecution": list(256, weighted("preference", preferred)),
        },
    })
}

fn node_terms() -> [Rule; 1] {
    [rule(
        "self.size() > 0",
        "must have a term: add one with matchExpressions, or remove requiredDuringSchedulingIgnoredDuringExecution",
    )]
}

fn node_term(value: Value) -> Value {
    let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    let mut field = expression(
        json!({"type": "string", "enum": ["metadata.name"]}),
        &["In", "NotIn"],
        name(),
    );
    field["required"] = json!(["key", "operator", "values"]);
    field["properties"]["values"]["minItems"] = json!(1);
    field["properties"]["values"]["maxItems"] = json!(1);
    let mut label = expression(label_key(), &operators, value);
    label["x-kubernetes-validations"] = json!(node_expression());
    json!({
        "type": "object",
        "properties": {"matchExpressions": list(32, label), "matchFields": list(32, field)}
    })
}

fn node_expression() -> [Rule; 2] {
    let count = "(has(self.values) ? self.values.size() : 0)";
    [
        rule_for(
            ".values",
            format!(
                "self.operator in ['Gt', 'Lt'] || (self.operator in ['In', 'NotIn']) == ({count} > 0)"
            ),
            "In and NotIn need values, Exists and DoesNotExist have none",
        ),
        rule_for(
            ".values",
            format!(
                "!(self.operator in ['Gt', 'Lt']) || ({count} == 1 && self.values[0].matches('^[-+]?[0-9]{{1,19}}$'))"
            ),
            "Gt and Lt need one value, a whole number, for example ['4']",
        ),
    ]
}

fn pod_affinity() -> Value {
    json!({
        "type": "object",
        "properties": {
            "requiredDuringSchedulingIgnoredDuringExecution": list(256, pod_term()),
            "preferredDuringSchedulingIgnoredDuringExecution": list(256, weighted("podAffinityTerm", pod_term())),
        },
    })
}

fn pod_term() -> Value {
    json!({
        "type": "object",
        "required": ["topologyKey"],
        "properties": {
            "labelSelector": selector(),
            "namespaceSelector": selector(),
            "namespaces": list(1024, json!({
                "type": "string", "maxLength": 63, "pattern": DNS_LABEL
            })),
            "matchLabelKeys": list(32, label_key()),
            "mismatchLabelKeys": list(32, label_key()),
            "topologyKey": label_key(),
        },
        "x-kubernetes-validations": pod_keys(),
    })
}

fn pod_keys() -> [Rule; 1] {
    let none = |field: &str| format!("!has(self.{field}) || self.{field}.size() == 0");
    [rule_for(
        ".labelSelector",
        format!(
            "has(self.labelSelector) || (({}) && ({}))",
            none("matchLabelKeys"),
            none("mismatchLabelKeys")
        ),
        "is missing, and matchLabelKeys and mismatchLabelKeys need it: add it, or remove them",
    )]
}

/// A selector of pods or namespaces.
fn selector() -> Value {
    let value = || json!({"type": "string", "maxLength": 63, "pattern": LABEL_VALUE});
    let mut label = expression(
        label_key(),
        &["In", "NotIn", "Exists", "DoesNotExist"],
        value(),
    );
    label["x-kubernetes-validations"] = json!([expression_values()]);
    json!({
        "type": "object",
        "properties": {
            "matchLabels": {"type": "object", "additionalProperties": value()},
            "matchExpressions": list(32, label)
        },
    })
}

fn expression(key: Value, operators: &[&str], value: Value) -> Value {
    json!({
        "type": "object",
        "required": ["key", "operator"],
        "properties": {
            "key": key, "operator": {"type": "string", "enum": operators},
            "values": list(1024, value)
        },
    })
}

fn weighted(name: &str, of: Value) -> Value {
    json!({
        "type": "object",
        "required": [name, "weight"],
        "properties": {
            name: of, "weight": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 100}
        },
    })
}

fn label_key() -> Value {
    json!({"type": "string", "maxLength": LABEL_KEY_LENGTH, "pattern": LABEL_KEY})
}

/// The name of a node.
fn name() -> Value {
    json!({"type": "string", "maxLength": 253, "pattern": crate::patterns::OBJECT_NAME})
}

/// A list that has one owner, who replaces it whole.
fn list(limit: usize, items: Value) -> Value {
    json!({"type": "array", "maxItems": limit, "x-kubernetes-list-type": "atomic", "items": items})
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{Affinity, Toleration};
    use schemars::JsonSchema;

    use super::*;
    use crate::schema::{structural, testing::walk};

    /// Path, type and required fields of each node.
    fn form(schema: &Value) -> BTreeMap<String, (Value, Vec<String>)> {
        let mut form = BTreeMap::new();
        walk(schema, "", &mut |path, node| {
            let mut required: Vec<String> =
                serde_json::from_value(node["required"].clone()).unwrap_or_default();
            // A field selector needs values, which the type of Kubernetes cannot say.
            required.retain(|name| !(path.contains("matchFields") && name == "values"));
            required.sort();
            form.insert(path.to_owned(), (node["type"].clone(), required));
        });
        form
    }

    #[test]
    fn the_schemas_have_the_fields_of_kubernetes_and_no_others() {
        fn theirs<T: JsonSchema>() -> BTreeMap<String, (Value, Vec<String>)> {
            form(&structural::<T>())
        }
        let generator = &mut SchemaGenerator::default();
        assert_eq!(form(affinity(generator).as_value()), theirs::<Affinity>());
        assert_eq!(
            form(tolerations(generator).as_value()),
            theirs::<Vec<Toleration>>()
        );
    }
}
