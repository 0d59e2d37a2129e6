#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

fn read<T: DeserializeOwned>(spec: &Value) -> Result<T, String> {
    serde_json::from_value(spec.clone()).map_err(|error| error.to_string())
}

/// The problems of an object that is named one.
fn problems(kind: &str, spec: &Value) -> Result<Vec<Problem>, String> {
    match kind {
        "NMState" => Ok(installation("one", &read(spec)?)),
        _ => Ok(policy("one", &read(spec)?)),
    }
}

/// The same table is asked of the schemas and of the API server, in the tests of the API.
#[test]
fn validation_agrees_with_the_api() {
    let cases: Value =
        serde_saphyr::from_str(include_str!("../../api/src/tests/node_network/cases.yaml"))
            .unwrap();
    let kind = |case: &Value| {
        case["kind"]
            .as_str()
            .unwrap_or("NodeNetworkConfigurationPolicy")
            .to_owned()
    };
    // Only the API server checks a NodeNetworkState.
    let cases_of = |outcome: &str| {
        let all = cases[outcome].as_array().unwrap().iter();
        all.filter(|case| kind(case) != "NodeNetworkState")
    };
    for case in cases_of("accepted") {
        assert_eq!(
            problems(&kind(case), &case["spec"]),
            Ok(vec![]),
            "{}",
            case["name"]
        );
    }
    for case in cases_of("refused") {
        // A value of the wrong type cannot be read, except in fields that keep everything.
        let typed = case["by"] == "schema"
            && case["message"]
                .as_str()
                .is_some_and(|message| message.contains("of type"));
        match problems(&kind(case), &case["spec"]) {
            Err(_) => assert!(case["by"] == "schema", "{case}"),
            Ok(_) if typed => {}
            Ok(problems) => {
                let field = case["field"]
                    .as_str()
                    .unwrap_or("spec.desiredState.interfaces");
                assert!(
                    problems
                        .iter()
                        .any(|problem| problem.field.starts_with(field)),
                    "{case}: {problems:?}"
                );
            }
        }
    }
}

#[test]
fn names_fit_into_labels() {
    let name = |length: usize| "a".repeat(length);
    assert_eq!(
        policy(&name(63), &NodeNetworkConfigurationPolicySpec::default()),
        []
    );
    assert_eq!(
        policy(&name(64), &NodeNetworkConfigurationPolicySpec::default())[0].field,
        "metadata.name"
    );
    assert_eq!(installation(&name(55), &NMStateSpec::default()), []);
    assert_eq!(
        installation(&name(56), &NMStateSpec::default())[0].field,
        "metadata.name"
    );
}

/// A rule that no regular expression can hold.
#[test]
fn a_range_that_runs_backwards_is_refused() {
    let spec = json!({
        "match": {"interfaces": {"name": "eth[4-1]"}},
        "desiredState": {"interfaces": [{"mtu": 9000}]}
    });
    assert_eq!(
        problems("", &spec).unwrap()[0].field,
        "spec.match.interfaces.name"
    );
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let spec = json!({
        "nodeSelector": {"a b": "c d"},
        "maxUnavailable": "half",
        "match": {"interfaces": {"name": "eth 1"}},
        "desiredState": {"interfaces": [{"mtu": 9000}, {"name": "eth1"}]},
        "probes": [{"icmp": {"host": "a b"}}],
        "onDelete": "undo",
    });
    let found = problems("", &spec).unwrap();
    let text: Vec<_> = found.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(text.join("\n"), @r#"
    spec.nodeSelector: "a b" must be the key of a label: up to 63 letters, digits, '-', '_' and '.', a letter or digit at both ends, with or without a DNS name and '/' before it
    spec.nodeSelector[a b]: "c d" must be the value of a label: at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends
    spec.maxUnavailable: "half" must be a number of nodes, for example 3, or a share of them, for example 50%
    spec.match.interfaces.name: "eth 1" must be the name of an interface or a pattern of such names, for example eth* or eth[1-4]: no blanks and '/', and a ] for each [
    spec.desiredState.interfaces[1].name: "eth1" must not be there with spec.match, since each interface stands for all that match: remove it, or spec.match
    spec.probes[0].icmp.host: "a b" must be an IP address or a DNS name, for example 192.0.2.1
    spec.onDelete: "undo" must be retain or revert
    "#);
}

#[test]
fn the_patterns_can_be_read() {
    for pattern in [
        patterns::LABEL_KEY,
        patterns::LABEL_VALUE,
        patterns::DNS_NAME,
        patterns::GLOB,
        patterns::INTERFACE_TYPE,
        patterns::MAX_UNAVAILABLE,
        patterns::WEB_ADDRESS,
        patterns::BIND_ADDRESS,
        patterns::DURATION,
    ] {
        Regex::new(pattern).unwrap();
    }
}

proptest! {
    /// The check of any policy ends with a list.
    #[test]
    fn nothing_that_can_be_read_stops_the_check(name in ".{0,80}", key in ".{0,8}", text in ".{0,40}", number in any::<i64>()) {
        let spec = json!({
            "nodeSelector": {key: text},
            "priority": number,
            "match": {"interfaces": {"name": text, "type": text}},
            "desiredState": {"interfaces": [{"name": text}, text, number]},
            "probes": [{"http": {"url": text}, "tcp": {"host": text, "port": number}}],
        });
        let spec = read(&spec).unwrap();
        prop_assert!(!policy(&name, &spec).is_empty());
    }
}

/// A capture in the place of the list would be left out without a word.
#[test]
fn bonding_wants_a_list_of_interfaces() {
    let policy = |interfaces: Value| {
        let spec = json!({
            "match": {"interfaces": {"lldp": {"vlan-ids": [101]}}},
            "autoConfig": {"autoBonding": true}, "desiredState": {"interfaces": interfaces}
        });
        problems("NodeNetworkConfigurationPolicy", &spec).unwrap()
    };
    assert_eq!(policy(json!([{"mtu": 9000}])), []);
    let refused = policy(json!("{{ capture.eths.interfaces }}"));
    assert_eq!(refused[0].field, "spec.desiredState.interfaces");
}
