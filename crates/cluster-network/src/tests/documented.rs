//! The examples of the page about the cluster's network lead to what it says.

use std::collections::BTreeSet;

use super::common;
use serde_json::Value;
use weft_cluster_network::ClusterNetwork;

const PAGE: &str = include_str!("../../../../docs/cluster-network.md");

/// The examples, each with its heading.
fn examples() -> Vec<(String, Value)> {
    let mut heading = "";
    let mut found = Vec::new();
    let mut block: Option<String> = None;
    for line in PAGE.lines() {
        match (&mut block, line) {
            (None, "```yaml") => block = Some(String::new()),
            (Some(text), "```") => {
                let value: Value = serde_saphyr::from_str(text).unwrap();
                if value["kind"] == "NetworkConfig" {
                    found.push((heading.to_owned(), value));
                }
                block = None;
            }
            (Some(text), line) => *text += &format!("{line}\n"),
            (None, line) if line.starts_with('#') => heading = line.trim_start_matches('#').trim(),
            _ => {}
        }
    }
    found
}

#[test]
fn every_example_is_valid_and_waits_for_nothing() {
    let examples = examples();
    assert!(
        examples.len() >= 6,
        "only {} examples were found: is this test still reading the page?",
        examples.len()
    );
    for (heading, example) in examples {
        let decision = common::decide(&ClusterNetwork::new(common::settings()), &example);
        assert_eq!(decision.waits, [], "{heading}");
    }
}

#[test]
fn the_settings_of_flannel_are_shown_with_their_defaults() {
    let (_, mut example) = examples()
        .into_iter()
        .find(|(heading, _)| heading == "Flannel")
        .unwrap();
    let decided =
        |example: &Value| common::decide(&ClusterNetwork::new(common::settings()), example).decided;
    let shown = decided(&example);
    let fields = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<BTreeSet<_>>()
    };
    let network = &shown["defaultNetwork"]["flannelConfig"];
    assert_eq!(
        fields(&example["spec"]["defaultNetwork"]["flannelConfig"]),
        fields(network),
        "no field is left out"
    );
    example["spec"]["defaultNetwork"]
        .as_object_mut()
        .unwrap()
        .remove("flannelConfig");
    assert_eq!(
        &decided(&example)["defaultNetwork"]["flannelConfig"],
        network
    );
}
