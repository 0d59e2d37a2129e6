//! The status of an enactment: conditions, reasons and messages of kubernetes-nmstate, and Weft's
//! own next to them.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use weft_api::{
    Condition,
    node_network::{NodeNetworkConfigurationEnactmentStatus as Status, Outcome, Waits},
};
use weft_plan::{
    escape,
    health::{Cause, Health},
    secrets::{self, HIDDEN, without},
};

use super::wish::Wish;
use crate::transaction::Failure;

/// The message of what is done.
pub(super) const RECONCILED: &str = "successfully reconciled";
/// The message of what is taken back.
pub(super) const REVERTED: &str = "successfully reverted";

/// The state that an enactment's conditions show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Progressing,
    /// The node waits for others, or for this.
    Pending(Option<Waits>),
    Aborted,
    Available {
        message: &'static str,
    },
    Retrying {
        message: String,
    },
    Failed {
        message: String,
    },
}

impl State {
    /// Reads the state from a status.
    pub fn of(status: &Status) -> Option<Self> {
        let message = |type_: &str| {
            let holds = status
                .conditions
                .iter()
                .find(|condition| condition.type_ == type_ && condition.status == "True")?;
            Some(holds.message.clone().unwrap_or_default())
        };
        Some(match (message("Progressing"), message("Failing")) {
            (Some(_), Some(message)) => Self::Retrying { message },
            (Some(_), None) => Self::Progressing,
            (None, Some(message)) => Self::Failed { message },
            (None, None) if message("Pending").is_some() => Self::Pending(waits(status)),
            (None, None) if message("Aborted").is_some() => Self::Aborted,
            (None, None) => match message("Available")?.as_str() {
                REVERTED => Self::Available { message: REVERTED },
                _ => Self::Available {
                    message: RECONCILED,
                },
            },
        })
    }

    /// Progressing, Failing, Available, Pending, Aborted. With reason and message.
    fn parts(&self, name: &str) -> ([&'static str; 5], &str, String) {
        const T: &str = "True";
        const F: &str = "False";
        const U: &str = "Unknown";
        match self {
            Self::Progressing => (
                [T, U, U, F, F],
                "ConfigurationProgressing",
                "Applying desired state".into(),
            ),
            Self::Pending(None) => (
                [F, F, F, T, F],
                LIMIT_REACHED,
                "Waiting for progressing nodes to finish".into(),
            ),
            Self::Pending(Some(waits)) => ([F, F, F, T, F], &waits.reason, waits.message.clone()),
            Self::Aborted => (
                [F, F, F, F, T],
                "ConfigurationAborted",
                format!("reconciliation of enactment {name} has aborted"),
            ),
            Self::Available { message } => {
                ([F, F, T, F, F], "SuccessfullyConfigured", (*message).into())
            }
            Self::Retrying { message } => ([T, T, F, F, F], "Retrying", message.clone()),
            Self::Failed { message } => ([F, T, F, F, F], "FailedToConfigure", message.clone()),
        }
    }
}

impl State {
    /// Returns the verdict for kstatus. A contradiction waits for a person, whatever the node has.
    fn health(&self, reason: &str, message: String, aside: &Aside) -> Health {
        if let Some(conflict) = &aside.conflict {
            return Health::Stalled(Cause {
                reason: DISAGREE.to_owned(),
                message: conflict.clone(),
            });
        }
        let cause = Cause {
            reason: reason.to_owned(),
            message,
        };
        match self {
            Self::Available { .. } => Health::Ready(cause),
            Self::Progressing | Self::Pending(None) | Self::Retrying { .. } => {
                Health::Reconciling(cause)
            }
            // A person must give the node the value.
            Self::Pending(Some(_)) | Self::Aborted | Self::Failed { .. } => Health::Stalled(cause),
        }
    }
}

/// The reason of a node that waits for its turn.
const LIMIT_REACHED: &str = "MaxUnavailableLimitReached";

/// Reads from a status what a node waits for next to its turn.
fn waits(status: &Status) -> Option<Waits> {
    let pending = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Pending")?;
    let reason = pending.reason.clone()?;
    (reason != LIMIT_REACHED).then(|| Waits {
        reason,
        message: pending.message.clone().unwrap_or_default(),
    })
}

/// The reason of two policies that contradict each other.
const DISAGREE: &str = "PoliciesDisagree";

/// The condition that names probes that did not count.
const LEFT_OUT: &str = "ProbesLeftOut";

/// The condition that names bridges whose packets pass the host's firewall.
const FILTERED: &str = "BridgeTrafficFiltered";

/// Next to the state, what may hold as well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Aside {
    /// How the host differs, if it does.
    pub drifted: Option<String>,
    /// The owner that contradicts, if there is one.
    pub conflict: Option<String>,
    /// The interfaces that would need LLDP and do not receive it, if there are such.
    pub deaf: Option<String>,
    /// The probes that did not count for the last try, if there are such.
    pub left_out: Option<String>,
    /// The bridges whose packets pass the host's firewall, if there are such.
    pub filtered: Option<String>,
}

