#![allow(clippy::unwrap_used)]
use serde_json::{Value, json};
use weft_plan::{
    Notice, ObjectKey, kinds,
    report::{Failure, FailureClass, Report, UnitReport, WorkloadReport},
    rollout::Rollout,
};

use super::*;

fn report(rollouts: &[Rollout]) -> Report {
    let workload = |rollout: &Rollout| WorkloadReport { object: ObjectKey::new(kinds::DAEMON_SET, "n", "d"), rollout: rollout.clone() };
    let unit = |name: &str, rollouts: &[Rollout]| UnitReport {
        name: name.to_owned(),
        failures: Vec::new(),
        workloads: rollouts.iter().map(workload).collect(),
    };
    Report {
        generation: 3,
        effective: Some(json!({"defaultNetwork": {"type": "Flannel"}})),
        units: vec![unit("kube-proxy", &[starting()]), unit(DEFAULT_NETWORK, rollouts)],
        notices: vec![Notice { about: DEFAULT_NETWORK.to_owned(), message: "nodes differ".to_owned() }],
        ..Report::default()
    }
}

fn starting() -> Rollout {
    Rollout::Progressing { message: "awaiting 1 nodes".to_owned(), deadline: None }
}

fn established(previous: &Value, report: &Report) -> Value {
    status(previous, Vec::new(), report)["establishedNetwork"].clone()
}

#[test]
fn a_network_is_established_once_it_has_been_on_all_nodes_and_stays_so() {
    let none = json!({});
    assert_eq!(established(&none, &report(&[starting()])), Value::Null);
    assert_eq!(established(&none, &report(&[Rollout::Ready, starting()])), Value::Null);
    assert_eq!(established(&none, &report(&[])), Value::Null, "nothing is there");
    assert_eq!(established(&none, &Report { starting: true, ..report(&[Rollout::Ready]) }), Value::Null);
    let object = ObjectKey::new(kinds::CONFIG_MAP, "n", "c");
    let failure = Failure { object, class: FailureClass::Transient, message: String::new() };
    let mut failed = report(&[Rollout::Ready]);
    failed.units[1].failures.push(failure);
    assert_eq!(established(&none, &failed), Value::Null);

    let there = status(&none, Vec::new(), &report(&[Rollout::Ready]));
    assert_eq!(there["establishedNetwork"], "Flannel", "other units do not matter");
    assert!(has_been_established(&there, "Flannel") && !has_been_established(&there, "OpenShiftSDN"));
    assert_eq!(established(&there, &report(&[starting()])), "Flannel");
    assert_eq!(established(&there, &Report::default()), "Flannel");
}

#[test]
fn notices_are_told() {
    let told = status(&json!({}), Vec::new(), &report(&[]));
    assert_eq!(told["notices"], json!([{"about": "default-network", "message": "nodes differ"}]));
}
