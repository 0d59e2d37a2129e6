//! The CEL rules of the schema, evaluated in-process.

use serde_json::Value;
use weft_api::placement;

use super::{
    cases::{cases, object},
    schema::{errors, of_any_entry, rules},
    table::By,
};

fn schema() -> Value {
    let crd = placement::crd();
    let schema = crd.spec.versions[0]
        .schema
        .as_ref()
        .unwrap()
        .open_api_v3_schema
        .as_ref()
        .unwrap();
    serde_json::to_value(schema).unwrap()
}

#[test]
fn a_valid_configuration_is_accepted() {
    let schema = schema();
    for case in cases().accepted {
        let errors = errors(&schema, &object(&case.spec));
        assert!(errors.is_empty(), "{}: {errors:#?}", case.name);
    }
}

#[test]
fn a_configuration_that_can_never_work_is_refused() {
    let schema = schema();
    for case in cases()
        .refused
        .into_iter()
        .filter(|case| case.by == By::Rule)
    {
        case.is_among(&errors(&schema, &object(&case.spec)));
    }
}

#[test]
fn the_table_has_a_case_against_each_rule() {
    let all = rules(&schema());
    assert!(all.len() > 40, "{all:?}");
    let cases = cases();
    // Where the message names the value, both begin alike.
    let alike = |message: &str, said: &str| {
        message.contains(said) || said.contains(message.split(':').next().unwrap_or(message))
    };
    let is_said = |path: &str, message: &str| {
        cases
            .refused
            .iter()
            .any(|case| of_any_entry(&case.field) == path && alike(message, &case.message))
    };
    let silent: Vec<_> = all
        .iter()
        .filter(|(path, message)| !is_said(path, message))
        .collect();
    assert!(silent.is_empty(), "{silent:#?}");
}
