//! A node's network as a tree, from the wire to the pods. It holds all that the picture has, so
//! people who see no picture miss nothing.

use std::collections::{BTreeMap, BTreeSet};

use weft_node_network::graph::model::{Fact, Health, Kind, Link, LinkKind, NodeGraph, Part};

use super::{state::State, words};
use crate::output::Style;

/// A line of the tree, and the lines below it.
pub struct Line {
    /// The text, without the state.
    pub text: String,
    /// The state. `None` if the line has none.
    pub state: Option<State>,
    /// The causes, if it is not as it should be.
    pub causes: Vec<String>,
    /// The lines below.
    pub below: Vec<Line>,
}

impl Line {
    fn heading(text: &str, below: Vec<Line>) -> Self {
        Self {
            text: text.to_owned(),
            state: None,
            causes: Vec::new(),
            below,
        }
    }
}

/// Returns the lines of a node, without the node itself.
pub fn lines(graph: &NodeGraph) -> Vec<Line> {
    let mut lines = Vec::new();
    if !graph.policies.is_empty() {
        let policies = graph.policies.iter().map(|policy| Line {
            text: format!("{}: {}", policy.name, policy.state),
            state: Some(policy.health.into()),
            causes: policy.messages.clone(),
            below: Vec::new(),
        });
        lines.push(Line::heading("policies", policies.collect()));
    }
    let mut walk = Walk::of(graph);
    let has_parent: BTreeSet<&str> = graph.links.iter().map(|link| link.to.as_str()).collect();
    for (kind, heading) in [
        (Kind::Switch, None),
        (Kind::Interface, None),
        (
            Kind::Route,
            Some("routes without an interface in the report"),
        ),
        (
            Kind::Pod,
            Some("pods on networks whose interface is not known"),
        ),
    ] {
        let roots = graph
            .parts
            .iter()
            .filter(|part| part.kind == kind && !has_parent.contains(part.id.as_str()));
        let found: Vec<Line> = roots.map(|part| walk.line(part, None)).collect();
        match heading {
            Some(heading) if !found.is_empty() => lines.push(Line::heading(heading, found)),
            Some(_) => {}
            None => lines.extend(found),
        }
    }
    // Patch ports of Open vSwitch can connect bridges in a circle, which has no beginning.
    for part in &graph.parts {
        if !walk.shown.contains(part.id.as_str()) {
            lines.push(walk.line(part, None));
        }
    }
    lines
}

struct Walk<'a> {
    above: BTreeMap<&'a str, Vec<&'a Link>>,
    parts: BTreeMap<&'a str, &'a Part>,
    shown: BTreeSet<&'a str>,
}

impl<'a> Walk<'a> {
    fn of(graph: &'a NodeGraph) -> Self {
        let mut above: BTreeMap<&str, Vec<&Link>> = BTreeMap::new();
        for link in &graph.links {
            above.entry(&link.from).or_default().push(link);
        }
        Self {
            above,
            parts: graph
                .parts
                .iter()
                .map(|part| (part.id.as_str(), part))
                .collect(),
            shown: BTreeSet::new(),
        }
    }

    fn line(&mut self, part: &'a Part, link: Option<&Link>) -> Line {
        let label = link
            .map(|link| link.label.as_str())
            .filter(|label| !label.is_empty());
        let label = label.map(|label| format!(", {label}")).unwrap_or_default();
        let title = words::title(part);
        if !self.shown.insert(&part.id) {
            return Line::heading(
                &words::plain(&format!("{title}{label}, see above")),
                Vec::new(),
            );
        }
        let is_below_interface = link.is_some_and(|link| link.kind == LinkKind::Route);
        let facts = part
            .facts
            .iter()
            .filter(|fact| !(is_below_interface && fact.label == "interface"));
        let mut facts: Vec<String> = facts.map(Fact::to_string).collect();
        facts.extend(Some(words::policies(part)).filter(|policies| !policies.is_empty()));
        let facts = match facts.is_empty() {
            true => String::new(),
            false => format!(": {}", facts.join(", ")),
        };
        let links = self
            .above
            .get(part.id.as_str())
            .cloned()
            .unwrap_or_default();
        let below = links
            .into_iter()
            .filter_map(|link| Some((*self.parts.get(link.to.as_str())?, link)))
            .collect::<Vec<_>>();
        Line {
            text: words::plain(&format!("{title}{label}{facts}")),
            state: Some(State::from(part)).filter(|state| !state.is_good()),
            causes: part.messages.clone(),
            below: below
                .into_iter()
                .map(|(part, link)| self.line(part, Some(link)))
                .collect(),
        }
    }
}

/// Returns the tree of a node for a terminal.
pub fn text(graph: &NodeGraph, style: Style) -> String {
    let mut out = format!(
        "{}: {}\n",
        style.bold(&graph.node),
        paint(graph.health.into(), style)
    );
    for message in &graph.messages {
        out.push_str(&format!("  {message}\n"));
    }
    for fact in &graph.facts {
        out.push_str(&format!("  {fact}\n"));
    }
    draw(&lines(graph), "", style, &mut out);
    out
}

fn draw(lines: &[Line], indent: &str, style: Style, out: &mut String) {
    for (index, line) in lines.iter().enumerate() {
        let is_last = index + 1 == lines.len();
        let (branch, rest) = if is_last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let state = line
            .state
            .map(|state| format!("  {}", paint(state, style)))
            .unwrap_or_default();
        out.push_str(&format!(
            "{}{}{state}\n",
            style.dim(&format!("{indent}{branch}")),
            line.text
        ));
        let below = format!("{indent}{rest}");
        let bar = if line.below.is_empty() { "  " } else { "│ " };
        for cause in line.causes.iter().flat_map(|cause| cause.lines()) {
            out.push_str(&format!("{}{cause}\n", style.dim(&format!("{below}{bar}"))));
        }
        draw(&line.below, &below, style, out);
    }
}

fn paint(state: State, style: Style) -> String {
    let text = state.text();
    match state.health {
        Health::Good => style.good(&text),
        Health::Unknown | Health::Pending | Health::Drift => style.pending(&text),
        Health::Failed => style.bad(&text),
    }
}
