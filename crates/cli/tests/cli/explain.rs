//! `weft explain`: the words that it knows, mistypes, and JSON.

use std::path::Path;

use super::common::{printed, weft};
use serde_json::Value;

#[test]
fn a_reason_is_explained_with_kind_meaning_and_fix() {
    let text = printed(&["explain", "RolloutStuck"]);
    for line in [
        "Degraded=True RolloutStuck (NetworkAddonsConfig, NetworkConfig)",
        "  when: a pod has been in trouble and not ready for 120 s.",
        "  what to do: the message has the words of kubelet or scheduler",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    for (word, part) in [
        ("Pending", "Pending of NodeNetworkConfigurationEnactment: "),
        (
            "SizeLimitExceeded",
            "Complete=False SizeLimitExceeded (NodeNetworkState)",
        ),
        ("DBSyncReady", "DBSyncReady=False Error (PlacementAPI)"),
        ("ReconcileFailed", "event Warning ReconcileFailed"),
    ] {
        let text = printed(&["explain", word]);
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn the_case_of_letters_does_not_matter() {
    let text = printed(&["explain", "RolloutStuck"]);
    assert_eq!(printed(&["explain", "rolloutstuck"]), text);
    assert_eq!(printed(&["explain", "ROLLOUTSTUCK"]), text);
}

#[test]
fn a_mistype_gets_a_suggestion_and_another_word_the_way_to_the_list() {
    let run = weft(Path::new("."), &["explain", "RolloutStruck"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.contains("did you mean RolloutStuck?"), "{run:?}");
    let run = weft(Path::new("."), &["explain", "kubelet"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("weft explain lists all"), "{run:?}");
}

#[test]
fn the_list_has_every_word_and_json_has_the_fields_of_the_page() {
    let list = printed(&["explain"]);
    let table: Value = serde_json::from_str(&printed(&["explain", "-o", "json"])).unwrap();
    let sections = table["sections"].as_array().unwrap();
    for row in sections
        .iter()
        .flat_map(|section| section["rows"].as_array().unwrap())
    {
        for word in row["reasons"].as_array().unwrap() {
            let word = word.as_str().unwrap();
            assert!(word == "*" || list.contains(word), "{word}\n{list}");
        }
        assert!(row["when"].is_string() && row["fix"].is_string(), "{row}");
    }
    let one = printed(&["explain", "hostdiffers", "-o", "json"]);
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one["types"], Value::Array(Vec::new()));
    assert_eq!(one["sections"][0]["rows"][0]["types"][0], "Drifted");
    assert_eq!(one["sections"].as_array().unwrap().len(), 1);
}
