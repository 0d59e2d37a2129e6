//! The CEL rules of the schema, evaluated in-process.

use super::addons_cases::{ACCEPTED, REFUSED_BY_RULE, object};
use kube_cel::{ValidationError, Validator};
use proptest::prelude::*;
use serde_json::{Value, json};
use weft_api::addons;

/// The one rule that kube-cel does not get right: it takes `_` in a field's name for something to
/// be escaped (Kubernetes: `__`), so that `has(self.NAME_SERVER_IP)` is never true in-process.
/// `crates/system-tests/tests/api/server.rs` checks the rule.
const MISSED_BY_KUBE_CEL: &str = "keep nameServerIP, remove NAME_SERVER_IP";

fn schema() -> Value {
    let crd = addons::crd();
    let schema = crd.spec.versions[0]
        .schema
        .as_ref()
        .unwrap()
        .open_api_v3_schema
        .as_ref()
        .unwrap();
    serde_json::to_value(schema).unwrap()
}

fn errors(schema: &Value, object: &Value) -> Vec<ValidationError> {
    Validator::new()
        .validate(schema, object, None)
        .map_or_else(|errors| errors.into_vec(), |()| vec![])
}

/// All rules below a schema: the path of the field and the message.
fn rules(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let message = rule["message"]
            .as_str()
            .unwrap_or_else(|| panic!("{path}: a rule without a message: {rule}"));
        found.push((path.to_owned(), message.to_owned()));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        rules(property, &path, found);
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            rules(&schema[below], &format!("{path}[]"), found);
        }
    }
}

#[test]
fn a_valid_configuration_is_accepted() {
    let schema = schema();
    for case in ACCEPTED {
        let errors = errors(&schema, &object("v1", case.spec));
        assert!(errors.is_empty(), "{}: {errors:#?}", case.name);
    }
}

#[test]
fn a_configuration_that_can_never_work_is_refused() {
    let schema = schema();
    for case in REFUSED_BY_RULE {
        let errors = errors(&schema, &object("v1", case.spec));
        if case.message == MISSED_BY_KUBE_CEL {
            assert!(
                errors.is_empty(),
                "kube-cel sees it now: the exception can go"
            );
            continue;
        }
        assert!(
            errors.iter().any(|error| error.field_path == case.field && error.message.contains(case.message)),
            "{}: {errors:#?}",
            case.spec
        );
    }
}

#[test]
fn another_name_is_refused() {
    let mut other = object("v1", "{}");
    other["metadata"]["name"] = json!("other");
    let errors = errors(&schema(), &other);
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].field_path, "metadata.name");
    assert!(errors[0].message.contains("set metadata.name to cluster"));
}

#[test]
fn the_table_has_a_case_for_and_against_each_rule() {
    let mut all = vec![];
    rules(&schema(), "", &mut all);
    // Of where pods may run there is a table of its own.
    all.retain(|(path, _)| {
        path != "metadata.name" && !path.starts_with("spec.placementConfiguration.")
    });
    assert!(all.len() > 20, "{all:?}");
    for (path, message) in all {
        let path = path.replace("[]", "[0]");
        let pointer = format!(
            "/{}",
            path.replace('[', ".").replace(']', "").replace('.', "/")
        );
        assert!(
            ACCEPTED.iter().any(|case| object("v1", case.spec)
                .pointer(&pointer)
                .is_some_and(|value| value != "" && !value.is_null())),
            "{path}: no case in which \"{message}\" holds"
        );
        assert!(
            REFUSED_BY_RULE
                .iter()
                .any(|case| case.field == path && message.contains(case.message)),
            "{path}: no case in which \"{message}\" is said"
        );
    }
}

proptest! {
    /// All octets count, in whatever notation the two ends are written.
    #[test]
    fn a_range_is_refused_exactly_if_it_is_backward(start in any::<[u8; 6]>(), end in any::<[u8; 6]>(), notations in any::<[u8; 2]>()) {
        let unicast = |mut octets: [u8; 6]| { octets[0] &= 0xfe; octets };
        let (start, end) = (unicast(start), unicast(end));
        let spec = json!({
            "kubeMacPool": {
                "rangeStart": text(start, notations[0]), "rangeEnd": text(end, notations[1])
            }
        });
        let errors = errors(&schema(), &json!({"metadata": {"name": "cluster"}, "spec": spec}));
        prop_assert_eq!(errors.is_empty(), start < end, "{:?}", errors);
    }
}

/// A MAC address in one of six notations.
fn text(octets: [u8; 6], notation: u8) -> String {
    let hex = octets.map(|octet| {
        if notation & 1 == 0 {
            format!("{octet:02x}")
        } else {
            format!("{octet:02X}")
        }
    });
    match notation / 2 % 3 {
        0 => hex.join(":"),
        1 => hex.join("-"),
        _ => hex
            .chunks(2)
            .map(|pair| pair.concat())
            .collect::<Vec<_>>()
            .join("."),
    }
}
