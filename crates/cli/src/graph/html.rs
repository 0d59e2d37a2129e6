//! One page with the pictures and trees of all nodes, for a browser.
//!
//! The page holds everything, and its own policy (`Content-Security-Policy`) forbids all requests.
//! It lists the nodes and shows one of them at a time, so that it stays fast with hundreds.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use weft_node_network::graph::model::{Kind, NodeGraph};

use super::{svg, tree, words};

const LOOK: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Returns the page.
pub fn text(graphs: &[NodeGraph], notes: &[String]) -> String {
    let style = format!("{}{LOOK}", svg::STYLE);
    let nodes: Vec<Value> = graphs.iter().map(node).collect();
    // `<` could end the element.
    let data = Value::from(nodes).to_string().replace('<', "\\u003c");
    let rows: String = graphs.iter().map(row).collect();
    let notes: String = notes
        .iter()
        .map(|note| format!("<li>{}</li>", words::xml(note)))
        .collect();
    let notes = match notes.is_empty() {
        true => notes,
        false => format!("<ul aria-label=\"Notes\">{notes}</ul>"),
    };
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '{style_hash}'; script-src '{script_hash}'; base-uri 'none'; form-action 'none'">
<title>Networks of {count}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="{first}">Skip to the node</a>
<header>
<h1>Networks of {count}</h1>
<label>Search <input type="search" id="search" aria-describedby="count" placeholder="node, interface, address, policy"></label>
<label><input type="checkbox" id="trouble"> Only nodes that are not ok</label>
<label>Look <select id="look"><option value="">as the system</option><option value="light">light</option><option value="dark">dark</option></select></label>
<details><summary>Keys and signs</summary>
<p><kbd>/</kbd> goes to the search. <kbd>Tab</kbd> goes from the list to the picture and to the tree. The arrow keys move in each of them. <kbd>Enter</kbd> opens a node or a branch, <kbd>←</kbd> closes a branch, <kbd>Esc</kbd> goes back to the list.</p>
<p>Signs: = as the policies want it, … in progress, ~ drift, ! failed, ? not reported.</p>
</details>
</header>
<main>
<section aria-labelledby="list"><h2 id="list">Nodes</h2>{notes}
<p id="count" role="status">{count}</p>
<noscript><p>Without scripts, the page shows the list only. The command weft graph prints the same as a tree.</p></noscript>
<div class="rows" id="rows"><table><caption>One row for each node</caption>
<thead><tr><th scope="col">Node</th><th scope="col">State</th><th scope="col" class="number">Interfaces</th><th scope="col" class="number">Pods</th></tr></thead>
<tbody>
{rows}</tbody></table></div></section>
<section id="node" aria-labelledby="name" hidden>
<h2 id="name" tabindex="-1">Node</h2>
<ul id="facts"></ul>
<div id="drawn"><h3>Picture</h3>
<div class="tools"><button type="button" id="fit" aria-pressed="false">Fit the picture into the page</button></div>
<div class="picture" id="picture" role="listbox" aria-label="Picture"></div>
<div class="details" id="details"></div></div>
<div id="listed"><h3>The same as a tree</h3>
<div class="tools"><button type="button" id="expand">Open all branches</button><button type="button" id="collapse">Close all branches</button></div>
<ul id="tree" role="tree" aria-label="Tree"></ul></div>
</section>
</main>
<script type="application/json" id="data">{data}</script>
<script>{SCRIPT}</script>
</body>
</html>
"#,
        count = match graphs.len() {
            1 => "1 node".to_owned(),
            count => format!("{count} nodes"),
        },
        first = "#name",
        style_hash = hash(&style),
        script_hash = hash(SCRIPT),
    )
}

/// Returns the hash by which the policy of the page allows a style or a script.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

fn row(graph: &NodeGraph) -> String {
    format!(
        "<tr><th scope=\"row\"><a href=\"#{}\" tabindex=\"-1\">{}</a></th><td><span class=\"state {}\">{}</span></td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>\n",
        words::xml(&fragment(&graph.node)),
        words::xml(&graph.node),
        svg::state(graph.health),
        words::health(graph.health),
        graph.count(Kind::Interface),
        graph.count(Kind::Pod),
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

fn node(graph: &NodeGraph) -> Value {
    let drawing = svg::drawing(graph, None);
    let facts: Vec<_> = graph
        .facts
        .iter()
        .map(|fact| words::plain(&words::fact(fact)))
        .collect();
    let messages: Vec<_> = graph
        .messages
        .iter()
        .map(|message| words::plain(message))
        .collect();
    json!({
        "name": words::plain(&graph.node),
        "state": svg::state(graph.health),
        "word": words::health(graph.health),
        "facts": facts,
        "messages": messages,
        "svg": format!(
            "<svg class=\"weft\" role=\"presentation\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\">{}</svg>",
            drawing.elements,
            width = drawing.width,
            height = drawing.height,
        ),
        "boxes": drawing.boxes,
        "tree": tree::lines(graph).iter().map(line).collect::<Vec<_>>(),
    })
}

fn line(line: &tree::Line) -> Value {
    let mut value = json!({ "text": line.text });
    if let Some(health) = line.health {
        value["state"] = svg::state(health).into();
        value["word"] = words::health(health).into();
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
