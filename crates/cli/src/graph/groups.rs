//! Nodes that look alike, so that people see them as one.

use std::{cmp::Reverse, collections::BTreeMap};

use serde_json::json;
use weft_node_network::graph::model::{Fact, Kind, LinkKind, NodeGraph};

/// Returns the positions of equal nodes, the groups in trouble first.
///
/// Equal nodes have the same interfaces with the same properties and links, and the same policies
/// in the same state. Addresses, switch ports, routes and pods are a node's own.
pub(super) fn groups(graphs: &[NodeGraph]) -> Vec<Vec<usize>> {
    let mut alike: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, graph) in graphs.iter().enumerate() {
        alike.entry(form(graph)).or_default().push(index);
    }
    let mut groups: Vec<Vec<usize>> = alike.into_values().collect();
    let first = |group: &Vec<usize>| group.first().copied().unwrap_or_default();
    groups.sort_by_key(|group| {
        let index = first(group);
        (Reverse(graphs.get(index).map(|graph| graph.health)), index)
    });
    groups
}

/// Everything by which nodes are compared, as a text.
fn form(graph: &NodeGraph) -> String {
    let is_own = |fact: &&Fact| !matches!(fact.label, "MAC" | "address");
    let mut interfaces: Vec<_> = graph
        .parts
        .iter()
        .filter(|part| part.kind == Kind::Interface)
        .map(|part| {
            let facts: Vec<&Fact> = part.facts.iter().filter(is_own).collect();
            json!([
                part.id,
                part.type_name,
                facts,
                part.policies,
                part.health,
                part.change,
                part.messages
            ])
        })
        .map(|interface| interface.to_string())
        .collect();
    interfaces.sort();
    let links: Vec<_> = graph
        .links
        .iter()
        .filter(|link| matches!(link.kind, LinkKind::Port | LinkKind::Base | LinkKind::Peer))
        .collect();
    json!([
        graph.health,
        graph.policies,
        graph.messages,
        interfaces,
        links
    ])
    .to_string()
}
