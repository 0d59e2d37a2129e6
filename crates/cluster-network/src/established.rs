//! Finds out if pods already use the default network: it has once been on all nodes. Noted in the
//! status, for good.

use serde_json::Value;
use weft_plan::{report::Report, rollout::Rollout};

use crate::build::DEFAULT_NETWORK;

/// Reports whether the network of this type has once been on all nodes, as the status says.
pub(crate) fn has_been(status: &Value, network: &str) -> bool {
    status["establishedNetwork"] == network
}

/// The type of the network, if it is on all nodes now.
pub(crate) fn network(report: &Report) -> Option<String> {
    let unit = report.units.iter().find(|unit| {
        unit.name == DEFAULT_NETWORK && !report.starting && unit.failures.is_empty()
    })?;
    let is_there = !unit.workloads.is_empty()
        && unit
            .workloads
            .iter()
            .all(|workload| workload.rollout == Rollout::Ready);
    let network = report.effective.as_ref()?["defaultNetwork"]["type"].as_str()?;
    is_there.then(|| network.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use serde_json::json;
    use weft_plan::{
        ObjectKey, kinds,
        report::{Failure, FailureClass, UnitReport, WorkloadReport},
    };

    fn report(rollouts: &[Rollout]) -> Report {
        let workload = |rollout: &Rollout| WorkloadReport {
            object: ObjectKey::new(kinds::DAEMON_SET, "n", "d"),
            rollout: rollout.clone(),
        };
        let unit = |name: &str, rollouts: &[Rollout]| UnitReport {
            name: name.to_owned(),
            failures: Vec::new(),
            workloads: rollouts.iter().map(workload).collect(),
        };
        Report {
            generation: 3,
            effective: Some(json!({"defaultNetwork": {"type": "Flannel"}})),
            units: vec![
                unit("kube-proxy", &[starting()]),
                unit(DEFAULT_NETWORK, rollouts),
            ],
            ..Report::default()
        }
    }

    fn starting() -> Rollout {
        Rollout::Progressing {
            message: "awaiting 1 nodes".to_owned(),
            deadline: None,
        }
    }

    fn established(previous: &Value, report: &Report) -> Value {
        crate::status::status(&Settings::default(), previous, Vec::new(), report)["establishedNetwork"].clone()
    }

    #[test]
    fn a_network_is_established_once_it_has_been_on_all_nodes_and_stays_so() {
        let none = json!({});
        assert_eq!(established(&none, &report(&[starting()])), Value::Null);
        assert_eq!(
            established(&none, &report(&[Rollout::Ready, starting()])),
            Value::Null
        );
        assert_eq!(
            established(&none, &report(&[])),
            Value::Null,
            "nothing is there"
        );
        assert_eq!(
            established(
                &none,
                &Report {
                    starting: true,
                    ..report(&[Rollout::Ready])
                }
            ),
            Value::Null
        );
        let object = ObjectKey::new(kinds::CONFIG_MAP, "n", "c");
        let failure = Failure {
            object,
            class: FailureClass::Transient,
            message: String::new(),
        };
        let mut failed = report(&[Rollout::Ready]);
        failed.units[1].failures.push(failure);
        assert_eq!(established(&none, &failed), Value::Null);

        let there = crate::status::status(
            &Settings::default(),
            &none,
            Vec::new(),
            &report(&[Rollout::Ready]),
        );
        assert_eq!(
            there["establishedNetwork"], "Flannel",
            "other units do not matter"
        );
        assert!(has_been(&there, "Flannel") && !has_been(&there, "OpenShiftSDN"));
        assert_eq!(established(&there, &report(&[starting()])), "Flannel");
        assert_eq!(established(&there, &Report::default()), "Flannel");
    }
}
