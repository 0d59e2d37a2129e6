//! The CEL rules of the schemas, evaluated in-process.

use kube_cel::ValidationError;
use serde_json::{Value, json};
use weft_api::node_network;

use super::{
    cases::{NAMES, cases, object},
    schema,
    table::By,
};

const KINDS: [&str; 3] = [
    node_network::state::KIND,
    node_network::policy::KIND,
    node_network::installation::KIND,
];

fn schema(kind: &str) -> Value {
    let crd = node_network::crds()
        .into_iter()
        .find(|crd| crd.spec.names.kind == kind)
        .unwrap();
    serde_json::to_value(
        crd.spec.versions[0]
            .schema
            .as_ref()
            .unwrap()
            .open_api_v3_schema
            .as_ref()
            .unwrap(),
    )
    .unwrap()
}

fn errors(object: &Value) -> Vec<ValidationError> {
    schema::errors(&schema(object["kind"].as_str().unwrap()), object)
}

#[test]
fn a_valid_configuration_is_accepted() {
    for case in cases().accepted {
        let errors = errors(&object(&case.kind, &case.spec));
        assert!(errors.is_empty(), "{}: {errors:#?}", case.name);
    }
}

#[test]
fn a_configuration_that_can_never_work_is_refused() {
    for case in cases()
        .refused
        .into_iter()
        .filter(|case| case.by == By::Rule)
    {
        case.is_among(&errors(&object(&case.kind, &case.spec)));
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
        assert!(
            errors[0]
                .message
                .contains(&format!("no more than {length} characters")),
            "{errors:?}"
        );
    }
}

#[test]
fn the_table_has_a_case_against_each_rule() {
    let cases = cases();
    for kind in KINDS {
        let mut all = schema::rules(&schema(kind));
        // Of where pods may run there is a table of its own.
        let is_scheduling = |path: &str| {
            kind == node_network::installation::KIND
                && ["odeSelector", "ffinity", "olerations"]
                    .iter()
                    .any(|name| path.contains(name))
        };
        all.retain(|(path, _)| path != "metadata.name" && !is_scheduling(path));
        assert!(!all.is_empty(), "{kind}");
        let is_said = |path: &str, message: &str| {
            cases
                .refused
                .iter()
                .any(|case| case.kind == kind && case.is_against(path, message))
        };
        let silent: Vec<_> = all
            .iter()
            .filter(|(path, message)| !is_said(path, message))
            .collect();
        assert!(silent.is_empty(), "{kind}: {silent:#?}");
    }
}
