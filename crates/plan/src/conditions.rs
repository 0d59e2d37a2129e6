//! The conditions that report the state of a resource, in the words of the operators that users and
//! their tools know.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use weft_api::Condition;

use crate::{
    Deviation, Drift,
    drift::{self, PAUSE_ANNOTATION},
    escape,
    health::whole_seconds,
    report::{FailureClass, Paused, Report},
    rollout::Rollout,
};

/// The content of one condition, before it has a time.
struct Verdict {
    status: bool,
    reason: &'static str,
    message: String,
}

fn verdict(status: bool, reason: &'static str, message: impl Into<String>) -> Verdict {
    Verdict {
        status,
        reason,
        message: message.into(),
    }
}

/// All is as it should be: such a condition has neither reason nor message.
fn plain(status: bool) -> Verdict {
    verdict(status, "", "")
}

/// The conditions of a resource after a reconcile: Available, Progressing and Degraded, and while
/// they hold, Blocked (another user has the domain), Paused and Drifted (objects are left as they
/// should not be). Conditions of other types are not kept: they were written by versions long gone.
///
/// `previous` is the status as it stands. A condition whose status does not change keeps its
/// transition time.
pub fn conditions(report: &Report, previous: &Value, now: Timestamp) -> Vec<Condition> {
    let previous: Vec<Condition> =
        serde_json::from_value(previous["conditions"].clone()).unwrap_or_default();
    if let Some(blocked) = &report.blocked {
        // The other operator goes on writing its own conditions: they stay as they are.
        let mut all: Vec<_> = previous
            .iter()
            .filter(|condition| condition.type_ != "Blocked")
            .cloned()
            .collect();
        all.push(condition(
            "Blocked",
            &verdict(true, blocked.reason, &blocked.message),
            report.generation,
            &previous,
            now,
        ));
        if !blocked.is_by_running_operator() {
            // Nobody else reports whether the resource is available, and Weft cannot know.
            let unknown = || {
                condition_with(
                    "Available",
                    "Unknown",
                    &verdict(false, blocked.reason, &blocked.message),
                    report.generation,
                    &previous,
                    now,
                )
            };
            all.iter_mut()
                .filter(|one| one.type_ == "Available")
                .for_each(|one| *one = unknown());
        }
        return all;
    }
    let degraded = degraded(report);
    let progressing = progressing(report, &degraded);
    let available = available(report, &degraded, &progressing);
    let mut verdicts = vec![
        ("Available", available),
        ("Progressing", progressing),
        ("Degraded", degraded),
    ];
    verdicts.extend(
        report
            .paused
            .as_ref()
            .map(|paused| ("Paused", paused_by(paused, report.removing))),
    );
    verdicts.extend((!report.drift.is_empty()).then(|| (drift::CONDITION, drifted(report))));
    verdicts
        .iter()
        .map(|(name, verdict)| condition(name, verdict, report.generation, &previous, now))
        .collect()
}

