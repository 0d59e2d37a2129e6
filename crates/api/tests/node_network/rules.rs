//! The CEL rules of the schemas, evaluated in-process.

use kube_cel::{ValidationError, Validator};
use serde_json::{Value, json};
use weft_api::node_network;

use crate::cases::{By, NAMES, cases, object};

const KINDS: [&str; 3] = [node_network::state::KIND, node_network::policy::KIND, node_network::installation::KIND];

fn schema(kind: &str) -> Value {
    let crd = node_network::crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    serde_json::to_value(crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap()).unwrap()
}

fn errors(object: &Value) -> Vec<ValidationError> {
    let schema = schema(object["kind"].as_str().unwrap());
    Validator::new().validate(&schema, object, None).map_or_else(|errors| errors.into_vec(), |()| vec![])
}

/// All rules below a schema: the path of the field and the message.
fn rules(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let message = rule["message"].as_str().unwrap_or_else(|| panic!("{path}: a rule without a message: {rule}"));
        found.push((format!("{path}{}", rule["fieldPath"].as_str().unwrap_or_default()), message.to_owned()));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        rules(property, &path, found);
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            rules(&schema[below], &format!("{path}[]"), found);
        }
    }
}

/// A path in one notation of the entries of lists and maps.
fn dotted(path: &str) -> String {
    path.trim_start_matches('.').replace('[', ".").replace(']', "")
}

/// A path with the keys and indices of its entries left out.
fn of_any_entry(path: &str) -> String {
    let mut parts = path.split('[');
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |path, part| path + "[]" + part.split_once(']').unwrap().1).trim_start_matches('.').to_owned()
}

#[test]
fn what_is_valid_is_accepted() {
    for case in cases().accepted {
        let errors = errors(&object(&case.kind, &case.spec));
        assert!(errors.is_empty(), "{}: {errors:#?}", case.name);
    }
}

#[test]
fn what_can_never_work_is_refused() {
    for case in cases().refused.into_iter().filter(|case| case.by == By::Rule) {
        let errors = errors(&object(&case.kind, &case.spec));
        let is_it = |error: &&ValidationError| dotted(&error.field_path) == dotted(&case.field);
        assert!(errors.iter().filter(is_it).any(|error| error.message.contains(&case.message)), "{}: {errors:#?}", case.spec);
    }
}

#[test]
fn names_fit_into_labels() {
    for (kind, length) in NAMES {
        let named = |length: usize| {
            let mut object = object(kind, &json!({}));
            object["metadata"]["name"] = json!("a".repeat(length));
            errors(&object)
        };
        assert!(named(length).is_empty(), "{kind}");
        let errors = named(length + 1);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].message.contains(&format!("no more than {length} characters")), "{errors:?}");
    }
}

#[test]
fn the_table_has_a_case_against_each_rule() {
    let cases = cases();
    for kind in KINDS {
        let mut all = vec![];
        rules(&schema(kind), "", &mut all);
        all.retain(|(path, _)| path != "metadata.name");
        assert!(!all.is_empty(), "{kind}");
        let is_said = |path: &str, message: &str| {
            let mut of_kind = cases.refused.iter().filter(|case| case.kind == kind);
            of_kind.any(|case| of_any_entry(&case.field) == path.trim_start_matches('.') && message.contains(&case.message))
        };
        let silent: Vec<_> = all.iter().filter(|(path, message)| !is_said(path, message)).collect();
        assert!(silent.is_empty(), "{kind}: {silent:#?}");
    }
}