impl Aside {
    /// Reads the state from a status.
    pub fn of(status: &Status) -> Self {
        let message = |type_: &str| {
            let holds = status
                .conditions
                .iter()
                .find(|condition| condition.type_ == type_ && condition.status == "True")?;
            holds.message.clone()
        };
        Self {
            drifted: message("Drifted"),
            conflict: message("Conflict"),
            deaf: message("NeighborsMissing"),
            left_out: message(LEFT_OUT),
            filtered: message(FILTERED),
        }
    }
}

/// The conditions after those of before: what has not changed keeps its times.
pub(super) fn conditions(
    wish: &Wish,
    state: &State,
    aside: &Aside,
    now: Timestamp,
) -> Vec<Condition> {
    let (statuses, reason, message) = state.parts(&wish.name);
    let main = statuses.iter().position(|status| *status == "True");
    let types = ["Progressing", "Failing", "Available", "Pending", "Aborted"];
    let mut wanted: Vec<(&str, &str, &str, String)> = Vec::new();
    for (index, (type_, status)) in types.into_iter().zip(statuses).enumerate() {
        // The message belongs to the condition that holds. Of a retry to both.
        let tells = Some(index) == main || status == "True";
        wanted.push((
            type_,
            status,
            reason,
            if tells {
                message.clone()
            } else {
                String::new()
            },
        ));
    }
    // Of a policy that is not in force, the node may not have the bridges.
    let is_in_force = matches!(state, State::Available { .. });
    let filtered = aside.filtered.clone().filter(|_| is_in_force);
    for (type_, reason, message) in [
        ("Drifted", "HostDiffers", &aside.drifted),
        ("Conflict", DISAGREE, &aside.conflict),
        ("NeighborsMissing", "NoLldp", &aside.deaf),
        (LEFT_OUT, "OutOfReachBefore", &aside.left_out),
        (FILTERED, "BridgeNetfilter", &filtered),
    ] {
        if let Some(message) = message {
            wanted.push((type_, "True", reason, message.clone()));
        }
    }
    let health = state.health(reason, message, aside);
    let hidden = wish.secrets();
    for (type_, status, cause) in health.conditions() {
        wanted.push((type_, status, &cause.reason, cause.message.clone()));
    }
    wanted
        .into_iter()
        .map(|(type_, status, reason, message)| {
            let message = without(&message, &hidden);
            condition(wish, type_, status, reason, message, now)
        })
        .collect()
}

/// Takes secrets out of the states in a status and out of its outcome. The agent applies states of
/// the policy and of its own folder, and none of these.
pub(super) fn hide(status: &mut Status, wish: &Wish) {
    let captured = status.captured_states.iter_mut();
    let captured = captured.flat_map(|captures| captures.values_mut());
    let captured = captured.filter_map(|captured| captured.state.as_mut());
    for state in captured.chain(&mut status.desired_state) {
        secrets::hide(state, HIDDEN);
    }
    let Some(outcome) = &mut status.outcome else {
        return;
    };
    let hidden = wish.secrets();
    let texts = [
        &mut outcome.message,
        &mut outcome.wanted,
        &mut outcome.found,
    ];
    for text in texts.into_iter().flatten() {
        *text = without(text, &hidden);
    }
}

