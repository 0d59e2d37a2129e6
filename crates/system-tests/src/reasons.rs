//! The table of `weft explain` has each condition that Weft has written during a test.

use std::{collections::BTreeSet, process::Command, sync::LazyLock};

use serde_json::Value;

use super::cluster::weft_binary;

/// Kind, type, status and reason of the conditions that the table has.
static TABLE: LazyLock<BTreeSet<[String; 4]>> = LazyLock::new(|| {
    let output = Command::new(weft_binary())
        .args(["explain", "-o", "json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "weft explain: {output:?}");
    entries(&serde_json::from_slice(&output.stdout).unwrap())
});

/// The types that repeat the reason of another condition of their resource.
const REPEATING: [&str; 3] = ["Ready", "Reconciling", "Stalled"];

fn entries(table: &Value) -> BTreeSet<[String; 4]> {
    let mut entries = BTreeSet::new();
    for section in list(&table["sections"]) {
        for row in list(&section["rows"]) {
            let kinds = if row["only"].is_array() {
                &row["only"]
            } else {
                &section["kinds"]
            };
            for kind in list(kinds) {
                for type_ in list(&row["types"]) {
                    for status in list(&row["statuses"]) {
                        for reason in list(&row["reasons"]) {
                            entries.insert([kind, type_, status, reason].map(text));
                        }
                    }
                }
            }
        }
    }
    entries
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Fails the test if one of these objects has a condition of Weft's that the table lacks.
pub fn assert_explained(objects: &[Value]) {
    let unknown: BTreeSet<_> = objects
        .iter()
        .filter(|object| is_written_by_weft(object))
        .flat_map(conditions)
        .filter(|entry| !is_known(entry))
        .map(|entry| entry.join(" "))
        .collect();
    assert!(
        unknown.is_empty(),
        "the table of weft explain (crates/cli/src/reasons/table.yaml) lacks: {unknown:#?}"
    );
}

fn is_known(entry: &[String; 4]) -> bool {
    let [kind, type_, status, reason] = entry;
    let has = |reason: &str| {
        TABLE.contains(&[
            kind.clone(),
            type_.clone(),
            status.clone(),
            reason.to_owned(),
        ])
    };
    let repeats = REPEATING.contains(&type_.as_str())
        && has("*")
        && TABLE
            .iter()
            .any(|[of, _, _, other]| of == kind && other == reason);
    has(reason) || repeats
}

/// The conditions that Weft is responsible for: while another operator runs, Weft keeps those that
/// this operator has written.
fn conditions(object: &Value) -> Vec<[String; 4]> {
    let all = list(&object["status"]["conditions"]);
    let is_blocked = all
        .iter()
        .any(|one| one["reason"] == "OtherOperatorRunning");
    all.iter()
        .filter(|one| {
            !is_blocked
                || one["type"] == "Blocked"
                || REPEATING.iter().any(|repeating| one["type"] == *repeating)
        })
        .map(|one| {
            [
                &object["kind"],
                &one["type"],
                &one["status"],
                &one["reason"],
            ]
            .map(text)
        })
        .collect()
}

/// Reports whether Weft was the last to write the conditions.
fn is_written_by_weft(object: &Value) -> bool {
    list(&object["metadata"]["managedFields"])
        .iter()
        .any(|entry| {
            text(&entry["manager"]).starts_with("weft")
                && !entry["fieldsV1"]["f:status"]["f:conditions"].is_null()
        })
}
