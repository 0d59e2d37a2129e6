//! The overview of all nodes in the page: a card for each group of equal nodes, the filters, and the
//! legend. It needs no script.

use weft_node_network::graph::model::{Change, Health, Kind, NodeGraph, Part};

use super::{groups::groups, state::State, svg::Drawing, words};

/// How many names of nodes a card shows.
const NAMES: usize = 3;

/// The nodes, in groups.
pub(super) struct Overview<'a> {
    graphs: &'a [NodeGraph],
    drawings: &'a [Drawing],
    groups: Vec<Vec<usize>>,
}

impl<'a> Overview<'a> {
    /// Puts nodes into groups. Each has its drawing.
    pub(super) fn of(graphs: &'a [NodeGraph], drawings: &'a [Drawing]) -> Self {
        Self {
            graphs,
            drawings,
            groups: groups(graphs),
        }
    }

    /// Returns a choice of nodes for each state that there is, with the number of nodes.
    pub(super) fn filters(&self) -> String {
        let states = Health::ALL.into_iter().rev().map(State::from);
        let of_health = states.map(|state| {
            let of_state = |graph: &&NodeGraph| State::from(graph.health) == state;
            (
                state.class(),
                state.text(),
                self.graphs.iter().filter(of_state).count(),
            )
        });
        let changing = self
            .graphs
            .iter()
            .filter(|graph| !changes(graph).is_empty());
        let all = [("", "all".to_owned(), self.graphs.len())];
        let with_changes = [("changes", "with changes".to_owned(), changing.count())];
        all.into_iter()
            .chain(of_health)
            .chain(with_changes)
            .filter(|(class, _, count)| class.is_empty() || *count > 0)
            .map(|(class, text, count)| {
                format!(
                    "<label class=\"state {class}\"><input type=\"radio\" name=\"show\" value=\"{class}\"{}> {text} <b>{count}</b></label>",
                    if class.is_empty() { " checked" } else { "" }
                )
            })
            .collect()
    }

    /// Returns the cards.
    pub(super) fn groups(&self) -> String {
        self.groups.iter().map(|group| self.group(group)).collect()
    }

    fn group(&self, group: &[usize]) -> String {
        let nodes: Vec<(usize, &NodeGraph)> = group
            .iter()
            .filter_map(|index| Some((*index, self.graphs.get(*index)?)))
            .collect();
        let [(index, graph), rest @ ..] = nodes.as_slice() else {
            return String::new();
        };
        let pods: usize = nodes.iter().map(|(_, node)| node.count(Kind::Pod)).sum();
        let card = format!(
            "{}<span class=\"who\">{}</span> <span class=\"state {}\">{}</span>{}",
            self.drawings
                .get(*index)
                .map(Drawing::thumbnail)
                .unwrap_or_default(),
            match rest {
                [] => words::xml(&graph.node),
                _ => format!("{} equal nodes", nodes.len()),
            },
            State::from(graph.health).class(),
            words::health(graph.health),
            [
                names(&nodes),
                numbers(graph, pods),
                changes(graph),
                cause(graph)
            ]
            .into_iter()
            .filter(|line| !line.is_empty())
            .map(|line| format!(" <span class=\"more\">{}</span>", words::xml(&line)))
            .collect::<String>(),
        );
        let content = match rest {
            [] => link(*index, graph, "card", &card),
            _ => {
                let links: String = nodes
                    .iter()
                    .map(|(index, node)| {
                        let name = words::xml(&node.node);
                        format!("<li>{}</li>", link(*index, node, "name", &name))
                    })
                    .collect();
                format!(
                    "<details><summary class=\"card\">{card}</summary><ul class=\"names\">{links}</ul></details>"
                )
            }
        };
        format!(
            "<li class=\"group\" data-show=\"{}{}\">{content}</li>\n",
            State::from(graph.health).class(),
            if changes(graph).is_empty() {
                ""
            } else {
                " changes"
            },
        )
    }
}

