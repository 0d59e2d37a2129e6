//! One page with the pictures and trees of all nodes, for a browser.
//!
//! The page holds everything, and its own policy (`Content-Security-Policy`) forbids all requests.
//! It begins with an overview, and shows one node at a time, so that it stays fast with hundreds.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use weft_node_network::graph::model::NodeGraph;

use super::{
    overview::{self, Overview},
    state::State,
    svg::{self, Drawing},
    tree, words,
};

const LOOK: &str = include_str!("page.css");
const SCRIPT: &str = concat!(include_str!("page-picture.js"), include_str!("page.js"));

/// Returns the page. `applied` names the files whose policies are drawn as if they were applied.
pub fn text(graphs: &[NodeGraph], notes: &[String], applied: &[String]) -> String {
    let style = format!("{}{LOOK}", svg::STYLE);
    let drawings: Vec<Drawing> = graphs.iter().map(Drawing::of).collect();
    let overview = Overview::of(graphs, &drawings);
    let nodes: Vec<Value> = graphs
        .iter()
        .zip(&drawings)
        .map(|(graph, drawing)| node(graph, drawing))
        .collect();
    let applied = match applied {
        [] => String::new(),
        files => format!(
            "<p id=\"applied\">Drawn as if {} were applied. Nothing has been changed.</p>",
            words::xml(&files.join(", "))
        ),
    };
    let notes: String = notes
        .iter()
        .map(|note| format!("<li>{}</li>", words::xml(note)))
        .collect();
    let notes = match notes.is_empty() {
        true => notes,
        false => format!("<ul aria-label=\"Notes\">{notes}</ul>"),
    };
    format!(
        include_str!("page.html"),
        count = match graphs.len() {
            1 => "1 node".to_owned(),
            count => format!("{count} nodes"),
        },
        style_hash = hash(&style),
        script_hash = hash(SCRIPT),
        style = style,
        applied = applied,
        notes = notes,
        filters = overview.filters(),
        groups = overview.groups(),
        legend = overview::legend(),
        // `<` could end the element.
        data = Value::from(nodes).to_string().replace('<', "\\u003c"),
        script = SCRIPT,
    )
}

/// Returns the hash by which the policy of the page allows a style or a script.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

fn node(graph: &NodeGraph, drawing: &Drawing) -> Value {
    let state = State::from(graph.health);
    let (width, height) = drawing.size();
    let facts: Vec<_> = graph
        .facts
        .iter()
        .map(|fact| words::plain(&fact.to_string()))
        .collect();
    let messages: Vec<_> = graph
        .messages
        .iter()
        .map(|message| words::plain(message))
        .collect();
    json!({
        "name": words::plain(&graph.node),
        "state": state.class(),
        "word": state.text(),
        "facts": facts,
        "messages": messages,
        "svg": format!(
            "<svg class=\"weft\" role=\"presentation\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">{}</svg>",
            drawing.elements(None),
        ),
        "boxes": drawing.boxes(),
        "tree": tree::lines(graph).iter().map(line).collect::<Vec<_>>(),
    })
}

fn line(line: &tree::Line) -> Value {
    let mut value = json!({ "text": line.text });
    if let Some(state) = line.state {
        value["state"] = state.class().into();
        value["word"] = state.text().into();
    }
    if !line.causes.is_empty() {
        value["causes"] = line
            .causes
            .iter()
            .map(|cause| words::plain(cause))
            .collect();
    }
    if !line.below.is_empty() {
        value["below"] = line.below.iter().map(self::line).collect();
    }
    value
}
