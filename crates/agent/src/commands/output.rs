//! Output for people.

use std::collections::BTreeSet;

use anyhow::Result;
use console::style;
use serde_json::Value;
use weft_node_network::{drift::Difference, path::text, plan::lines, state::HIDDEN};

/// A state.
pub fn print_state(state: &Value, json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(state)?);
    } else {
        print!("{}", serde_saphyr::to_string(state)?);
    }
    Ok(())
}

/// What would change, as `weft plan` prints it; where a value is one of these secrets, something else stands in its place.
pub fn print_differences(differences: &[Difference], desired: &Value, secrets: &BTreeSet<String>) {
    let desired = without(desired, secrets);
    for Difference { path, wanted, found } in differences {
        let shown = Difference { path: path.clone(), wanted: without(wanted, secrets), found: without(found, secrets) };
        for line in lines(&shown, &desired) {
            let line = match line.chars().next() {
                Some('+') => style(line).green(),
                Some('-') => style(line).red(),
                Some('~') => style(line).yellow(),
                _ => style(line),
            };
            println!("{line}");
        }
    }
}

fn without(value: &Value, secrets: &BTreeSet<String>) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), without(value, secrets))).collect(),
        Value::Array(list) => list.iter().map(|value| without(value, secrets)).collect(),
        Value::String(_) | Value::Number(_) if secrets.contains(&text(value)) => HIDDEN.into(),
        other => other.clone(),
    }
}
