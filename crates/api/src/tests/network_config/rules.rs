//! The CEL rules of the schema, evaluated in-process.

use serde_json::{Value, json};
use weft_api::cluster_network;

use super::{
    cases::{cases, object},
    schema::{errors, rules},
    table::By,
};

/// The one case that kube-cel does not get right: it reads the length of an IPv6 prefix with leading
/// zeros. The API server, as `crates/system-tests/tests/api/network_config/server.rs` shows, does not.
const MISSED_BY_KUBE_CEL: &str = "fd01::/048";

fn schema() -> Value {
    let crd = cluster_network::crd();
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
        let errors = errors(&schema, &object(&case.spec));
        if case.spec.to_string().contains(MISSED_BY_KUBE_CEL) {
            assert!(
                errors.is_empty(),
                "kube-cel sees it now: the exception can go"
            );
            continue;
        }
        case.is_among(&errors);
    }
}

#[test]
fn another_name_is_refused() {
    let mut other = object(&cases().accepted[0].spec);
    other["metadata"]["name"] = json!("other");
    let errors = errors(&schema(), &other);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].message.contains("set metadata.name to default"));
}

#[test]
fn the_table_has_a_case_against_each_rule() {
    let mut all = rules(&schema());
    all.retain(|(path, _)| path != "metadata.name");
    assert!(all.len() > 25, "{all:?}");
    let cases = cases();
    let is_said = |path: &str, message: &str| {
        cases
            .refused
            .iter()
            .any(|case| case.is_against(path, message))
    };
    let silent: Vec<_> = all
        .iter()
        .filter(|(path, message)| !is_said(path, message))
        .collect();
    assert!(silent.is_empty(), "{silent:#?}");
}
