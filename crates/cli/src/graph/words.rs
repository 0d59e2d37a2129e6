//! Parts of a picture in words, the same in each form.

use weft_node_network::graph::model::{Health, Kind, Part};
use weft_plan::escape;

/// Returns the name of a part with its sort: `eth0 (ethernet)`, `route 10.0.0.0/8`.
pub(super) fn title(part: &Part) -> String {
    match part.kind {
        Kind::Interface => format!("{} ({})", part.name, part.sort()),
        Kind::Switch | Kind::Route | Kind::Pod => format!("{} {}", part.sort(), part.name),
    }
}

/// Returns the policies behind a part: `policy a`, `policies a, b`. Empty if there is none.
pub(super) fn policies(part: &Part) -> String {
    let names: Vec<&str> = part.policies.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => String::new(),
        [name] => format!("policy {name}"),
        names => format!("policies {}", names.join(", ")),
    }
}

/// Returns sign and word of a state: `~ drift`.
pub(super) fn health(health: Health) -> String {
    format!("{} {}", health.sign(), health.word())
}

/// Returns a text of a node in one line and without control characters, which no form of a picture
/// may hold.
pub(super) fn plain(text: &str) -> String {
    escape::line(text).replace('\t', " ")
}

/// Returns a text as XML and HTML write it.
pub(super) fn xml(text: &str) -> String {
    let mut escaped = String::new();
    for c in plain(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML 1.0 knows no such character.
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
