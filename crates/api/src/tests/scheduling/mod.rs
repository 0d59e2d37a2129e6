//! Where pods may run: what the definitions accept and refuse, in-process.

#[allow(dead_code, reason = "each user of the table uses a part")]
mod cases;

use super::schema;
use cases::{By, addons, cases};
use weft_api::addons::crd;

#[test]
fn rules_accept_and_refuse_what_the_table_says() {
    let crd = crd();
    let schema = serde_json::to_value(
        crd.spec.versions[0]
            .schema
            .as_ref()
            .unwrap()
            .open_api_v3_schema
            .as_ref()
            .unwrap(),
    )
    .unwrap();
    for case in cases().accepted {
        let errors = schema::errors(&schema, &addons(&case.spec));
        assert!(errors.is_empty(), "{}: {errors:#?}", case.name);
    }
    let dotted = |path: &str| path.replace('[', ".").replace(']', "");
    for case in cases().refused.iter().filter(|case| case.by == By::Rule) {
        let errors = schema::errors(&schema, &addons(&case.spec()));
        let field = dotted(&format!(
            "spec.placementConfiguration.workloads.{}",
            case.field()
        ));
        let is_it =
            |path: &str, message: &str| dotted(path) == field && message.contains(&case.message);
        assert!(
            errors
                .iter()
                .any(|error| is_it(&error.field_path, &error.message)),
            "{}: {errors:#?}",
            case.spec()
        );
    }
}

#[test]
fn each_rule_has_a_case_against_it() {
    let crd = crd();
    let schema = serde_json::to_value(
        crd.spec.versions[0]
            .schema
            .as_ref()
            .unwrap()
            .open_api_v3_schema
            .as_ref()
            .unwrap(),
    )
    .unwrap();
    let mut messages: Vec<_> = schema::rules(&schema)
        .into_iter()
        .filter(|(path, _)| path.contains("placementConfiguration."))
        .map(|(_, message)| message)
        .collect();
    messages.sort();
    messages.dedup();
    assert!(messages.len() > 10, "{messages:#?}");
    messages.retain(|message| {
        !cases()
            .refused
            .iter()
            .any(|case| case.by == By::Rule && message.contains(&case.message))
    });
    assert!(messages.is_empty(), "{messages:#?}");
}
