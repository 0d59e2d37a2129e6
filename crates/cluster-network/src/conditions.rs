//! The conditions of the cluster's network.

use jiff::Timestamp;
use serde_json::Value;
use weft_api::Condition;
use weft_plan::{own_condition, report::Report};

use crate::removal;

/// Returns the usual conditions and Upgradeable.
///
/// Available and Progressing describe the network that is in force. A refused change and the state
/// of an additional network do not affect them.
pub(crate) fn conditions(report: &Report, previous: &Value, now: Timestamp) -> Vec<Condition> {
    let mut all = weft_plan::conditions(report, previous, now);
    if report.blocked.is_some() || report.removing {
        return all;
    }
    if report.effective.is_some() {
        let units = report
            .units
            .iter()
            .filter(|unit| removal::is_vital(&unit.name))
            .cloned()
            .collect();
        let in_force = weft_plan::conditions(
            &Report {
                refusal: None,
                units,
                ..report.clone()
            },
            previous,
            now,
        );
        for condition in all
            .iter_mut()
            .filter(|condition| ["Available", "Progressing"].contains(&&*condition.type_))
        {
            condition.clone_from(
                in_force
                    .iter()
                    .find(|other| other.type_ == condition.type_)
                    .unwrap_or(&condition.clone()),
            );
        }
    }
    all.push(own_condition(
        "Upgradeable",
        upgradeable(report),
        report,
        previous,
        now,
    ));
    all
}

/// Nobody should upgrade while it is open what the network is to be.
fn upgradeable(report: &Report) -> (bool, &'static str, String) {
    match &report.refusal {
        Some(refusal) if !refusal.changes.is_empty() => (
            false,
            "ChangeRefused",
            "a change of the network is refused: undo or force it first, see Degraded".to_owned(),
        ),
        _ => (true, "", String::new()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use weft_plan::{
        FieldChange, ObjectKey, Refusal, kinds,
        report::{Failure, FailureClass, UnitReport},
    };

    fn unit(name: &str, failure: Option<FailureClass>) -> UnitReport {
        let object = ObjectKey::new(kinds::CONFIG_MAP, "n", name);
        let failures = failure.map(|class| Failure {
            object,
            class,
            message: "no".into(),
        });
        UnitReport {
            name: name.into(),
            failures: failures.into_iter().collect(),
            workloads: Vec::new(),
        }
    }

    fn shown(report: &Report) -> Vec<String> {
        let all = conditions(report, &json!({}), "2026-01-01T00:00:00Z".parse().unwrap());
        all.iter()
            .map(|one| {
                format!(
                    "{}={} {}",
                    one.type_,
                    one.status,
                    one.reason.clone().unwrap_or_default()
                )
                .trim_end()
                .to_owned()
            })
            .collect()
    }

    #[test]
    fn a_refused_change_leaves_the_network_available_and_blocks_upgrades() {
        let change = FieldChange {
            field: "spec.x".into(),
            old: "1".into(),
            new: "2".into(),
            why: "it cuts connections".into(),
        };
        let refusal = Some(Refusal {
            reason: "InvalidOperatorConfig",
            problems: Vec::new(),
            changes: vec![change],
        });
        let in_force = Report {
            refusal,
            effective: Some(json!({})),
            units: vec![unit("default-network", None)],
            ..Report::default()
        };
        assert_eq!(
            shown(&in_force),
            [
                "Available=True",
                "Progressing=False",
                "Degraded=True InvalidOperatorConfig",
                "Upgradeable=False ChangeRefused"
            ]
        );
        let nothing_yet = Report {
            effective: None,
            ..in_force
        };
        assert_eq!(shown(&nothing_yet)[0], "Available=False Failing");
    }

    #[test]
    fn a_broken_additional_network_is_degraded_and_the_default_one_available() {
        let report = |broken: &str| Report {
            effective: Some(json!({})),
            units: [
                "default-network",
                "kube-proxy",
                "additional-network/default/a",
            ]
            .map(|name| unit(name, (name == broken).then_some(FailureClass::Foreign)))
            .to_vec(),
            ..Report::default()
        };
        assert_eq!(
            shown(&report("additional-network/default/a")),
            [
                "Available=True",
                "Progressing=False",
                "Degraded=True FailedToApply",
                "Upgradeable=True"
            ]
        );
        for vital in ["default-network", "kube-proxy"] {
            assert_eq!(
                shown(&report(vital))[0],
                "Available=False Failing",
                "{vital}"
            );
        }
        assert_eq!(
            shown(&report("")),
            [
                "Available=True",
                "Progressing=False",
                "Degraded=False",
                "Upgradeable=True"
            ]
        );
    }
}