/// A condition next to the usual ones, which keeps its transition time as they do. `previous` is
/// the status as it stands.
pub fn own_condition(
    name: &str,
    said: (bool, &'static str, String),
    report: &Report,
    previous: &Value,
    now: Timestamp,
) -> Condition {
    let previous: Vec<Condition> =
        serde_json::from_value(previous["conditions"].clone()).unwrap_or_default();
    let (status, reason, message) = said;
    condition(
        name,
        &Verdict {
            status,
            reason,
            message,
        },
        report.generation,
        &previous,
        now,
    )
}

fn condition(
    name: &str,
    verdict: &Verdict,
    generation: i64,
    previous: &[Condition],
    now: Timestamp,
) -> Condition {
    condition_with(
        name,
        if verdict.status { "True" } else { "False" },
        verdict,
        generation,
        previous,
        now,
    )
}

/// A condition with this status, and with the reason and the message of a verdict.
fn condition_with(
    name: &str,
    status: &str,
    verdict: &Verdict,
    generation: i64,
    previous: &[Condition],
    now: Timestamp,
) -> Condition {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let unchanged = previous
        .iter()
        .find(|condition| condition.type_ == name && condition.status == status);
    Condition {
        type_: name.to_owned(),
        status: status.to_owned(),
        reason: text(verdict.reason),
        message: text(&escape::text(&verdict.message)),
        last_transition_time: unchanged
            .and_then(|condition| condition.last_transition_time.clone())
            .or_else(|| Some(Time(whole_seconds(now)))),
        last_heartbeat_time: None,
        observed_generation: Some(generation),
    }
}

fn paused_by(paused: &Paused, removing: bool) -> Verdict {
    let value = &paused.value;
    let taken = if value == "true" {
        ""
    } else {
        ", which counts as true"
    };
    let after = if removing {
        "then the components are removed"
    } else {
        "then Weft goes on"
    };
    let message = format!(
        "the annotation {PAUSE_ANNOTATION} is {value:?}{taken}: nothing is written but this status. Remove it or set it to false, {after}"
    );
    verdict(true, "Annotated", message)
}

fn drifted(report: &Report) -> Verdict {
    let asked_for: Vec<_> = report
        .drift
        .iter()
        .filter(|drift| drift.is_asked_for())
        .cloned()
        .collect();
    let (reason, why) = match report.paused {
        Some(_) => ("ResourcePaused", "the resource is paused"),
        None => ("Reported", "driftPolicy is Report"),
    };
    let mut parts = Vec::new();
    if !asked_for.is_empty() {
        let (count, names) = (drift::count(&asked_for), drift::human(&asked_for));
        let verb = if asked_for.len() == 1 { "is" } else { "are" };
        parts.push((
            reason,
            format!("{count} and {verb} left so, since {why}: {names}"),
        ));
    }
    parts.extend(resisting(&report.drift));
    let reason = parts.first().map(|(reason, _)| *reason).unwrap_or_default();
    let texts: Vec<_> = parts.into_iter().map(|(_, text)| text).collect();
    verdict(true, reason, texts.join("\n"))
}

/// Returns the reasons of the condition Drifted with their messages, for the objects whose repairs do
/// not last.
#[must_use]
pub fn resisting(drift: &[Drift]) -> Vec<(&'static str, String)> {
    let (altered, contested): (Vec<_>, Vec<_>) = drift
        .iter()
        .filter(|drift| !drift.is_asked_for())
        .cloned()
        .partition(|drift| matches!(drift.deviation, Deviation::Altered { .. }));
    let mut reasons = Vec::new();
    if !altered.is_empty() {
        let (count, names) = (drift::count(&altered), drift::human(&altered));
        reasons.push(("Altered", format!(
            "{count}, because an admission policy or webhook changes what Weft applies. Weft applies it again when a policy or webhook changes, and after pauses of up to 5 minutes where it cannot see that: {names}"
        )));
    }
    if !contested.is_empty() {
        let (count, names) = (drift::count(&contested), drift::human(&contested));
        reasons.push(("Contested", format!(
            "{count}, because another client writes a field again each time. Weft repairs it after pauses of up to 5 minutes, until the other one stops: {names}"
        )));
    }
    reasons
}

/// Reports whether the resource asks for something that a pause keeps from being done.
fn is_pending(report: &Report) -> bool {
    report.paused.as_ref().is_some_and(|paused| paused.pending)
}

fn degraded(report: &Report) -> Verdict {
    if let Some(refusal) = &report.refusal {
        let problems: Vec<_> = refusal.problems.iter().map(ToString::to_string).collect();
        let what = if refusal.changes.is_empty() {
            "invalid configuration"
        } else {
            "not applying unsafe change"
        };
        return verdict(
            true,
            refusal.reason,
            format!("{what}: {}", problems.join("\n")),
        );
    }
    let failures: Vec<_> = report
        .units
        .iter()
        .flat_map(|unit| {
            unit.failures.iter().map(move |failure| {
                format!(
                    "{}: {}: {}",
                    unit.name,
                    failure.object.human(),
                    failure.message
                )
            })
        })
        .collect();
    if !failures.is_empty() {
        let bug = report
            .units
            .iter()
            .flat_map(|unit| &unit.failures)
            .any(|failure| failure.class == FailureClass::Bug);
        return verdict(
            true,
            if bug {
                "InternalError"
            } else {
                "FailedToApply"
            },
            failures.join("\n"),
        );
    }
    let blockers: Vec<_> = report
        .removals
        .iter()
        .filter_map(|removal| {
            Some(format!(
                "{}: {}",
                removal.object.human(),
                removal.blocker.as_ref()?
            ))
        })
        .collect();
    if !blockers.is_empty() {
        return verdict(true, "FailedToDeleteObjects", blockers.join("\n"));
    }
    let lost: Vec<_> = report
        .drift
        .iter()
        .filter(|drift| drift.is_loss())
        .cloned()
        .collect();
    if !lost.is_empty() {
        let way_out = if report.paused.is_some() {
            "end the pause"
        } else {
            "set driftPolicy to Repair"
        };
        return verdict(
            true,
            "ObjectsMissing",
            format!(
                "not there, and left so: {}. To have all of it again, {way_out}",
                drift::human(&lost)
            ),
        );
    }
    let harmed: Vec<_> = report
        .drift
        .iter()
        .filter(|drift| drift.harms())
        .cloned()
        .collect();
    if !harmed.is_empty() {
        return verdict(
            true,
            "ObjectsAltered",
            format!(
                "others have changed what a component needs, see the condition Drifted: {}",
                drift::human(&harmed)
            ),
        );
    }
    let stuck = rollouts(report, |rollout| match rollout {
        Rollout::Stuck { message, .. } => Some(message),
        _ => None,
    });
    if stuck.is_empty() {
        plain(false)
    } else {
        verdict(true, "RolloutStuck", stuck.join("\n"))
    }
}

fn progressing(report: &Report, degraded: &Verdict) -> Verdict {
    if report.removing && report.paused.is_some() {
        return verdict(
            false,
            "ResourcePaused",
            "nothing is removed during the pause",
        );
    }
    if report.removing {
        let left: Vec<_> = report
            .removals
            .iter()
            .map(|removal| removal.object.human())
            .collect();
        return verdict(
            true,
            "Removing",
            if left.is_empty() {
                "removing all components".to_owned()
            } else {
                format!("waiting for {}", left.join(", "))
            },
        );
    }
    let waits_for_people = |class: FailureClass| match class {
        FailureClass::Absent
        | FailureClass::Invalid
        | FailureClass::Refused
        | FailureClass::Foreign => true,
        FailureClass::Forbidden | FailureClass::Bug => true,
        FailureClass::Leaving | FailureClass::Conflict | FailureClass::Transient => false,
    };
    let mut classes = report
        .units
        .iter()
        .flat_map(|unit| &unit.failures)
        .map(|failure| failure.class);
    if report.refusal.is_some() || degraded.status && classes.any(waits_for_people) {
        return verdict(
            false,
            "InvalidConfiguration",
            "somebody has to act: the Degraded condition says what is wrong and what to do",
        );
    }
    if is_pending(report) {
        return verdict(
            false,
            "ResourcePaused",
            "what the configuration asks for waits for the end of the pause",
        );
    }
    if degraded.status && matches!(degraded.reason, "ObjectsMissing" | "ObjectsAltered") {
        return verdict(
            false,
            degraded.reason,
            "somebody has to act: the Degraded condition says what is wrong and what to do",
        );
    }
    if report.starting {
        return verdict(true, "Deploying", "applying the configuration");
    }
    let mut lines = rollouts(report, |rollout| match rollout {
        Rollout::Progressing { message, .. } | Rollout::Stuck { message, .. } => Some(message),
        Rollout::Ready => None,
    });
    if degraded.status && lines.is_empty() {
        lines.push("trying again".to_owned());
    }
    if lines.is_empty() {
        plain(false)
    } else {
        verdict(true, "Deploying", lines.join("\n"))
    }
}

fn available(report: &Report, degraded: &Verdict, progressing: &Verdict) -> Verdict {
    if report.removing {
        verdict(false, "Removing", "the configuration is being deleted")
    } else if degraded.status && degraded.reason == "RolloutStuck" {
        verdict(
            false,
            "Failing",
            "pods of a component are in trouble: see Degraded",
        )
    } else if degraded.status && degraded.reason == "ObjectsMissing" {
        verdict(false, "Failing", "objects are missing: see Degraded")
    } else if degraded.status && degraded.reason == "ObjectsAltered" {
        verdict(
            false,
            "Failing",
            "others have changed objects: see Degraded",
        )
    } else if degraded.status {
        verdict(
            false,
            "Failing",
            "the configuration could not be applied as it is: see Degraded",
        )
    } else if is_pending(report) {
        verdict(
            false,
            "ResourcePaused",
            "what the configuration asks for waits for the end of the pause",
        )
    } else if progressing.status {
        verdict(false, "Startup", "the configuration is being applied")
    } else {
        plain(true)
    }
}

fn rollouts<'a>(
    report: &'a Report,
    pick: impl Fn(&'a Rollout) -> Option<&'a String>,
) -> Vec<String> {
    let workloads = report.units.iter().flat_map(|unit| &unit.workloads);
    workloads
        .filter_map(|workload| {
            let name = format!(
                "{}/{}",
                workload.object.namespace.as_deref().unwrap_or_default(),
                workload.object.name
            );
            Some(format!(
                "{} {name:?} {}",
                workload.object.kind.kind,
                pick(&workload.rollout)?
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        Difference, ObjectKey, Problem, Refusal, What, kinds,
        report::{Blocked, Failure, UnitReport, WorkloadReport},
    };
    use serde_json::json;

    fn report(units: Vec<UnitReport>) -> Report {
        Report {
            generation: 3,
            units,
            ..Default::default()
        }
    }

    fn unit(failures: Vec<Failure>, rollout: Rollout) -> UnitReport {
        let object = ObjectKey::new(kinds::DAEMON_SET, "n", "d");
        UnitReport {
            name: "multus".into(),
            failures,
            workloads: vec![WorkloadReport { object, rollout }],
        }
    }

    fn shown(report: &Report) -> Vec<String> {
        let now = "2026-01-01T00:00:00.5Z".parse().unwrap();
        conditions(report, &json!({}), now)
            .into_iter()
            .map(|c| {
                format!(
                    "{}={} {} {}",
                    c.type_,
                    c.status,
                    c.reason.unwrap_or_default(),
                    c.message.unwrap_or_default()
                )
                .trim_end()
                .to_owned()
            })
            .collect()
    }

    #[test]
    fn all_well_has_neither_reasons_nor_messages() {
        assert_eq!(
            shown(&report(vec![unit(vec![], Rollout::Ready)])),
            ["Available=True", "Progressing=False", "Degraded=False"]
        );
    }

    #[test]
    fn a_rollout_is_progress_and_not_available() {
        let rolling = Rollout::Progressing {
            message: "is not available (awaiting 1 nodes)".into(),
            deadline: None,
        };
        assert_eq!(
            shown(&report(vec![unit(vec![], rolling)])),
            [
                "Available=False Startup the configuration is being applied",
                "Progressing=True Deploying DaemonSet \"n/d\" is not available (awaiting 1 nodes)",
                "Degraded=False"
            ]
        );
    }

    #[test]
    fn available_and_degraded_never_hold_together() {
        let failure = |class| Failure {
            object: ObjectKey::new(kinds::CLUSTER_ROLE, "", "r"),
            class,
            message: "no".into(),
        };
        let stuck = Rollout::Stuck {
            cause: "ImagePullBackOff".into(),
            message: "m".into(),
        };
        let refused = Report {
            refusal: Some(Refusal {
                reason: "FailedToValidate",
                problems: vec![Problem {
                    field: "spec.x".into(),
                    message: "bad".into(),
                }],
                changes: Vec::new(),
            }),
            ..report(vec![])
        };
        for (report, reason) in [
            (
                report(vec![unit(
                    vec![failure(FailureClass::Forbidden)],
                    Rollout::Ready,
                )]),
                "FailedToApply",
            ),
            (
                report(vec![unit(
                    vec![failure(FailureClass::Transient)],
                    Rollout::Ready,
                )]),
                "FailedToApply",
            ),
            (
                report(vec![unit(vec![failure(FailureClass::Bug)], Rollout::Ready)]),
                "InternalError",
            ),
            (report(vec![unit(vec![], stuck)]), "RolloutStuck"),
            (refused, "FailedToValidate"),
        ] {
            let lines = shown(&report);
            assert!(lines[0].starts_with("Available=False Failing"), "{lines:?}");
            assert!(
                lines[2].starts_with(&format!("Degraded=True {reason}")),
                "{lines:?}"
            );
        }
    }

    fn drift(deviation: Deviation) -> Drift {
        Drift {
            unit: "multus".into(),
            object: ObjectKey::new(kinds::CONFIG_MAP, "n", "c"),
            deviation,
        }
    }

    fn changed() -> Drift {
        drift(Deviation::Changed(vec![Difference {
            path: "data.k".into(),
            what: What::Missing {
                desired: json!("v"),
            },
        }]))
    }

    #[test]
    fn changed_drift_that_stays_is_reported_and_does_no_harm() {
        assert_eq!(
            shown(&Report {
                drift: vec![changed()],
                ..report(vec![unit(vec![], Rollout::Ready)])
            }),
            [
                "Available=True",
                "Progressing=False",
                "Degraded=False",
                "Drifted=True Reported 1 object is not as it should be and is left so, since driftPolicy is Report: ConfigMap n/c (data.k)"
            ]
        );
    }

    #[test]
    fn missing_objects_that_stay_missing_are_not_available() {
        let nothing_yet = Rollout::Progressing {
            message: "does not exist yet".into(),
            deadline: None,
        };
        let lines = shown(&Report {
            drift: vec![changed(), drift(Deviation::Missing)],
            ..report(vec![unit(vec![], nothing_yet)])
        });
        assert_eq!(
            lines[0],
            "Available=False Failing objects are missing: see Degraded"
        );
        assert!(
            lines[1].starts_with("Progressing=False ObjectsMissing"),
            "{lines:?}"
        );
        assert_eq!(
            lines[2],
            "Degraded=True ObjectsMissing not there, and left so: ConfigMap n/c (missing). To have all of it again, set driftPolicy to Repair"
        );
        assert!(
            lines[3].starts_with("Drifted=True Reported 2 objects"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_pause_is_told_and_available_stays_true_only_about_what_is_there() {
        let paused = |value: &str, pending| {
            Some(Paused {
                value: value.into(),
                pending,
            })
        };
        let quiet = Report {
            paused: paused("true", false),
            ..report(vec![unit(vec![], Rollout::Ready)])
        };
        assert_eq!(
            shown(&quiet),
            [
                "Available=True",
                "Progressing=False",
                "Degraded=False",
                "Paused=True Annotated the annotation weft.network/pause is \"true\": nothing is written but this status. Remove it or set it to false, then Weft goes on"
            ]
        );
        assert!(
            shown(&Report {
                paused: paused("yes", false),
                ..quiet.clone()
            })[3]
                .contains("is \"yes\", which counts as true: nothing")
        );
        let waiting = shown(&Report {
            paused: paused("true", true),
            drift: vec![drift(Deviation::Pending)],
            ..quiet.clone()
        });
        assert_eq!(
            waiting[0],
            "Available=False ResourcePaused what the configuration asks for waits for the end of the pause"
        );
        assert!(
            waiting[1].starts_with("Progressing=False ResourcePaused"),
            "{waiting:?}"
        );
        assert_eq!(
            waiting[2], "Degraded=False",
            "that it is not there yet is no failure"
        );
        assert!(
            waiting[4].starts_with("Drifted=True ResourcePaused 1 object"),
            "{waiting:?}"
        );
        let lost = shown(&Report {
            drift: vec![drift(Deviation::BeingDeleted)],
            ..quiet.clone()
        });
        assert!(
            lost[0].starts_with("Available=False Failing") && lost[2].ends_with("end the pause"),
            "{lost:?}"
        );
        let going = shown(&Report {
            removing: true,
            ..quiet
        });
        assert_eq!(
            going[0],
            "Available=False Removing the configuration is being deleted"
        );
        assert_eq!(
            going[1],
            "Progressing=False ResourcePaused nothing is removed during the pause"
        );
        assert!(
            going[3].ends_with("then the components are removed"),
            "{going:?}"
        );
    }

    #[test]
    fn control_characters_in_a_message_are_escaped_once() {
        let stuck = Rollout::Stuck {
            cause: "Error".into(),
            message: "last words \x1b[2J\u{9b}".into(),
        };
        let report = report(vec![unit(vec![], stuck)]);
        let first = conditions(&report, &json!({}), Timestamp::UNIX_EPOCH);
        assert!(
            first[2]
                .message
                .as_deref()
                .unwrap()
                .ends_with("last words ^[[2J\\u009b"),
            "{:?}",
            first[2]
        );
        assert_eq!(
            conditions(
                &report,
                &json!({"conditions": first}),
                Timestamp::UNIX_EPOCH
            ),
            first
        );
    }

    #[test]
    fn transition_times_move_with_the_status_only() {
        let first = conditions(
            &report(vec![]),
            &json!({}),
            "2026-01-01T00:00:00Z".parse().unwrap(),
        );
        let later: Timestamp = "2026-02-01T00:00:00Z".parse().unwrap();
        assert_eq!(
            conditions(&report(vec![]), &json!({"conditions": first}), later),
            first
        );
        let starting = conditions(
            &Report {
                starting: true,
                ..report(vec![])
            },
            &json!({"conditions": first}),
            later,
        );
        let times: Vec<_> = starting
            .iter()
            .map(|c| c.last_transition_time.clone().unwrap().0 == later)
            .collect();
        assert_eq!(times, [true, true, false]);
    }

    #[test]
    fn while_another_operator_runs_its_conditions_stay() {
        let blocked = Report {
            blocked: Some(Blocked {
                reason: "OtherOperatorRunning",
                message: "m".into(),
            }),
            ..report(vec![])
        };
        let all = conditions(
            &blocked,
            &json!({"conditions": [{"type": "Available", "status": "True"}]}),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(
            all.iter().map(|c| c.type_.as_str()).collect::<Vec<_>>(),
            ["Available", "Blocked"]
        );
        assert_eq!(all[0].status, "True", "the other operator reports that");
    }

    #[test]
    fn available_is_unknown_while_weft_may_not_look() {
        let blocked = Report {
            blocked: Some(Blocked {
                reason: "Forbidden",
                message: "m".into(),
            }),
            ..report(vec![])
        };
        let before = json!({
            "conditions": [
                {"type": "Available", "status": "True"}, {"type": "Degraded", "status": "False"}
            ]
        });
        let all = conditions(&blocked, &before, Timestamp::UNIX_EPOCH);
        let said: Vec<_> = all
            .iter()
            .map(|c| (c.type_.as_str(), c.status.as_str(), c.reason.as_deref()))
            .collect();
        assert_eq!(
            said,
            [
                ("Available", "Unknown", Some("Forbidden")),
                ("Degraded", "False", None),
                ("Blocked", "True", Some("Forbidden"))
            ]
        );
    }
}
