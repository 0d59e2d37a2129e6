//! Which nodes a policy is for.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_core::{Selector, SelectorExt};
use serde_json::Value;

/// The selectors of a policy: a node must match both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    equal: BTreeMap<String, String>,
    /// `None`: it cannot be read, and selects nothing.
    selector: Option<Selector>,
}

impl Selection {
    /// `nodeSelector` and `nodeLabelSelector` of a policy's specification.
    pub fn of(spec: &Value) -> Self {
        let read = |field: &str| Some(&spec[field]).filter(|value| !value.is_null());
        let equal = read("nodeSelector").map_or(Some(BTreeMap::new()), |labels| serde_json::from_value(labels.clone()).ok());
        let selector = match read("nodeLabelSelector") {
            None => Some(Selector::default()),
            Some(selector) => serde_json::from_value::<LabelSelector>(selector.clone()).ok().and_then(|read| read.try_into().ok()),
        };
        Self { selector: selector.filter(|_| equal.is_some()), equal: equal.unwrap_or_default() }
    }

    /// Whether a node with these labels is one of them.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.equal.iter().all(|(name, value)| labels.get(name) == Some(value))
            && self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_selectors_must_match() {
        let labels = BTreeMap::from([("role", "worker"), ("zone", "a")].map(|(name, value)| (name.to_owned(), value.to_owned())));
        for (spec, matches) in [
            (json!({}), true),
            (json!({"nodeSelector": {}}), true),
            (json!({"nodeSelector": {"role": "worker"}}), true),
            (json!({"nodeSelector": {"role": "worker", "zone": "b"}}), false),
            (json!({"nodeLabelSelector": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}}), true),
            (json!({"nodeLabelSelector": {"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["a"]}]}}), true),
            (json!({"nodeLabelSelector": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}), false),
            (json!({"nodeLabelSelector": {"matchLabels": {"zone": "a"}}, "nodeSelector": {"role": "none"}}), false),
            (json!({"nodeLabelSelector": {"matchExpressions": [{"key": "gpu", "operator": "Unheard"}]}}), false),
            (json!({"nodeSelector": "worker"}), false),
        ] {
            assert_eq!(Selection::of(&spec).matches(&labels), matches, "{spec}");
        }
    }
}
