//! The routes of a node as parts of its picture.

use serde_json::Value;

use super::model::{Fact, Kind, Part};
use crate::{path::text, route};

/// Returns the part of a route, wanted or running.
pub(super) fn part(route: &Value) -> Part {
    let destination = text(&route["destination"]);
    let mut part = Part::new(Kind::Route, id(route), destination);
    for (field, label) in [
        ("next-hop-address", "via"),
        ("next-hop-interface", "interface"),
        ("route-type", "type"),
        ("metric", "metric"),
        ("table-id", "table"),
    ] {
        let value = text(&route[field]);
        // 254 is the table main, which holds nearly all routes.
        let is_usual = (field, value.as_str()) == ("table-id", "254");
        if !value.is_empty() && !is_usual {
            part.facts.push(Fact { label, value });
        }
    }
    part
}

fn id(route: &Value) -> String {
    format!("route/{}", route::key(route))
}
