//! The place where a key belongs that stands at a wrong one.

use serde_json::Value;

use crate::{
    nmstate_schema::SCHEMA,
    path::{Path, Step, entries, interface_key, interfaces},
};

/// How deep to search below one place.
const DEPTH: usize = 4;
/// With more places than this, none of them helps.
const MOST: usize = 3;
/// The fields of a policy's `spec`, which stand next to the state.
const OF_POLICIES: [&str; 7] = [
    "capture",
    "match",
    "maxUnavailable",
    "nodeSelector",
    "priority",
    "probes",
    "tolerations",
];

/// The places where the key at the end of this path is known, as words: `ipv4`, `the interface`,
/// `spec of the policy`. Empty if there is none, or too many to help.
pub(crate) fn places(path: &Path, state: &Value) -> Vec<String> {
    let Some((Step::Key(key), parents)) = path.0.split_last() else {
        return Vec::new();
    };
    let mut searches: Vec<Box<dyn Fn() -> Vec<String>>> = Vec::new();
    let roots = match parents {
        [Step::Key(list), Step::Item(item), inside @ ..] if list == "interfaces" => {
            let kind = interfaces(state)
                .iter()
                .find(|interface| interface_key(interface) == *item)
                .and_then(|interface| interface["type"].as_str());
            let of_interface = of_interface(kind);
            let here = inside
                .iter()
                .fold(of_interface.clone(), |nodes, step| below(&nodes, step));
            searches.push(Box::new(move || search(&here, key)));
            if !inside.is_empty() {
                let nodes = of_interface.clone();
                searches.push(Box::new(move || match knows(&nodes, key) {
                    true => vec!["the interface".to_owned()],
                    false => search(&nodes, key),
                }));
            }
            true
        }
        steps => {
            let here = steps
                .iter()
                .fold(vec![&SCHEMA["state"]], |nodes, step| below(&nodes, step));
            searches.push(Box::new(move || search(&here, key)));
            false
        }
    };
    let state_knows = || SCHEMA["state"].get(key.as_str()).is_some();
    let found = searches
        .iter()
        .map(|search| search())
        .find(|found| !found.is_empty());
    match found {
        Some(found) if found.len() <= MOST => found,
        _ if roots && state_knows() => vec!["desiredState, next to interfaces".to_owned()],
        _ if OF_POLICIES.contains(&key.as_str()) => vec!["spec of the policy".to_owned()],
        _ => Vec::new(),
    }
}

/// The sections of an interface of this type, or of all types.
fn of_interface(kind: Option<&str>) -> Vec<&'static Value> {
    let types = SCHEMA["types"].as_object().into_iter().flatten();
    let types = types
        .filter(|(name, _)| kind.is_none_or(|kind| kind == *name))
        .map(|(_, sections)| sections);
    std::iter::once(&SCHEMA["interface"]).chain(types).collect()
}

/// The nodes at this step below others.
fn below<'a>(nodes: &[&'a Value], step: &Step) -> Vec<&'a Value> {
    let all = nodes.iter().flat_map(|node| objects(node));
    match step {
        Step::Key(key) => all.filter_map(|keys| keys.get(key)).collect(),
        // Lists are no places of their own, see `objects`.
        Step::Item(_) => nodes.to_vec(),
    }
}

/// The keys of a node, also of the entries of a list and of each alternative. The nodes at the top
/// are keys themselves.
fn objects(node: &Value) -> Vec<&Value> {
    if node["keys"].is_object() {
        vec![&node["keys"]]
    } else if !node["list"].is_null() {
        objects(&node["list"])
    } else if !node["any of"].is_null() {
        entries(&node["any of"]).iter().flat_map(objects).collect()
    } else if node["one of"].is_null() && node.is_object() {
        vec![node]
    } else {
        Vec::new()
    }
}

fn knows(nodes: &[&Value], key: &str) -> bool {
    let mut all = nodes.iter().flat_map(|node| objects(node));
    all.any(|keys| keys.get(key).is_some())
}

/// The nearest places below these nodes that know a key, by their paths.
fn search(nodes: &[&Value], key: &str) -> Vec<String> {
    let mut level: Vec<(String, &Value)> = nodes
        .iter()
        .flat_map(|node| objects(node))
        .map(|keys| (String::new(), keys))
        .collect();
    for _ in 0..DEPTH {
        let next = level.iter().flat_map(|(path, keys)| {
            let keys = keys.as_object().into_iter().flatten();
            // A report has this next to the configuration.
            let keys = keys.filter(|(name, _)| *name != "running");
            keys.flat_map(move |(name, node)| {
                let path = match path.as_str() {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                objects(node)
                    .into_iter()
                    .map(move |keys| (path.clone(), keys))
            })
        });
        level = next.collect();
        let mut found: Vec<String> = level
            .iter()
            .filter(|(_, keys)| keys.get(key).is_some())
            .map(|(path, _)| format!("`{path}`"))
            .collect();
        found.sort();
        found.dedup();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::schema::mistakes;

    use super::*;

    fn said(state: Value) -> String {
        let found: Vec<_> = mistakes(&state).iter().map(ToString::to_string).collect();
        found.join("; ")
    }

    #[test]
    fn a_key_at_a_wrong_place_is_answered_with_the_right_one() {
        let interface = |kind: &str, more: Value| {
            let mut interface = json!({"name": "x1", "type": kind, "state": "up"});
            for (key, value) in more.as_object().into_iter().flatten() {
                interface[key] = value.clone();
            }
            json!({"interfaces": [interface]})
        };
        let port = |more: Value| interface("linux-bridge", json!({"bridge": {"port": [more]}}));
        for (state, place) in [
            (
                interface("ethernet", json!({"dhcp": true})),
                "`ipv4` or `ipv6`",
            ),
            (
                interface("ethernet", json!({"prefix-length": 24})),
                "`ipv4.address` or `ipv6.address`",
            ),
            (interface("vrf", json!({"route-table-id": 100})), "`vrf`"),
            (
                interface("ethernet", json!({"ipv4": {"enabled": true, "mtu": 1500}})),
                "the interface",
            ),
            (
                interface("ethernet", json!({"dns-resolver": {}})),
                "desiredState, next to interfaces",
            ),
            (
                port(json!({"name": "eth1", "match": {}})),
                "spec of the policy",
            ),
            (json!({"server": ["192.0.2.1"]}), "`dns-resolver.config`"),
        ] {
            let said = said(state.clone());
            assert!(
                said.ends_with(&format!("; it belongs into {place}")),
                "{state}: {said}"
            );
        }
        let said = said(port(json!({"name": "eth1", "vlan": {"id": 5}})));
        assert!(said.contains("did you mean `tag`?"), "{said}");
    }

    #[test]
    fn a_key_that_nobody_knows_has_no_place() {
        let state = json!({"interfaces": [{"name": "x1", "type": "ethernet", "nowhere": 1}]});
        assert!(!said(state.clone()).contains("belongs"), "{}", said(state));
    }
}
