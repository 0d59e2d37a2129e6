//! A node's network as boxes and arrows. A picture shows at most some lines of each box, and one box
//! for all routes or pods behind an interface, so that it stays readable with hundreds of pods. The
//! tree has all of them.

use std::collections::BTreeMap;

use weft_node_network::graph::model::{Fact, Kind, LinkKind, NodeGraph, Part, PolicyState};

use super::{relations, state::State, words};

/// How many lines of a list a box shows.
const LINES: usize = 6;
/// How many columns of a line a box shows.
const COLUMNS: usize = 40;

/// Boxes and arrows.
#[derive(Debug)]
pub(super) struct Picture {
    /// The boxes.
    pub(super) blocks: Vec<Block>,
    /// The arrows between them.
    pub(super) arrows: Vec<Arrow>,
}

/// A box.
#[derive(Debug)]
pub(super) struct Block {
    /// The sort of its content: `switch`, `interface`, `route`, `pod` or `policy`.
    pub(super) class: &'static str,
    /// Its heading.
    pub(super) title: String,
    /// The lines below the heading.
    pub(super) lines: Vec<String>,
    /// Everything that is known about its content, in lines that are not cut.
    pub(super) details: Vec<String>,
    /// The worst state of its content.
    pub(super) state: State,
    /// `down` or `missing` for such an interface. Empty for everything else.
    pub(super) form: &'static str,
}

/// An arrow.
#[derive(Debug)]
pub(super) struct Arrow {
    /// The position of the box where it begins.
    pub(super) from: usize,
    /// The position of the box where it ends.
    pub(super) to: usize,
    /// The text at it. Empty if there is none.
    pub(super) label: String,
    /// The sort of the link: `cable`, `port`, `base`, `peer`, `route` or `pod`.
    pub(super) class: &'static str,
}

/// Returns the boxes and arrows of a node. The arrows lead away from the wire.
pub(super) fn picture(graph: &NodeGraph) -> Picture {
    let mut blocks = Vec::new();
    let mut at: BTreeMap<&str, usize> = BTreeMap::new();
    blocks.extend(policies(graph));
    for part in &graph.parts {
        if matches!(part.kind, Kind::Switch | Kind::Interface) {
            at.insert(&part.id, blocks.len());
            blocks.push(single(graph, part));
        }
    }
    let mut arrows = Vec::new();
    // The routes and the pods behind each interface, or behind none.
    let mut groups: BTreeMap<(Kind, Option<&str>), Vec<Member>> = BTreeMap::new();
    let links: BTreeMap<&str, _> = graph
        .links
        .iter()
        .map(|link| (link.to.as_str(), link))
        .collect();
    for part in &graph.parts {
        if matches!(part.kind, Kind::Route | Kind::Pod) {
            let link = links.get(part.id.as_str());
            let below = link.map(|link| link.from.as_str());
            let label = link.map(|link| link.label.as_str()).unwrap_or_default();
            groups
                .entry((part.kind, below))
                .or_default()
                .push((part, label));
        }
    }
    for ((kind, below), parts) in groups {
        if let Some(from) = below.and_then(|id| at.get(id)) {
            arrows.push(Arrow {
                from: *from,
                to: blocks.len(),
                label: String::new(),
                class: if kind == Kind::Route { "route" } else { "pod" },
            });
        }
        blocks.push(group(kind, &parts));
    }
    for link in &graph.links {
        if let (Some(from), Some(to)) = (at.get(link.from.as_str()), at.get(link.to.as_str())) {
            arrows.push(Arrow {
                from: *from,
                to: *to,
                label: cut(&link.label),
                class: class(link.kind),
            });
        }
    }
    Picture { blocks, arrows }
}

/// A route or a pod, and the text of the link to it.
type Member<'a> = (&'a Part, &'a str);

fn class(kind: LinkKind) -> &'static str {
    match kind {
        LinkKind::Cable => "cable",
        LinkKind::Port => "port",
        LinkKind::Base => "base",
        LinkKind::Peer => "peer",
        LinkKind::Route => "route",
        LinkKind::Pod => "pod",
    }
}

/// A line as far as a box has room for it.
fn cut(line: &str) -> String {
    console::truncate_str(&words::plain(line), COLUMNS, "…").into_owned()
}

/// Sign and word of a state that people should see.
fn state_words(state: State) -> Option<String> {
    (!state.is_good()).then(|| state.text())
}

