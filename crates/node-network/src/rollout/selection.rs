//! Which nodes a policy is for.

use std::collections::BTreeMap;

use serde_json::Value;
use weft_api::node_network::NodeNetworkConfigurationPolicySpec;

use crate::select::selects;

/// The selectors of a policy. `None` if they cannot be read, and select nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Selection(Option<Box<NodeNetworkConfigurationPolicySpec>>);

impl Selection {
    /// `nodeSelector` and `nodeLabelSelector` of a policy's specification, and nothing else of it.
    pub(super) fn of(spec: &Value) -> Self {
        let selectors: Value = ["nodeSelector", "nodeLabelSelector"]
            .iter()
            .map(|field| ((*field).to_owned(), spec[*field].clone()))
            .collect();
        Self(serde_json::from_value(selectors).ok())
    }

    /// Reports whether a node with these labels is one of them.
    pub(super) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.as_ref().is_some_and(|spec| selects(spec, labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_selectors_must_match() {
        let labels = BTreeMap::from(
            [("role", "worker"), ("zone", "a")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        for (spec, matches) in [
            (json!({}), true),
            (json!({"nodeSelector": {}}), true),
            (json!({"nodeSelector": {"role": "worker"}}), true),
            (
                json!({"nodeSelector": {"role": "worker", "zone": "b"}}),
                false,
            ),
            (
                json!({
                    "nodeLabelSelector": {
                        "matchExpressions": [
                            {"key": "zone", "operator": "In", "values": ["a", "b"]}
                        ]
                    }
                }),
                true,
            ),
            (
                json!({
                    "nodeLabelSelector": {
                        "matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["a"]}]
                    }
                }),
                true,
            ),
            (
                json!({
                    "nodeLabelSelector": {
                        "matchExpressions": [{"key": "gpu", "operator": "Exists"}]
                    }
                }),
                false,
            ),
            (
                json!({
                    "nodeLabelSelector": {"matchLabels": {"zone": "a"}},
                    "nodeSelector": {"role": "none"}
                }),
                false,
            ),
            (
                json!({
                    "nodeLabelSelector": {
                        "matchExpressions": [{"key": "gpu", "operator": "Unheard"}]
                    }
                }),
                false,
            ),
            (json!({"nodeSelector": "worker"}), false),
        ] {
            assert_eq!(Selection::of(&spec).matches(&labels), matches, "{spec}");
        }
    }
}
