//! Output for people.

use std::collections::BTreeSet;

use anyhow::Result;
use console::style;
use serde_json::Value;
use weft_node_network::{drift::Difference, path::text, state::HIDDEN};

/// A state.
pub fn print_state(state: &Value, json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(state)?);
    } else {
        print!("{}", serde_saphyr::to_string(state)?);
    }
    Ok(())
}

/// What would change, place by place: what is there, and what would be; neither if it is one of these secrets.
pub fn print_differences(differences: &[Difference], secrets: &BTreeSet<String>) {
    for difference in differences {
        println!("{}", style(difference.path.to_string()).bold());
        if !difference.found.is_null() {
            println!("  {} {}", style("-").red(), without(&difference.found, secrets));
        }
        if !difference.wanted.is_null() {
            println!("  {} {}", style("+").green(), without(&difference.wanted, secrets));
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
