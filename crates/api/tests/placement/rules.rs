//! The CEL rules of the schema, evaluated in-process.

use kube_cel::{ValidationError, Validator};
use serde_json::Value;
use weft_api::placement;

use crate::cases::{By, cases, object};

fn schema() -> Value {
    let crd = placement::crd();
    let schema = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
    serde_json::to_value(schema).unwrap()
}

fn errors(schema: &Value, object: &Value) -> Vec<ValidationError> {
    Validator::new().validate(schema, object, None).map_or_else(|errors| errors.into_vec(), |()| vec![])
}

/// All rules below a schema: the path of the field and the message. `*` stands for the key of a map.
fn rules(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let message = rule["message"].as_str().unwrap_or_else(|| panic!("{path}: a rule without a message: {rule}"));
        found.push((format!("{path}{}", rule["fieldPath"].as_str().unwrap_or_default()), message.to_owned()));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        rules(property, &path, found);
    }
    if schema["items"].is_object() {
        rules(&schema["items"], &format!("{path}[0]"), found);
    }
    if schema["additionalProperties"].is_object() {
        rules(&schema["additionalProperties"], &format!("{path}.public"), found);
    }
}

#[test]
fn what_is_valid_is_accepted() {
    let schema = schema();
    for case in cases().accepted {
        let errors = errors(&schema, &object(&case.spec));
        assert!(errors.is_empty(), "{}: {errors:#?}", case.name);
    }
}

#[test]
fn what_can_never_work_is_refused() {
    let schema = schema();
    for case in cases().refused.into_iter().filter(|case| case.by == By::Rule) {
        let errors = errors(&schema, &object(&case.spec));
        let said = errors.iter().any(|error| error.field_path == case.field && error.message.contains(&case.message));
        assert!(said, "{} {}: {errors:#?}", case.field, case.spec);
    }
}

#[test]
fn the_table_has_a_case_against_each_rule() {
    let mut all = vec![];
    rules(&schema(), "", &mut all);
    assert!(all.len() > 40, "{all:?}");
    let cases = cases();
    // Where the message names the value, both begin alike.
    let alike = |message: &str, said: &str| message.contains(said) || said.contains(message.split(':').next().unwrap_or(message));
    let is_said = |path: &str, message: &str| cases.refused.iter().any(|case| case.field == path && alike(message, &case.message));
    let silent: Vec<_> = all.iter().filter(|(path, message)| !is_said(path, message)).collect();
    assert!(silent.is_empty(), "{silent:#?}");
}
