//! Which nodes a policy is for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::labels::{Selector, SelectorExt};
use std::collections::BTreeMap;
use weft_api::node_network::NodeNetworkConfigurationPolicySpec as Spec;

/// Why a policy is not for a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unselected {
    /// A label of `spec.nodeSelector` that the node has not, or with another value.
    #[error("spec.nodeSelector wants the label {key}={wanted}, and the node has {}", found.as_ref().map_or("no such label".to_owned(), |found| format!("{key}={found}")))]
    Label {
        /// The label.
        key: String,
        /// The value that it must have.
        wanted: String,
        /// The value that it has.
        found: Option<String>,
    },
    /// An expression of `spec.nodeLabelSelector` that does not hold.
    #[error("spec.nodeLabelSelector wants {0}, which does not hold for the node's labels")]
    Expression(String),
    /// A selector that cannot be read. It selects no node.
    #[error("spec.nodeLabelSelector: {0}")]
    Invalid(String),
}

/// Reports whether a node with these labels is selected: by all of `nodeSelector` and all of
/// `nodeLabelSelector`. Without either, every node is.
pub(crate) fn selects(spec: &Spec, labels: &BTreeMap<String, String>) -> bool {
    select(spec, labels).is_ok()
}

/// Like [`selects`], with the first reason against it.
pub(crate) fn select(spec: &Spec, labels: &BTreeMap<String, String>) -> Result<(), Unselected> {
    for (key, wanted) in spec.node_selector.iter().flatten() {
        let found = labels.get(key);
        if found != Some(wanted) {
            return Err(Unselected::Label {
                key: key.clone(),
                wanted: wanted.clone(),
                found: found.cloned(),
            });
        }
    }
    let Some(selector) = &spec.node_label_selector else {
        return Ok(());
    };
    for requirement in requirements(selector) {
        let selector = Selector::try_from(requirement.clone())
            .map_err(|error| Unselected::Invalid(error.to_string()))?;
        if !selector.matches(labels) {
            return Err(Unselected::Expression(selector.to_string()));
        }
    }
    Ok(())
}

/// One selector for each thing it demands, so that the one that does not hold can be named.
fn requirements(selector: &LabelSelector) -> impl Iterator<Item = LabelSelector> {
    let labels = selector
        .match_labels
        .iter()
        .flatten()
        .map(|(key, value)| LabelSelector {
            match_labels: Some(BTreeMap::from([(key.clone(), value.clone())])),
            match_expressions: None,
        });
    let expressions = selector.match_expressions.iter().flatten();
    let expressions = expressions.map(|expression| LabelSelector {
        match_labels: None,
        match_expressions: Some(vec![expression.clone()]),
    });
    labels.chain(expressions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(spec: Value) -> Spec {
        serde_json::from_value(spec).unwrap()
    }

    fn labels() -> BTreeMap<String, String> {
        serde_json::from_value(json!({
            "kubernetes.io/os": "linux", "rack": "r1", "node-role.kubernetes.io/worker": ""
        }))
        .unwrap()
    }

    #[test]
    fn a_policy_without_selector_is_for_every_node() {
        assert!(selects(&Spec::default(), &BTreeMap::new()));
        assert!(selects(
            &spec(json!({"nodeSelector": {}, "nodeLabelSelector": {}})),
            &labels()
        ));
    }

    #[test]
    fn all_of_both_selectors_must_hold() {
        for (selector, selected) in [
            (
                json!({"nodeSelector": {"rack": "r1", "node-role.kubernetes.io/worker": ""}}),
                true,
            ),
            (json!({"nodeSelector": {"rack": "r2"}}), false),
            (json!({"nodeSelector": {"zone": "a"}}), false),
            (
                json!({"nodeLabelSelector": {"matchLabels": {"rack": "r1"}}}),
                true,
            ),
            (
                json!({
                    "nodeLabelSelector": {
                        "matchExpressions": [
                            {"key": "rack", "operator": "In", "values": ["r1", "r2"]}
                        ]
                    }
                }),
                true,
            ),
            (
                json!({
                    "nodeLabelSelector": {
                        "matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["r1"]}]
                    }
                }),
                false,
            ),
            (
                json!({
                    "nodeLabelSelector": {
                        "matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]
                    }
                }),
                true,
            ),
            (
                json!({
                    "nodeLabelSelector": {
                        "matchExpressions": [
                            {"key": "node-role.kubernetes.io/worker", "operator": "Exists"}
                        ]
                    }
                }),
                true,
            ),
            (
                json!({
                    "nodeLabelSelector": {
                        "matchExpressions": [{"key": "rack", "operator": "DoesNotExist"}]
                    }
                }),
                false,
            ),
            (
                json!({
                    "nodeSelector": {"rack": "r1"},
                    "nodeLabelSelector": {"matchLabels": {"rack": "r2"}}
                }),
                false,
            ),
        ] {
            assert_eq!(
                selects(&spec(selector.clone()), &labels()),
                selected,
                "{selector}"
            );
        }
    }

    #[test]
    fn the_reason_is_the_first_that_does_not_hold() {
        let reason = |selector: Value| select(&spec(selector), &labels()).unwrap_err().to_string();
        assert_eq!(
            reason(json!({"nodeSelector": {"rack": "r2"}})),
            "spec.nodeSelector wants the label rack=r2, and the node has rack=r1"
        );
        assert_eq!(
            reason(json!({"nodeSelector": {"zone": "a"}})),
            "spec.nodeSelector wants the label zone=a, and the node has no such label"
        );
        let expressions = json!([
            {"key": "rack", "operator": "Exists"},
            {"key": "rack", "operator": "In", "values": ["r2", "r3"]}
        ]);
        let reason_of = reason(json!({"nodeLabelSelector": {"matchExpressions": expressions}}));
        assert_eq!(
            reason_of,
            "spec.nodeLabelSelector wants rack in (r2,r3), which does not hold for the node's labels"
        );
        let unknown = json!({
            "nodeLabelSelector": {
                "matchExpressions": [{"key": "rack", "operator": "Near", "values": ["r1"]}]
            }
        });
        assert!(matches!(
            select(&spec(unknown), &labels()),
            Err(Unselected::Invalid(_))
        ));
    }
}
