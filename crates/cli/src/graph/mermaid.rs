//! Pictures as Mermaid flowcharts (<https://mermaid.js.org/syntax/flowchart.html>).

use weft_node_network::graph::model::{Health, NodeGraph};

use super::{picture::picture, words};

/// Mermaid's default for `maxEdges`. A flowchart with more links is refused.
const MAX_LINKS: usize = 500;
/// Mermaid's default for `maxTextSize`, in characters.
const MAX_TEXT: usize = 50_000;

/// Returns one flowchart with a subgraph for each node.
pub fn text(graphs: &[NodeGraph]) -> String {
    let mut out = String::from("flowchart LR\n");
    for (number, graph) in graphs.iter().enumerate() {
        let picture = picture(graph);
        let title = format!("{}: {}", graph.node, words::health(graph.health));
        out.push_str(&format!("  subgraph n{number}[\"{}\"]\n", escaped(&title)));
        for (index, block) in picture.blocks.iter().enumerate() {
            let lines = std::iter::once(&block.title).chain(&block.lines);
            let lines: Vec<String> = lines.map(|line| escaped(line)).collect();
            out.push_str(&format!(
                "    n{number}b{index}[\"{}\"]:::{}\n",
                lines.join("<br/>"),
                class(block.state.health)
            ));
        }
        if picture.blocks.is_empty() {
            let message = escaped(&graph.messages.join(" "));
            out.push_str(&format!(
                "    n{number}b0[\"{message}\"]:::{}\n",
                class(graph.health)
            ));
        }
        out.push_str("  end\n");
        for arrow in &picture.arrows {
            let label = match arrow.label.is_empty() {
                true => String::new(),
                false => format!("|\"{}\"|", escaped(&arrow.label)),
            };
            out.push_str(&format!(
                "  n{number}b{} ---{label} n{number}b{}\n",
                arrow.from, arrow.to
            ));
        }
    }
    for (health, style) in [
        (Health::Good, "fill:#ffffff,stroke:#475569,color:#0f172a"),
        (
            Health::Unknown,
            "fill:#e2e8f0,stroke:#475569,color:#0f172a,stroke-dasharray:4 3",
        ),
        (
            Health::Pending,
            "fill:#dbeafe,stroke:#1d4ed8,color:#0f172a,stroke-width:2px",
        ),
        (
            Health::Drift,
            "fill:#fef3c7,stroke:#b45309,color:#0f172a,stroke-width:2px",
        ),
        (
            Health::Failed,
            "fill:#fee2e2,stroke:#b91c1c,color:#0f172a,stroke-width:3px",
        ),
    ] {
        out.push_str(&format!("  classDef {} {style}\n", class(health)));
    }
    out
}

/// Returns the reason why Mermaid refuses this flowchart with its defaults, if it does.
pub fn too_large(text: &str) -> Option<String> {
    let links = text.lines().filter(|line| line.contains(" ---")).count();
    let characters = text.chars().count();
    (links > MAX_LINKS || characters > MAX_TEXT).then(|| {
        format!(
            "the flowchart has {links} links and {characters} characters, and Mermaid takes {MAX_LINKS} and {MAX_TEXT} unless you set its maxEdges and maxTextSize: name a node, as in weft graph NODE -o mermaid"
        )
    })
}

fn class(health: Health) -> &'static str {
    match health {
        Health::Good => "ok",
        Health::Unknown => "unknown",
        Health::Pending => "pending",
        Health::Drift => "drift",
        Health::Failed => "failed",
    }
}

/// In a text, Mermaid reads `#` and a code up to `;` as a character.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in words::plain(text).chars() {
        match c {
            '#' | '"' | '<' | '>' | '&' | '`' | '\\' | ';' => {
                escaped.push_str(&format!("#{};", u32::from(c)))
            }
            c => escaped.push(c),
        }
    }
    escaped
}
