//! The values of a node that the desired state of a policy refers to: the operator grants them, and
//! `weft plan` fills them in by the same rules.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weft_api::node_network::{NodeValues, PoolAddress};

use crate::template::{self, Fact};

/// The reason of a node that lacks a label or an annotation.
pub(crate) const VALUE: &str = "WaitingForValue";
/// The reason of a node that lacks an address of a pool.
pub(crate) const ADDRESS: &str = "WaitingForAddress";

/// The longest annotation that is a value, in bytes. Annotations hold whole documents, and the
/// operator keeps those of all nodes in memory.
const LONGEST: usize = 256;

/// Returns the annotations of an object that can be values.
pub(crate) fn annotations(object: &Value) -> BTreeMap<String, String> {
    let all = object["metadata"]["annotations"].as_object();
    all.into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .filter(|(_, value)| value.len() <= LONGEST)
        .collect()
}

/// The values that a desired state refers to, each with the first field that does so.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct References(BTreeMap<Fact, String>);

/// The metadata of a node that values come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: &'a BTreeMap<String, String>,
    pub(crate) annotations: &'a BTreeMap<String, String>,
    /// Its addresses for the policy, by pool.
    pub(crate) addresses: &'a BTreeMap<String, PoolAddress>,
}

/// The values that a node lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    /// The reason, for a condition: that of a label or an annotation, if there is one.
    pub(crate) reason: &'static str,
    /// The fields and their values.
    pub(crate) message: String,
}

impl References {
    /// Reads a desired state. References that cannot be read are left out.
    pub(crate) fn of(desired: &Value) -> Self {
        Self(template::facts(desired))
    }

    /// Returns true if a label or an annotation of the node is referred to.
    pub(crate) fn is_of_metadata(&self) -> bool {
        let is = |fact: &Fact| matches!(fact, Fact::Label(_) | Fact::Annotation(_));
        self.0.keys().any(is)
    }

    /// Returns the pools that are referred to.
    pub(crate) fn pools(&self) -> BTreeSet<&str> {
        self.0.keys().filter_map(Fact::pool).collect()
    }

    /// Returns true if nothing of the node is referred to.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the values of a node. An error names each field whose value the node lacks.
    pub(crate) fn of_node(&self, node: Source) -> Result<NodeValues, Lack> {
        let mut values = NodeValues::default();
        let (mut missing, mut reason) = (Vec::new(), ADDRESS);
        for (fact, field) in &self.0 {
            let (word, command, key, from, to) = match fact {
                Fact::Name => {
                    values.name = Some(node.name.to_owned());
                    continue;
                }
                Fact::Label(key) => ("label", "label", key, node.labels, &mut values.labels),
                Fact::Annotation(key) => (
                    "annotation",
                    "annotate",
                    key,
                    node.annotations,
                    &mut values.annotations,
                ),
                Fact::Ip(pool) | Fact::PrefixLength(pool) => {
                    match node.addresses.get(pool) {
                        Some(address) => {
                            drop(values.pools.insert(pool.clone(), address.clone()));
                        }
                        None => missing.push(format!(
                            "spec.{field}: {{{{ {fact} }}}} has no value, because the node {} has no address of the pool {pool} yet: the operator gives it one",
                            node.name
                        )),
                    }
                    continue;
                }
            };
            match from.get(key) {
                Some(value) => drop(to.insert(key.clone(), value.clone())),
                None => {
                    reason = VALUE;
                    let limit = match fact {
                        Fact::Annotation(_) => format!(" of at most {LONGEST} bytes"),
                        _ => String::new(),
                    };
                    missing.push(format!(
                    "spec.{field}: {{{{ {fact} }}}} has no value, because the node {} has no {word} {key}{limit}: set it with kubectl {command} node {} {key}=VALUE, or exclude the node with spec.nodeSelector",
                    node.name, node.name
                ))
                }
            }
        }
        match missing.is_empty() {
            true => Ok(values),
            false => Err(Lack {
                reason,
                message: missing.join("; "),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of_node(desired: Value) -> Result<NodeValues, Lack> {
        let map = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        References::of(&desired).of_node(Source {
            name: "node-1",
            labels: &map("rack", "r1"),
            annotations: &map("example.com/ip", "192.0.2.7"),
            addresses: &BTreeMap::new(),
        })
    }

    #[test]
    fn only_values_that_are_referred_to_are_granted() {
        assert_eq!(of_node(json!({})), Ok(NodeValues::default()));
        let desired = json!({"hostname": {"config": "{{ node.name }}-{{ node.labels['rack'] }}"}});
        assert_eq!(
            serde_json::to_value(of_node(desired).unwrap()).unwrap(),
            json!({"name": "node-1", "labels": {"rack": "r1"}})
        );
    }

    #[test]
    fn a_document_in_an_annotation_is_no_value() {
        let object = json!({"metadata": {"annotations": {
            "ip": "192.0.2.7", "edge": "x".repeat(LONGEST), "document": "x".repeat(LONGEST + 1)
        }}});
        let keys: Vec<_> = annotations(&object).into_keys().collect();
        assert_eq!(keys, ["edge", "ip"]);
        assert_eq!(annotations(&json!({})), BTreeMap::new());
    }

    #[test]
    fn a_missing_value_names_field_node_and_fix() {
        let desired = json!({
            "hostname": {"config": "{{ node.labels['zone'] }}"},
            "dns-resolver": {"config": {"search": ["{{ node.annotations['example.com/search'] }}"]}},
        });
        assert_eq!(
            of_node(desired).unwrap_err().message,
            "spec.desiredState.hostname.config: {{ node.labels[\"zone\"] }} has no value, because the node node-1 has no label zone: set it with kubectl label node node-1 zone=VALUE, or exclude the node with spec.nodeSelector; spec.desiredState.dns-resolver.config.search[0]: {{ node.annotations[\"example.com/search\"] }} has no value, because the node node-1 has no annotation example.com/search of at most 256 bytes: set it with kubectl annotate node node-1 example.com/search=VALUE, or exclude the node with spec.nodeSelector"
        );
    }
}
