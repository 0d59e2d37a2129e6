//! Pictures in the language of Graphviz (<https://graphviz.org/doc/info/lang.html>).

use weft_node_network::graph::model::{Health, NodeGraph};

use super::{picture::picture, words};

/// Returns one graph with a cluster for each node.
pub fn text(graphs: &[NodeGraph]) -> String {
    let mut out = String::from(
        "digraph \"weft\" {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=11];\n  edge [arrowhead=none, fontname=\"sans-serif\", fontsize=10];\n",
    );
    for (number, graph) in graphs.iter().enumerate() {
        let picture = picture(graph);
        let title = format!("{}: {}", graph.node, words::health(graph.health));
        out.push_str(&format!(
            "  subgraph \"cluster_{number}\" {{\n    label={};\n",
            quoted(&title)
        ));
        for (index, block) in picture.blocks.iter().enumerate() {
            let lines = std::iter::once(&block.title).chain(&block.lines);
            // \l ends a line that stands at the left.
            let label: String = lines.map(|line| format!("{}\\l", escaped(line))).collect();
            let (fill, border) = colours(block.state.health);
            out.push_str(&format!(
                "    n{number}b{index} [label=\"{label}\", fillcolor=\"{fill}\", color=\"{border}\"{}];\n",
                if block.state.is_good() { "" } else { ", penwidth=2" }
            ));
        }
        for arrow in &picture.arrows {
            let label = match arrow.label.is_empty() {
                true => String::new(),
                false => format!(" [label={}]", quoted(&arrow.label)),
            };
            out.push_str(&format!(
                "    n{number}b{} -> n{number}b{}{label};\n",
                arrow.from, arrow.to
            ));
        }
        // A cluster without a node is not drawn.
        if picture.blocks.is_empty() {
            out.push_str(&format!(
                "    n{number}b0 [label={}];\n",
                quoted(&graph.messages.join(" "))
            ));
        }
        out.push_str("  }\n");
    }
    out.push_str("}\n");
    out
}

fn colours(health: Health) -> (&'static str, &'static str) {
    match health {
        Health::Good => ("#ffffff", "#475569"),
        Health::Unknown => ("#e2e8f0", "#475569"),
        Health::Pending => ("#dbeafe", "#1d4ed8"),
        Health::Drift => ("#fef3c7", "#b45309"),
        Health::Failed => ("#fee2e2", "#b91c1c"),
    }
}

/// Graphviz reads `\` and `&` in a label as the beginning of an escape.
fn escaped(text: &str) -> String {
    words::plain(text)
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('&', "&amp;")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}