fn link(index: usize, graph: &NodeGraph, class: &str, content: &str) -> String {
    format!(
        "<a class=\"{class}\" data-node=\"{index}\" href=\"#{}\">{content}</a>",
        words::xml(&fragment(&graph.node))
    )
}

/// A name as a part of an address.
fn fragment(name: &str) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    words::plain(name)
        .bytes()
        .map(|byte| match is_plain(&byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}

/// The first names of several nodes. Empty for one, whose name is the heading.
fn names(nodes: &[(usize, &NodeGraph)]) -> String {
    let names: Vec<&str> = nodes
        .iter()
        .take(NAMES)
        .map(|(_, node)| node.node.as_str())
        .collect();
    match nodes.len() {
        0 | 1 => String::new(),
        count if count <= NAMES => names.join(", "),
        count => format!("{} and {} more", names.join(", "), count - NAMES),
    }
}

fn numbers(graph: &NodeGraph, pods: usize) -> String {
    let is_down = |part: &&Part| part.kind == Kind::Interface && part.state() == Some("down");
    let down = graph.parts.iter().filter(is_down).count();
    let counted = |count: usize, one: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {one}s")),
    };
    [
        counted(graph.count(Kind::Interface), "interface"),
        (down > 0).then(|| format!("{down} down")),
        counted(pods, "pod interface"),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ")
}

/// The number of changes to come, by sort. Empty if there is none.
fn changes(graph: &NodeGraph) -> String {
    Change::ALL
        .into_iter()
        .filter_map(|change| {
            let is_so = |part: &&Part| part.change == Some(change);
            let count = graph.parts.iter().filter(is_so).count();
            (count > 0).then(|| format!("{} {count} {}", change.sign(), change.word()))
        })
        .collect::<Vec<_>>()
        .join(", ")
}

/// The first cause of trouble. Empty if there is none.
fn cause(graph: &NodeGraph) -> String {
    let of_node = graph.messages.iter().cloned();
    let policies = graph
        .policies
        .iter()
        .filter(|policy| policy.health > Health::Pending);
    let of_policies = policies.flat_map(|policy| {
        let named = move |message: &String| format!("policy {}: {message}", policy.name);
        policy.messages.iter().map(named)
    });
    let parts = graph
        .parts
        .iter()
        .filter(|part| part.health > Health::Pending);
    let of_parts = parts.flat_map(|part| {
        let named = move |message: &String| format!("{}: {message}", part.name);
        part.messages.iter().map(named)
    });
    of_node
        .chain(of_policies)
        .chain(of_parts)
        .next()
        .unwrap_or_default()
}

/// Returns the meaning of borders, colours, signs and lines.
pub(super) fn legend() -> String {
    let sample = |class: &str, text: &str| {
        format!(
            "<li><svg class=\"weft\" aria-hidden=\"true\" width=\"30\" height=\"18\"><g class=\"box interface {class}\"><rect x=\"2\" y=\"2\" width=\"26\" height=\"14\" rx=\"3\"/></g></svg> {text}</li>"
        )
    };
    let line = |class: &str, text: &str| {
        format!(
            "<li><svg class=\"weft\" aria-hidden=\"true\" width=\"30\" height=\"18\"><path class=\"{class}\" d=\"M1 9H29\"/></svg> {text}</li>"
        )
    };
    let plain = [
        sample("ok", "= ok, up"),
        sample("ok down", "down"),
        sample("ok missing", "missing"),
    ];
    let changes = Change::ALL.map(State::from);
    let others = [Health::Drift, Health::Failed, Health::Unknown].map(State::from);
    let states = changes.into_iter().chain(others);
    let lines = [
        line("cable", "cable"),
        line("port", "port, VLAN"),
        line("route", "routes, pods"),
    ];
    plain
        .into_iter()
        .chain(states.map(|state| sample(state.class(), &state.text())))
        .chain(lines)
        .collect()
}