fn policies(graph: &NodeGraph) -> Option<Block> {
    if graph.policies.is_empty() {
        return None;
    }
    let worst = graph
        .policies
        .iter()
        .map(|policy| policy.health)
        .max()
        .unwrap_or_default();
    let mut ordered: Vec<_> = graph.policies.iter().collect();
    ordered.sort_by_key(|policy| std::cmp::Reverse(policy.health));
    let line = |policy: &_| {
        let PolicyState {
            name,
            health,
            state,
            ..
        } = policy;
        format!("{} {name}: {state}", health.sign())
    };
    let details = ordered.iter().flat_map(|policy| {
        [line(policy)]
            .into_iter()
            .chain(policy.messages.iter().cloned())
    });
    Some(Block {
        class: "policy",
        title: "policies".to_owned(),
        lines: shortened(ordered.iter().map(|policy| line(policy)).collect()),
        details: details.collect(),
        state: worst.into(),
        form: "",
    })
}

fn single(graph: &NodeGraph, part: &Part) -> Block {
    let (addresses, others): (Vec<_>, Vec<_>) =
        part.facts.iter().partition(|fact| fact.label == "address");
    let in_line = |label: &str| !matches!(label, "MAC" | "port" | "port of" | "on");
    let (first, more): (Vec<_>, Vec<_>) = others.into_iter().partition(|fact| in_line(fact.label));
    let mut lines = Vec::new();
    let facts: Vec<String> = first.into_iter().map(Fact::to_string).collect();
    lines.extend(Some(facts.join(", ")).filter(|line| !line.is_empty()));
    lines.extend(addresses.into_iter().chain(more).map(Fact::to_string));
    let mut lines = shortened(lines);
    lines.extend(
        Some(words::policies(part))
            .filter(|line| !line.is_empty())
            .map(|line| cut(&line)),
    );
    lines.extend(state_words(part.into()));
    Block {
        class: if part.kind == Kind::Switch {
            "switch"
        } else {
            "interface"
        },
        title: cut(&words::title(part)),
        lines,
        details: details(part, relations::lines(graph, part)),
        state: part.into(),
        form: match part.state() {
            Some("down") => "down",
            Some("missing") => "missing",
            _ => "",
        },
    }
}

/// All that is known of a part, for people, with its links in words.
fn details(part: &Part, links: Vec<String>) -> Vec<String> {
    let policies = Some(words::policies(part)).filter(|policies| !policies.is_empty());
    let facts = part.facts.iter().map(Fact::to_string);
    facts
        .chain(links)
        .chain(policies)
        .chain(state_words(part.into()))
        .chain(part.messages.iter().cloned())
        .collect()
}

fn group(kind: Kind, parts: &[Member]) -> Block {
    let worst = State::worst(parts.iter().map(|(part, _)| *part));
    let noun = match (kind, parts.len()) {
        (Kind::Route, 1) => "route",
        (Kind::Route, _) => "routes",
        (_, 1) => "pod interface",
        (_, _) => "pod interfaces",
    };
    let line = |(part, label): &Member| {
        let value = |wanted: &str| {
            part.facts
                .iter()
                .find(|fact| fact.label == wanted)
                .map(Fact::to_string)
        };
        let value = match kind {
            Kind::Route => value("via"),
            _ => value("address"),
        };
        let label = Some((*label).to_owned()).filter(|label| !label.is_empty());
        let state = State::from(*part);
        let sign = if state.is_good() {
            String::new()
        } else {
            format!("{} ", state.sign())
        };
        let words: Vec<String> = [Some(format!("{sign}{}", part.name)), value, label]
            .into_iter()
            .flatten()
            .collect();
        words.join(" ")
    };
    // Those that are not as they should be must not be cut off.
    let mut ordered: Vec<_> = parts.iter().collect();
    ordered.sort_by_key(|(part, _)| std::cmp::Reverse(part.health));
    let mut lines = shortened(ordered.iter().map(|part| line(part)).collect());
    lines.extend(state_words(worst));
    let all = ordered.iter().map(|(part, label)| {
        let label = Some((*label).to_owned()).filter(|label| !label.is_empty());
        let facts: Vec<String> = details(part, Vec::new()).into_iter().chain(label).collect();
        format!("{}: {}", part.name, facts.join(", "))
    });
    Block {
        class: if kind == Kind::Route { "route" } else { "pod" },
        title: match parts.len() {
            1 => noun.to_owned(),
            count => format!("{count} {noun}"),
        },
        lines,
        details: all.collect(),
        state: worst,
        form: "",
    }
}

/// The first lines of a list, and how many more there are.
fn shortened(all: Vec<String>) -> Vec<String> {
    let shown = if all.len() > LINES {
        LINES - 1
    } else {
        all.len()
    };
    let mut lines: Vec<String> = all.iter().take(shown).map(|line| cut(line)).collect();
    if all.len() > shown {
        lines.push(format!("… {} more", all.len() - shown));
    }
    lines
}