fn condition(
    wish: &Wish,
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> Condition {
    let before = wish
        .status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_);
    let new = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(escape::text(&message).into_owned()),
        observed_generation: Some(wish.observed),
        ..Condition::default()
    };
    let times = |condition: &Condition| Condition {
        last_transition_time: None,
        last_heartbeat_time: None,
        ..condition.clone()
    };
    match before {
        Some(before) if times(before) == new => before.clone(),
        before => {
            let since = before
                .filter(|before| before.status == status)
                .and_then(|before| before.last_transition_time.clone());
            Condition {
                last_transition_time: since.or(Some(Time(now))),
                last_heartbeat_time: Some(Time(now)),
                ..new
            }
        }
    }
}

/// Why a try failed, for programs.
pub(super) fn outcome(failure: &Failure) -> Outcome {
    let shown = |text: &Option<String>| text.as_deref().map(|text| escape::text(text).into_owned());
    Outcome {
        phase: Some(failure.phase.to_string()),
        probe: shown(&failure.probe),
        path: shown(&failure.path),
        wanted: shown(&failure.wanted),
        found: shown(&failure.found),
        message: Some(escape::text(&failure.message).into_owned()),
    }
}

/// The same for a failure before there is anything to apply.
pub(super) fn early(phase: &str, message: String) -> Outcome {
    Outcome {
        phase: Some(phase.to_owned()),
        message: Some(escape::text(&message).into_owned()),
        ..Outcome::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};
    use weft_api::node_network::{CapturedState, Decision, Granted};
    use weft_plan::health;

    use super::*;
    use crate::transaction::Phase;

    fn wish(status: Status) -> Wish {
        Wish {
            name: "node-1.p".into(),
            policy: "p".into(),
            observed: 3,
            generation: 7,
            decision: Decision::Granted,
            retry: None,
            granted: None,
            waits: None,
            status,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn no_planted_secret_is_in_a_status() {
        let planted: Value =
            serde_saphyr::from_str(include_str!("../../../plan/tests/planted.yaml")).unwrap();
        let spec = json!({"desiredState": planted});
        let wish = Wish {
            granted: Some(Granted {
                generation: 7,
                spec: serde_json::from_value(spec).unwrap(),
                values: None,
            }),
            ..wish(Status::default())
        };
        let said = planted.to_string();
        let captured = CapturedState {
            state: Some(planted.clone()),
            meta_info: None,
        };
        let failed = State::Failed {
            message: said.clone(),
        };
        let aside = Aside {
            drifted: Some(said.clone()),
            conflict: Some(said.clone()),
            ..Aside::default()
        };
        let mut status = Status {
            desired_state: Some(planted.clone()),
            captured_states: Some(BTreeMap::from([("all".to_owned(), captured)])),
            outcome: Some(Outcome {
                wanted: Some(said.clone()),
                found: Some(said.clone()),
                ..early("Apply", said.clone())
            }),
            conditions: conditions(&wish, &failed, &aside, at(0)),
            ..Status::default()
        };
        hide(&mut status, &wish);
        let parts = [
            json!(status.desired_state),
            json!(status.captured_states),
            json!(status.outcome),
            json!(status.conditions),
        ];
        for part in parts.map(|part| part.to_string()) {
            assert!(!part.contains("pl4nted"), "{part}");
            let harmless = said.matches("h4rmless").count();
            assert!(part.matches("h4rmless").count() >= harmless, "{part}");
        }
    }

    /// The table of kubernetes-nmstate: Progressing, Failing, Available, Pending, Aborted.
    #[test]
    fn conditions_are_those_of_kubernetes_nmstate() {
        let cases = [
            (
                State::Progressing,
                "True Unknown Unknown False False",
                "ConfigurationProgressing",
                "Applying desired state",
            ),
            (
                State::Pending(None),
                "False False False True False",
                "MaxUnavailableLimitReached",
                "Waiting for progressing nodes to finish",
            ),
            (
                State::Pending(Some(Waits {
                    reason: "WaitingForValue".into(),
                    message: "no label".into(),
                })),
                "False False False True False",
                "WaitingForValue",
                "no label",
            ),
            (
                State::Retrying {
                    message: "again".into(),
                },
                "True True False False False",
                "Retrying",
                "again",
            ),
            (
                State::Failed {
                    message: "why".into(),
                },
                "False True False False False",
                "FailedToConfigure",
                "why",
            ),
            (
                State::Available {
                    message: "successfully reconciled",
                },
                "False False True False False",
                "SuccessfullyConfigured",
                "successfully reconciled",
            ),
            (
                State::Aborted,
                "False False False False True",
                "ConfigurationAborted",
                "reconciliation of enactment node-1.p has aborted",
            ),
        ];
        for (state, statuses, reason, message) in cases {
            let conditions = conditions(&wish(Status::default()), &state, &Aside::default(), at(0));
            assert_eq!(
                conditions[..5]
                    .iter()
                    .map(|condition| condition.status.as_str())
                    .collect::<Vec<_>>()
                    .join(" "),
                statuses,
                "{state:?}"
            );
            let holds = conditions
                .iter()
                .find(|condition| condition.status == "True")
                .unwrap();
            assert_eq!(
                (holds.reason.as_deref(), holds.message.as_deref()),
                (Some(reason), Some(message))
            );
            assert!(
                conditions
                    .iter()
                    .all(|condition| condition.observed_generation == Some(3))
            );
        }
    }

    #[test]
    fn conditions_next_to_the_state_hold_as_long_as_their_cause() {
        let text = |text: &str| Some(text.to_owned());
        let aside = Aside {
            drifted: text("drift"),
            conflict: text("other"),
            deaf: text("eth1"),
            left_out: text("default gateway: no answer"),
            filtered: text("br1"),
        };
        let of = |aside: &Aside, status: Status| {
            let state = State::Available { message: "done" };
            conditions(&wish(status), &state, aside, at(0))
        };
        let with = Status {
            conditions: of(&aside, Status::default()),
            ..Status::default()
        };
        assert_eq!(Aside::of(&with), aside, "another process reads the same");
        for (type_, reason, message) in [
            ("Drifted", "HostDiffers", "drift"),
            ("Conflict", "PoliciesDisagree", "other"),
            ("NeighborsMissing", "NoLldp", "eth1"),
            (
                "ProbesLeftOut",
                "OutOfReachBefore",
                "default gateway: no answer",
            ),
            ("BridgeTrafficFiltered", "BridgeNetfilter", "br1"),
        ] {
            let mut all = with.conditions.iter();
            let found = all.find(|condition| condition.type_ == type_).unwrap();
            assert_eq!(
                (
                    found.status.as_str(),
                    found.reason.as_deref(),
                    found.message.as_deref()
                ),
                ("True", Some(reason), Some(message))
            );
            let without = of(&Aside::default(), with.clone());
            assert!(without.iter().all(|condition| condition.type_ != type_));
        }
    }

    #[test]
    fn kstatus_gets_the_verdict_of_the_state() {
        let verdict = |state: State, aside: Aside| {
            let all = conditions(&wish(Status::default()), &state, &aside, at(0));
            let verdict = all
                .iter()
                .filter(|one| health::TYPES.contains(&one.type_.as_str()) && one.status == "True");
            verdict.map(|one| one.type_.clone()).collect::<Vec<_>>()
        };
        let message = || "m".to_owned();
        for (state, expected) in [
            (State::Progressing, "Reconciling"),
            (State::Pending(None), "Reconciling"),
            (State::Pending(Some(Waits::default())), "Stalled"),
            (State::Retrying { message: message() }, "Reconciling"),
            (State::Aborted, "Stalled"),
            (State::Failed { message: message() }, "Stalled"),
            (
                State::Available {
                    message: RECONCILED,
                },
                "Ready",
            ),
        ] {
            assert_eq!(verdict(state, Aside::default()), [expected]);
        }
        let contradicted = Aside {
            conflict: Some(message()),
            ..Aside::default()
        };
        assert_eq!(
            verdict(
                State::Available {
                    message: RECONCILED
                },
                contradicted
            ),
            ["Stalled"]
        );
    }

    #[test]
    fn interfaces_without_neighbors_are_a_condition_while_they_are() {
        let done = State::Available {
            message: RECONCILED,
        };
        let aside = Aside {
            deaf: Some("eth1 listens to LLDP and hears no neighbor".into()),
            ..Aside::default()
        };
        let status = Status {
            conditions: conditions(&wish(Status::default()), &done, &aside, at(0)),
            ..Status::default()
        };
        let found = status
            .conditions
            .iter()
            .find(|one| one.type_ == "NeighborsMissing");
        let found = found.unwrap();
        assert_eq!(
            (
                found.status.as_str(),
                found.reason.as_deref(),
                &found.message
            ),
            ("True", Some("NoLldp"), &aside.deaf)
        );
        assert_eq!(Aside::of(&status), aside);
        let later = conditions(&wish(status), &done, &Aside::default(), at(1));
        assert!(later.iter().all(|one| one.type_ != "NeighborsMissing"));
    }

    #[test]
    fn bridges_that_the_firewall_sees_are_a_condition_of_a_policy_in_force() {
        let aside = Aside {
            filtered: Some("packets between ports of br1 pass the chain FORWARD".into()),
            ..Aside::default()
        };
        let conditions = |state: &State| conditions(&wish(Status::default()), state, &aside, at(0));
        let is_named = |one: &Condition| one.type_ == "BridgeTrafficFiltered";
        let done = State::Available {
            message: RECONCILED,
        };
        let status = Status {
            conditions: conditions(&done),
            ..Status::default()
        };
        let found = status.conditions.iter().find(|one| is_named(one)).unwrap();
        assert_eq!(
            (
                found.status.as_str(),
                found.reason.as_deref(),
                &found.message
            ),
            ("True", Some("BridgeNetfilter"), &aside.filtered)
        );
        assert_eq!(Aside::of(&status), aside);
        let ready = status.conditions.iter().find(|one| one.type_ == "Ready");
        assert_eq!(ready.unwrap().status, "True", "it is no trouble by itself");
        assert!(!conditions(&State::Progressing).iter().any(is_named));
    }

    #[test]
    fn control_characters_are_escaped_in_conditions_and_outcomes() {
        let failed = State::Failed {
            message: "nmstate says \x1b[2J".into(),
        };
        let first = conditions(&wish(Status::default()), &failed, &Aside::default(), at(10));
        assert_eq!(first[1].message.as_deref(), Some("nmstate says ^[[2J"));
        let known = wish(Status {
            conditions: first.clone(),
            ..Status::default()
        });
        assert_eq!(
            conditions(&known, &failed, &Aside::default(), at(20)),
            first
        );
        let failure = Failure {
            found: Some("\x07".into()),
            ..Failure::new(Phase::Verify, "\u{9b}")
        };
        assert_eq!(
            (
                outcome(&failure).found.as_deref(),
                outcome(&failure).message.as_deref()
            ),
            (Some("^G"), Some("\\u009b"))
        );
        assert_eq!(
            early(crate::enact::phase::RENDER, "\x1b".into())
                .message
                .as_deref(),
            Some("^[")
        );
    }

    #[test]
    fn an_unchanged_condition_keeps_its_times() {
        let done = State::Available {
            message: "successfully reconciled",
        };
        let first = conditions(&wish(Status::default()), &done, &Aside::default(), at(10));
        let known = wish(Status {
            conditions: first.clone(),
            ..Status::default()
        });
        assert_eq!(conditions(&known, &done, &Aside::default(), at(20)), first);
        let drifted = conditions(
            &known,
            &done,
            &Aside {
                drifted: Some("mtu".into()),
                ..Aside::default()
            },
            at(20),
        );
        assert_eq!(drifted[..5], first[..5]);
        assert_eq!(drifted[6..], first[5..], "the verdict stays");
        assert_eq!(
            (
                drifted[5].type_.as_str(),
                drifted[5].last_transition_time.clone()
            ),
            ("Drifted", Some(Time(at(20))))
        );
    }
}
