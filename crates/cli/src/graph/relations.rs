//! The links of a part in words, for people who look at this part alone.

use weft_node_network::graph::model::{Link, LinkKind, NodeGraph, Part};

/// Each sort of link: true if the part is nearer to the wire, the word for one, and that for
/// several.
const WORDS: [(LinkKind, bool, &str, &str); 9] = [
    (LinkKind::Cable, false, "switch", "switches"),
    (LinkKind::Cable, true, "card", "cards"),
    (LinkKind::Base, false, "on", "on"),
    (LinkKind::Port, false, "port", "ports"),
    (LinkKind::Port, true, "port of", "port of"),
    (LinkKind::Base, true, "below", "below"),
    (LinkKind::Peer, true, "pair with", "pair with"),
    (LinkKind::Peer, false, "pair with", "pair with"),
    (LinkKind::Route, true, "route", "routes"),
];

/// Returns a line for each sort of link that a part has: `ports eth1, eth2`.
pub(super) fn lines(graph: &NodeGraph, part: &Part) -> Vec<String> {
    let own: Vec<&Link> = graph
        .links
        .iter()
        .filter(|link| link.from == part.id || link.to == part.id)
        .collect();
    let mut lines = Vec::new();
    for (kind, is_below, one, several) in WORDS {
        let others: Vec<String> = own
            .iter()
            .filter(|link| link.kind == kind && (link.from == part.id) == is_below)
            .map(|link| other(link, is_below).replace(&format!(" dev {}", part.name), ""))
            .collect();
        match others.as_slice() {
            [] => {}
            [other] => lines.push(format!("{one} {other}")),
            others => lines.push(format!("{several} {}", others.join(", "))),
        }
    }
    match own.iter().filter(|link| link.kind == LinkKind::Pod).count() {
        0 => {}
        1 => lines.push("1 pod interface".to_owned()),
        count => lines.push(format!("{count} pod interfaces")),
    }
    lines
}

/// The part at the other end, and the text of the link.
fn other(link: &Link, is_below: bool) -> String {
    let id = if is_below { &link.to } else { &link.from };
    // The id of a part is its sort and the name that people know.
    let name = id.split_once('/').map_or(id.as_str(), |(_, name)| name);
    match link.label.is_empty() {
        true => name.to_owned(),
        false => format!("{name} {}", link.label),
    }
}
