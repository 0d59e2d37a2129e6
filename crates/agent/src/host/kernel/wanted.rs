//! The links that a state in nmstate's form names, and its wishes for them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::snapshot::Link;

/// The interfaces that are to be up.
pub fn present(wanted: &Value) -> impl Iterator<Item = &Value> {
    list(&wanted["interfaces"])
        .iter()
        .filter(|interface| interface["state"].as_str().unwrap_or("up") == "up")
}

/// The names of the ports that a bridge lists. `None` if it lists none.
pub fn ports_of(interface: &Value) -> Option<Vec<String>> {
    let bridge = &interface["bridge"];
    let ports = ["port", "ports"]
        .into_iter()
        .find_map(|key| bridge[key].as_array())?;
    Some(
        ports
            .iter()
            .filter_map(|port| text(&port["name"]))
            .collect(),
    )
}

/// The link that an interface names.
pub fn link_of<'a>(links: &'a BTreeMap<u32, Link>, interface: &Value) -> Option<&'a Link> {
    find(links, interface["name"].as_str()?)
}

/// The link of this name.
pub fn find<'a>(links: &'a BTreeMap<u32, Link>, name: &str) -> Option<&'a Link> {
    links.values().find(|link| link.name == name)
}

/// The entries of a list, none if it is no list.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A text that is not empty.
pub fn text(value: &Value) -> Option<String> {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}
