//! Output of the commands. All of it goes through here.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use anyhow::Result;
use console::style;
use serde_json::Value;
use weft_node_network::{drift::Difference, plan::lines, resolve::other_names};
use weft_plan::escape;

use crate::secrets::mask;

/// Prints a line for people to stdout, with control characters of others escaped. A reader that
/// closes the pipe early does not end the program.
pub fn say(line: &str) {
    print(&format!("{}\n", escape::text(line)));
}

/// Prints a line for people to stderr, with control characters of others escaped.
pub fn say_aside(line: &str) {
    // If stderr is closed, there is nowhere to report it.
    let _ = writeln!(io::stderr().lock(), "{}", escape::text(line));
}

/// Prints text that holds no control characters of others.
fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    // The change of the host must continue when no reader is left.
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
}

/// Prints a script or a page of ours as it is.
pub fn print_script(text: &str) {
    print(text);
}

/// Prints a state as JSON or YAML.
pub fn print_state(state: &Value, json: bool) -> Result<()> {
    if json {
        say(&serde_json::to_string_pretty(state)?);
    } else {
        print(&serde_saphyr::to_string(state)?);
    }
    Ok(())
}

/// Prints a value as JSON. Its strings have the escapes of JSON.
pub fn print_json(value: &Value) -> Result<()> {
    say(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Returns the changes with the fields of `weft plan -o json`. A mask replaces each of these
/// secrets.
pub fn differences(differences: &[Difference], secrets: &BTreeSet<String>) -> Value {
    let changes: Vec<Value> = differences
        .iter()
        .map(|difference| {
            let shown = difference.shown();
            serde_json::json!({
                "path": shown.path.to_string(), "from": mask(&shown.found, secrets),
                "to": mask(&shown.wanted, secrets)
            })
        })
        .collect();
    serde_json::json!({ "changes": changes })
}

/// Prints the changes as `weft plan` prints them. A mask replaces each of these secrets.
pub fn print_differences(
    differences: &[Difference],
    desired: &Value,
    current: &Value,
    secrets: &BTreeSet<String>,
) {
    let other_names = other_names(desired, current);
    let desired = mask(desired, secrets);
    for Difference {
        path,
        wanted,
        found,
    } in differences
    {
        let shown = Difference {
            path: path.clone(),
            wanted: mask(wanted, secrets),
            found: mask(found, secrets),
        };
        for line in lines(&shown, &desired, &other_names) {
            let line = escape::text(&line);
            let line = match line.chars().next() {
                Some('+') => style(line).green(),
                Some('-') => style(line).red(),
                Some('~') => style(line).yellow(),
                _ => style(line),
            };
            print(&format!("{line}\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use weft_node_network::{removal, secrets::HIDDEN};

    use super::*;

    /// Also where a secret is so short that texts keep it.
    #[test]
    fn no_planted_secret_is_in_a_plan_as_json() {
        let planted = include_str!("../../../plan/tests/planted.yaml");
        let read = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap();
        let (mut wanted, mut found) = (read(planted), read(&planted.replace("-zz", "-old")));
        wanted["ovs-db"]["external_ids"]["short_key"] = "a".into();
        found["ovs-db"]["external_ids"]["short_key"] = "b".into();
        let all = removal::changes(&wanted, &found);
        let shown = differences(&all, &BTreeSet::new());
        let text = shown.to_string();
        assert!(!text.contains("pl4nted"), "{shown:#}");
        assert!(text.contains("h4rmless-01-zz") && text.contains("h4rmless-01-old"));
        for key in ["ssl_key", "short_key"] {
            let path = format!("ovs-db.external_ids.{key}");
            let mut changes = shown["changes"].as_array().unwrap().iter();
            let change = changes.find(|change| change["path"] == path).unwrap();
            assert_eq!(
                (&change["from"], &change["to"]),
                (&HIDDEN.into(), &HIDDEN.into())
            );
        }
    }
}
