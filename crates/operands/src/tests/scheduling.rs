//! The checks of where pods may run, against the table that the schemas and the API server are
//! asked, too.

#[path = "../../../api/src/tests/scheduling/cases.rs"]
#[allow(dead_code, reason = "each user of the table uses a part")]
mod table;

use serde_json::Value;
use weft_operands::{
    problems::Problems,
    scheduling::{affinity, node_selector, tolerations},
};

fn found(spec: &Value) -> Vec<(String, String)> {
    let mut problems = Problems::default();
    node_selector(
        "nodeSelector",
        serde_json::from_value::<Option<_>>(spec["nodeSelector"].clone())
            .unwrap()
            .as_ref(),
        &mut problems,
    );
    affinity(
        "affinity",
        serde_json::from_value::<Option<_>>(spec["affinity"].clone())
            .unwrap()
            .as_ref(),
        &mut problems,
    );
    let tolerated: Option<Vec<_>> = serde_json::from_value(spec["tolerations"].clone()).unwrap();
    tolerations("tolerations", tolerated.as_deref(), &mut problems);
    problems
        .into_vec()
        .into_iter()
        .map(|problem| (problem.field, problem.message))
        .collect()
}

#[test]
fn validation_agrees_with_the_api() {
    let cases = table::cases();
    for case in cases.accepted {
        assert_eq!(found(&case.spec), [], "{}", case.name);
    }
    for case in cases.refused {
        let problems = found(&case.spec());
        let is_it = |(field, message): &(String, String)| {
            *field == case.field()
                && (case.by != table::By::Check || message.contains(&case.message))
        };
        assert!(
            problems.iter().any(is_it),
            "{} {}: {problems:#?}",
            case.field(),
            case.spec()
        );
    }
}

#[test]
fn a_problem_has_the_value_the_rule_and_the_way_out() {
    let spec = serde_json::json!({
        "tolerations": [
            {"key": "a", "operator": "Exits"}, {"key": "a", "operator": "Exists", "value": "b"}
        ]
    });
    assert_eq!(
        found(&spec),
        [
            (
                "tolerations[0].operator",
                "\"Exits\" must be Equal, Exists, Lt or Gt"
            ),
            (
                "tolerations[1].value",
                "\"b\" must be empty where operator is Exists: remove it, or set operator to Equal"
            ),
        ]
        .map(|(field, message)| (field.to_owned(), message.to_owned()))
    );
}
