//! Output for people.

use anyhow::Result;
use console::style;
use serde_json::Value;
use weft_node_network::drift::Difference;

/// A state.
pub fn print_state(state: &Value, json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(state)?);
    } else {
        print!("{}", serde_saphyr::to_string(state)?);
    }
    Ok(())
}

/// What would change, place by place: what is there, and what would be.
pub fn print_differences(differences: &[Difference]) {
    for difference in differences {
        println!("{}", style(difference.path.to_string()).bold());
        if !difference.found.is_null() {
            println!("  {} {}", style("-").red(), difference.found);
        }
        if !difference.wanted.is_null() {
            println!("  {} {}", style("+").green(), difference.wanted);
        }
    }
}
