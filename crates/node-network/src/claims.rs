//! The claims of policies: the wanted value of each property of a node. Sets can be united in any
//! order and any grouping, so the order in which policies are read never matters.

use crate::{
    canonical::{canonical, same_order},
    path::{Path, Step, interface_key, text},
    route,
};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The owner of a wanted property.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A policy, by name.
    Policy(String),
    /// The node's own `spec.desiredState`.
    Node,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(name) => write!(f, "policy {name}"),
            Self::Node => f.write_str("the NodeNetworkState's spec"),
        }
    }
}

/// How strong a claim is: a higher priority overrides a lower one, and the node's own specification
/// everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A policy's priority, 0 by default.
    Policy(i64),
    /// The node's own specification.
    Node,
}

/// The wishes of one owner for a node, in nmstate's terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The owner of these wishes.
    pub owner: Owner,
    /// Rank of the claim.
    pub rank: Rank,
    /// A complete desired state, without captures and early spellings.
    pub state: Value,
}

/// All that is claimed of one place.
pub(crate) type Place = BTreeMap<Rank, BTreeMap<Owner, Value>>;

/// The wishes of all owners, place by place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Claims(pub(crate) BTreeMap<Path, Place>);

impl Claims {
    /// Returns the claims of one owner.
    pub(crate) fn of(layer: &Layer) -> Self {
        let mut claims = Self::default();
        flatten(&Path::default(), &layer.state, &mut |path, value| {
            claims
                .0
                .entry(path)
                .or_default()
                .entry(layer.rank)
                .or_default()
                .insert(layer.owner.clone(), value);
        });
        claims
    }

    /// Returns the claims of both.
    #[must_use]
    pub(crate) fn join(mut self, other: Self) -> Self {
        for (path, place) in other.0 {
            let known = self.0.entry(path).or_default();
            for (rank, owners) in place {
                known.entry(rank).or_default().extend(owners);
            }
        }
        self
    }
}

/// The lists whose entries are merged one by one, each with what identifies an entry. Any other
/// list is one value: what a policy says of addresses or ports is the whole of them.
fn key_of(path: &Path) -> Option<fn(&Value) -> String> {
    let keys: Vec<&str> = path
        .0
        .iter()
        .map(|step| {
            if let Step::Key(key) = step {
                key.as_str()
            } else {
                ""
            }
        })
        .collect();
    match keys.as_slice() {
        ["interfaces"] => Some(|interface| interface_key(interface).into_owned()),
        ["routes", "config"] => Some(route::key),
        ["route-rules", "config"] => Some(route::rule_key),
        ["ovn", "bridge-mappings"] => Some(|mapping| text(&mapping["localnet"])),
        _ => None,
    }
}

/// Calls `leaf` for each value that is not taken apart: scalars, lists without keys, and empty
/// objects.
fn flatten(path: &Path, value: &Value, leaf: &mut impl FnMut(Path, Value)) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            // Reports and remarks are not part of what is wanted.
            let ignored = |key: &str| {
                path.0.is_empty() && key == "description"
                    || path.0.len() == 1 && key == "running" && !is_hostname(path)
            };
            for (key, value) in map.iter().filter(|(key, _)| !ignored(key)) {
                flatten(&path.key(key), value, leaf);
            }
            // nmstate takes an interface of which no state is said as up.
            if path.0.len() == 2
                && path.interface().is_some()
                && map.get("state").is_none_or(Value::is_null)
            {
                leaf(path.key("state"), Value::String("up".to_owned()));
            }
        }
        Value::Array(list) if key_of(path).is_some() => {
            let Some(key) = key_of(path) else { return };
            for entry in list {
                flatten(&path.item(&key(entry)), entry, leaf);
            }
        }
        other => leaf(path.clone(), other.clone()),
    }
}

fn is_hostname(path: &Path) -> bool {
    path.0.first() == Some(&Step::Key("hostname".to_owned()))
}

/// Reports whether two claims of a place agree. The order of name servers and search domains means
/// something.
pub(crate) fn agree(path: &Path, left: &Value, right: &Value) -> bool {
    match path.0.first() {
        Some(Step::Key(key)) if key == "dns-resolver" => same_order(left, right),
        _ => canonical(left) == canonical(right),
    }
}

/// The state that has these values in these places, which come in the order of paths.
pub(crate) fn unflatten<'a>(leaves: impl IntoIterator<Item = (&'a Path, &'a Value)>) -> Value {
    #[derive(Default)]
    struct Node<'a> {
        value: Option<&'a Value>,
        keys: Vec<(&'a str, Node<'a>)>,
        items: Vec<(&'a str, Node<'a>)>,
    }
    impl<'a> Node<'a> {
        fn below(&mut self, step: &'a Step) -> &mut Self {
            let (list, name) = match step {
                Step::Key(key) => (&mut self.keys, key),
                Step::Item(item) => (&mut self.items, item),
            };
            // All that is below one step comes in a row.
            if list.last().is_none_or(|(known, _)| known != name) {
                list.push((name, Node::default()));
            }
            let last = list.len() - 1;
            &mut list[last].1
        }

        fn build(self) -> Value {
            if !self.items.is_empty() {
                return Value::Array(
                    self.items
                        .into_iter()
                        .map(|(_, node)| node.build())
                        .collect(),
                );
            }
            if !self.keys.is_empty() {
                return Value::Object(
                    self.keys
                        .into_iter()
                        .map(|(key, node)| (key.to_owned(), node.build()))
                        .collect(),
                );
            }
            self.value
                .cloned()
                .unwrap_or_else(|| Value::Object(Map::new()))
        }
    }
    let mut root = Node::default();
    for (path, value) in leaves {
        path.0.iter().fold(&mut root, Node::below).value = Some(value);
    }
    in_order(root.build())
}

/// Name, type and state of an interface first, as nmstate writes them.
fn in_order(mut state: Value) -> Value {
    for interface in state
        .get_mut("interfaces")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let Some(map) = interface.as_object_mut() else {
            continue;
        };
        let rest = std::mem::take(map);
        let rank = |key: &str| {
            ["name", "type", "state"]
                .iter()
                .position(|first| *first == key)
                .unwrap_or(3)
        };
        let mut rest: Vec<_> = rest.into_iter().collect();
        rest.sort_by_key(|(key, _)| rank(key));
        map.extend(rest);
    }
    state
}

/// All who claim something of a place with one rank.
pub(crate) fn owners_of(place: &BTreeMap<Owner, Value>) -> BTreeSet<Owner> {
    place.keys().cloned().collect()
}

/// The strongest claims of a place.
pub(crate) fn strongest(place: &Place) -> Option<(Rank, &BTreeMap<Owner, Value>)> {
    place.last_key_value().map(|(rank, owners)| (*rank, owners))
}
