//! The conditions of the status: types, reasons, severities and messages of placement-operator,
//! which other operators and users' tests look for.

use std::collections::BTreeMap;

use jiff::{Timestamp, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use weft_api::placement::Condition;
use weft_plan::{
    Drift, drift, dropped, escape,
    health::{self, Cause, Health},
    resisting,
};

/// The type of the condition that sums up all others.
pub const READY: &str = "Ready";
/// Its message when all is well.
const COMPLETE: &str = "Setup complete";

/// The steps, in the order in which they are taken. Each has a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The service account of the pods.
    ServiceAccount,
    /// The rights of the service account.
    Role,
    /// And that it may.
    RoleBinding,
    /// The Secrets that are asked for.
    Input,
    /// The account at the database. Only where mariadb-operator makes it.
    MariaDbAccount,
    /// The database.
    Db,
    /// The files of Placement and Apache.
    ServiceConfig,
    /// Certificates.
    TlsInput,
    /// Additional networks, and that the pods are attached to them.
    NetworkAttachments,
    /// The Services.
    CreateService,
    /// The Job that prepares the database.
    DbSync,
    /// The Topology. Only where one is referred to.
    Topology,
    /// The pods.
    Deployment,
    /// The service and its user in Keystone.
    KeystoneService,
    /// Its endpoints there.
    KeystoneEndpoint,
}

impl Step {
    /// The steps that every PlacementAPI has a condition of from the beginning.
    const ALWAYS: [Step; 13] = [
        Step::ServiceAccount,
        Step::Role,
        Step::RoleBinding,
        Step::Input,
        Step::Db,
        Step::ServiceConfig,
        Step::TlsInput,
        Step::NetworkAttachments,
        Step::CreateService,
        Step::DbSync,
        Step::Deployment,
        Step::KeystoneService,
        Step::KeystoneEndpoint,
    ];

    /// The type of its condition.
    pub fn condition(self) -> &'static str {
        match self {
            Step::ServiceAccount => "ServiceAccountReady",
            Step::Role => "RoleReady",
            Step::RoleBinding => "RoleBindingReady",
            Step::Input => "InputReady",
            Step::MariaDbAccount => "MariaDBAccountReady",
            Step::Db => "DBReady",
            Step::ServiceConfig => "ServiceConfigReady",
            Step::TlsInput => "TLSInputReady",
            Step::NetworkAttachments => "NetworkAttachmentsReady",
            Step::CreateService => "CreateServiceReady",
            Step::DbSync => "DBSyncReady",
            Step::Topology => "TopologyReady",
            Step::Deployment => "DeploymentReady",
            Step::KeystoneService => "KeystoneServiceReady",
            Step::KeystoneEndpoint => "KeystoneEndpointReady",
        }
    }

    /// The message before the step is reached.
    fn beginning(self) -> &'static str {
        match self {
            Step::ServiceAccount => "ServiceAccount not created",
            Step::Role => "Role not created",
            Step::RoleBinding => "RoleBinding not created",
            Step::Input | Step::TlsInput => "Input data not checked",
            Step::MariaDbAccount => "MariaDBAccount creation not started",
            Step::Db => "DB create not started",
            Step::ServiceConfig => "Service config create not started",
            Step::NetworkAttachments => "NetworkAttachments not started",
            Step::CreateService => "Create service not started",
            Step::DbSync => "DBsync not started",
            Step::Topology => "Topology config create not started",
            Step::Deployment => "Deployment not started",
            Step::KeystoneService => "Service registration not started",
            Step::KeystoneEndpoint => "KeystoneEndpoint not created",
        }
    }

    /// The message after the step is done.
    pub fn done(self) -> &'static str {
        match self {
            Step::ServiceAccount => "ServiceAccount created",
            Step::Role => "Role created",
            Step::RoleBinding => "RoleBinding created",
            Step::Input | Step::TlsInput => "Input data complete",
            Step::MariaDbAccount => "MariaDBAccount creation complete",
            Step::Db => "DB create completed",
            Step::ServiceConfig => "Service config create completed",
            Step::NetworkAttachments => "NetworkAttachments completed",
            Step::CreateService => "Create service completed",
            Step::DbSync => "DBsync completed",
            Step::Topology => "Topology config create completed",
            Step::Deployment => "Deployment completed",
            Step::KeystoneService | Step::KeystoneEndpoint => COMPLETE,
        }
    }

    /// The condition of a failure of this step. `why` is a sentence that names the way out where
    /// one is known.
    pub fn fails(self, why: impl std::fmt::Display) -> State {
        State::error(match self {
            Step::ServiceAccount => format!("ServiceAccount error occurred {why}"),
            Step::Role => format!("Role error occurred {why}"),
            Step::RoleBinding => format!("RoleBinding error occurred {why}"),
            Step::Input => format!("Input data error occurred {why}"),
            Step::MariaDbAccount => format!("MariaDBAccount is not present: {why}"),
            Step::Db => format!("DB create job error occurred {why}"),
            Step::ServiceConfig => format!("Service config create error occurred {why}"),
            // The original's spelling.
            Step::TlsInput => format!("TLSInput error occured in TLS sources {why}"),
            Step::NetworkAttachments => format!("NetworkAttachments error occurred {why}"),
            Step::CreateService => format!("Create service error occurred {why}"),
            Step::DbSync => format!("DBsync job error occurred {why}"),
            Step::Topology => format!("Topology config create error occurred {why}"),
            Step::Deployment => format!("Deployment error occurred {why}"),
            Step::KeystoneService => format!("Service registration error occurred {why}"),
            Step::KeystoneEndpoint => format!("KeystoneEndpoint error occurred {why}"),
        })
    }
}

/// The content of a condition besides its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// True, False or Unknown.
    pub status: String,
    /// Where status is False: Error, Warning or Info.
    pub severity: Option<String>,
    /// A word in CamelCase.
    pub reason: String,
    /// A text for people.
    pub message: String,
}

impl State {
    fn new(status: &str, severity: Option<&str>, reason: &str, message: impl Into<String>) -> Self {
        Self {
            status: status.to_owned(),
            severity: severity.map(str::to_owned),
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    /// Not looked at yet.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new("Unknown", None, "Init", message)
    }

    /// As it should be.
    pub fn ready(message: impl Into<String>) -> Self {
        Self::new("True", None, "Ready", message)
    }

    /// Asked for, and on its way: others are at work.
    pub fn requested(message: impl Into<String>) -> Self {
        Self::new("False", Some("Info"), "Requested", message)
    }

    /// A state with an error.
    pub fn error(message: impl Into<String>) -> Self {
        Self::new("False", Some("Warning"), "Error", message)
    }

    /// Reports whether it is as it should be.
    pub fn is_ready(&self) -> bool {
        self.status == "True"
    }

    fn cause(&self) -> Cause {
        Cause {
            reason: self.reason.clone(),
            message: self.message.clone(),
        }
    }

    /// Returns the verdict about a PlacementAPI whose worst step has this state. Weft reconciles
    /// while a step is under way or not begun. After an error, nothing continues until a person
    /// acts.
    fn health(&self) -> Health {
        match (self.status.as_str(), self.severity.as_deref()) {
            ("True", _) => Health::Ready(self.cause()),
            ("False", Some("Error" | "Warning")) => Health::Stalled(self.cause()),
            _ => Health::Reconciling(self.cause()),
        }
    }

    /// How bad it is: the least is the worst.
    fn rank(&self) -> u8 {
        match (self.status.as_str(), self.severity.as_deref()) {
            ("False", Some("Error")) => 0,
            ("False", Some("Warning")) => 1,
            ("False", _) => 2,
            ("True", _) => 4,
            _ => 3,
        }
    }

    fn of(condition: &Condition) -> Self {
        Self {
            status: condition.status.clone(),
            severity: condition
                .severity
                .clone()
                .filter(|severity| !severity.is_empty()),
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
        }
    }

    fn into_condition(self, name: &str, since: Time) -> Condition {
        Condition {
            type_: name.to_owned(),
            status: self.status,
            severity: self.severity,
            reason: Some(self.reason),
            message: Some(self.message),
            last_transition_time: Some(since),
        }
    }
}

/// Where every step stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps(BTreeMap<Step, State>);

impl Default for Steps {
    /// Nothing is done yet.
    fn default() -> Self {
        Self(
            Step::ALWAYS
                .into_iter()
                .map(|step| (step, State::unknown(step.beginning())))
                .collect(),
        )
    }
}

impl Steps {
    /// Expects a step that not every PlacementAPI has.
    pub fn expect(&mut self, step: Step) {
        self.0
            .entry(step)
            .or_insert_with(|| State::unknown(step.beginning()));
    }

    /// Says where a step stands. The function makes text of others safe to show.
    pub fn set(&mut self, step: Step, mut state: State) {
        for text in [&mut state.reason, &mut state.message] {
            *text = escape::text(text).into_owned();
        }
        self.0.insert(step, state);
    }

    /// Where a step stands, if this PlacementAPI has it.
    pub fn get(&self, step: Step) -> Option<&State> {
        self.0.get(&step)
    }

    /// Reports whether all steps are done.
    pub fn are_done(&self) -> bool {
        self.0.values().all(State::is_ready)
    }

    /// The list of `status.conditions`: Ready first, the steps by name, and Reconciling or Stalled
    /// while they hold. A condition that says the same as before keeps its time. Every other one is
    /// of this second.
    pub fn conditions(&self, previous: &[Condition], now: Timestamp) -> Vec<Condition> {
        let second = Time(now.round(Unit::Second).unwrap_or(now));
        let with_time = |name: &str, state: State| {
            let same = previous
                .iter()
                .find(|known| known.type_ == name && State::of(known) == state);
            let since = same
                .and_then(|known| known.last_transition_time.clone())
                .unwrap_or_else(|| second.clone());
            state.into_condition(name, since)
        };
        let mut steps: Vec<_> = self
            .0
            .iter()
            .map(|(step, state)| (state.rank(), with_time(step.condition(), state.clone())))
            .collect();
        // Of the equally bad the latest, and of those the first step: what comes after it waits for
        // it.
        let worst = steps
            .iter()
            .min_by_key(|(rank, condition)| (*rank, std::cmp::Reverse(time(condition))))
            .map(|(_, worst)| State::of(worst));
        let sum = worst
            .filter(|worst| !worst.is_ready())
            .unwrap_or_else(|| State::ready(COMPLETE));
        steps.sort_by(|(_, one), (_, other)| one.type_.cmp(&other.type_));
        let health = sum.health();
        std::iter::once(with_time(READY, sum))
            .chain(steps.into_iter().map(|(_, condition)| condition))
            .chain(next_to_ready(&health).map(|(name, state)| with_time(name, state)))
            .collect()
    }
}

/// The conditions while Weft may not look or write: whether the service is ready is unknown, and
/// each step keeps what was last known of it. `reason` and `message` are those of what blocks Weft.
pub fn blocked(
    previous: &[Condition],
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Vec<Condition> {
    let state = State::new("Unknown", None, reason, message);
    let known = previous
        .iter()
        .find(|known| known.type_ == READY && State::of(known) == state);
    let second = Time(now.round(Unit::Second).unwrap_or(now));
    let since = known
        .and_then(|known| known.last_transition_time.clone())
        .unwrap_or(second);
    let steps = previous
        .iter()
        .filter(|known| !health::TYPES.contains(&known.type_.as_str()))
        .filter(|known| ![drift::CONDITION, dropped::CONDITION].contains(&known.type_.as_str()))
        .cloned();
    // Weft does nothing until a person acts.
    let health = Health::Unknown(state.cause());
    let of_health =
        next_to_ready(&health).map(|(name, state)| state.into_condition(name, since.clone()));
    std::iter::once(state.into_condition(READY, since.clone()))
        .chain(steps)
        .chain(of_health)
        .collect()
}

/// The condition of a PlacementAPI of which the API server drops fields. It comes after all others,
/// since `kubectl get` shows the first one.
pub fn fields_dropped(previous: &[Condition], message: &str, now: Timestamp) -> Condition {
    holding(dropped::CONDITION, dropped::REASON, message, previous, now)
}

/// The condition of a PlacementAPI some of whose objects others keep different. It comes after the
/// steps, too. `None` if there are no such objects.
pub fn drifted(previous: &[Condition], drift: &[Drift], now: Timestamp) -> Option<Condition> {
    let reasons = resisting(drift);
    let (reason, _) = reasons.first()?;
    let texts: Vec<_> = reasons.iter().map(|(_, text)| text.as_str()).collect();
    let message = escape::text(&texts.join("\n")).into_owned();
    Some(holding(drift::CONDITION, reason, &message, previous, now))
}

/// A condition next to the steps, which exists only while it holds. If it says the same as before, it
/// keeps its time.
fn holding(
    name: &str,
    reason: &str,
    message: &str,
    previous: &[Condition],
    now: Timestamp,
) -> Condition {
    let state = State::new("True", None, reason, message);
    let known = previous
        .iter()
        .find(|known| known.type_ == name && State::of(known) == state);
    let since = known.and_then(|known| known.last_transition_time.clone());
    let second = || Time(now.round(Unit::Second).unwrap_or(now));
    state.into_condition(name, since.unwrap_or_else(second))
}

/// The conditions of a verdict except for Ready, which has a severity here.
fn next_to_ready(health: &Health) -> impl Iterator<Item = (&'static str, State)> {
    let conditions = health.conditions().into_iter();
    conditions
        .filter(|(name, ..)| *name != READY)
        .map(|(name, status, cause)| {
            let state = State::new(status, None, &cause.reason, cause.message.as_str());
            (name, state)
        })
}

fn time(condition: &Condition) -> Option<Timestamp> {
    condition.last_transition_time.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use weft_plan::{Deviation, Difference, ObjectKey, What, kinds};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::new(second, 400_000_000).unwrap()
    }

    fn said(conditions: &[Condition]) -> Vec<(&str, &str, &str)> {
        conditions
            .iter()
            .map(|one| {
                (
                    one.type_.as_str(),
                    one.status.as_str(),
                    one.message.as_deref().unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn while_blocked_ready_is_unknown_and_steps_keep_what_is_known() {
        let ready = Steps::default().conditions(&[], at(1));
        let first = blocked(&ready, "Forbidden", "may not look", at(2));
        assert_eq!(
            (
                first[0].type_.as_str(),
                first[0].status.as_str(),
                first[0].reason.as_deref()
            ),
            (READY, "Unknown", Some("Forbidden"))
        );
        let steps = ready.len() - 1;
        assert_eq!(first[1..steps], ready[1..steps]);
        assert_eq!(
            (first[steps].type_.as_str(), first[steps].reason.as_deref()),
            ("Stalled", Some("Forbidden"))
        );
        assert_eq!(
            blocked(&first, "Forbidden", "may not look", at(3)),
            first,
            "the same again is no transition"
        );
        assert_ne!(blocked(&first, "Forbidden", "may not write", at(3)), first);
    }

    #[test]
    fn the_condition_about_lost_fields_keeps_its_time() {
        let first = fields_dropped(&[], "spec.database gets lost", at(1));
        assert_eq!(
            (first.type_.as_str(), first.status.as_str()),
            ("FieldsDropped", "True")
        );
        let again = fields_dropped(
            std::slice::from_ref(&first),
            "spec.database gets lost",
            at(9),
        );
        assert_eq!(again, first);
        let other = fields_dropped(
            std::slice::from_ref(&first),
            "spec.keystone gets lost",
            at(9),
        );
        assert_ne!(other.last_transition_time, first.last_transition_time);
        // It is no step, and holds up nothing.
        let mut steps = Steps::default();
        for step in Step::ALWAYS {
            steps.set(step, State::ready("fine"));
        }
        assert!(steps.conditions(&[first], at(2))[0].status == "True");
    }

    #[test]
    fn an_object_that_others_keep_different_has_a_condition() {
        let altered = |by: &str| Drift {
            unit: "placement".to_owned(),
            object: ObjectKey::new(kinds::DEPLOYMENT, "openstack", "placement"),
            deviation: Deviation::Altered {
                differences: vec![Difference {
                    path: "spec.x".to_owned(),
                    what: What::Changed {
                        live: "theirs".into(),
                        desired: "ours".into(),
                    },
                }],
                by: vec![by.to_owned()],
            },
        };
        assert_eq!(drifted(&[], &[], at(1)), None);
        let first = drifted(&[], &[altered("policy \"a\"")], at(1)).unwrap();
        let names = "Deployment openstack/placement (spec.x is \"theirs\" instead of \"ours\"; policy \"a\" may do it)";
        assert_eq!(
            (
                first.type_.as_str(),
                first.status.as_str(),
                first.reason.as_deref()
            ),
            ("Drifted", "True", Some("Altered"))
        );
        assert!(
            first.message.as_deref().unwrap().ends_with(names),
            "{first:?}"
        );
        let before = std::slice::from_ref(&first);
        let again = drifted(before, &[altered("policy \"a\"")], at(9));
        assert_eq!(again.as_ref(), Some(&first));
        let other = drifted(before, &[altered("policy \"b\"")], at(9)).unwrap();
        assert_ne!(other.last_transition_time, first.last_transition_time);
        let blocked = blocked(before, "Forbidden", "may not look", at(9));
        assert!(
            blocked.iter().all(|one| one.type_ != "Drifted"),
            "{blocked:?}"
        );
    }

    #[test]
    fn kstatus_gets_reconciling_before_and_stalled_after_an_error() {
        let aside = |state: State| {
            let mut steps = Steps::default();
            for step in Step::ALWAYS {
                steps.set(step, State::ready("fine"));
            }
            steps.set(Step::Db, state);
            let all = steps.conditions(&[], at(1));
            let last = all.last().unwrap();
            (last.type_.clone(), last.message.clone().unwrap())
        };
        let of = |type_: &str, message: &str| (type_.to_owned(), message.to_owned());
        assert_eq!(aside(State::requested("m")), of("Reconciling", "m"));
        assert_eq!(aside(State::unknown("m")), of("Reconciling", "m"));
        assert_eq!(aside(State::error("m")), of("Stalled", "m"));
        assert_eq!(aside(State::ready("m")).0, "TLSInputReady", "none holds");
    }

    #[test]
    fn ready_repeats_the_worst_step() {
        let of = |severity: &str| State::new("False", Some(severity), "R", severity);
        let states = [
            State::ready("fine"),
            State::unknown("later"),
            of("Info"),
            of("Warning"),
            of("Error"),
        ];
        for (worst, state) in states.iter().enumerate() {
            let mut steps = Steps::default();
            for step in Step::ALWAYS {
                steps.set(step, states[0].clone());
            }
            // The worst stands first, in the middle, and last.
            for (step, better) in Step::ALWAYS.into_iter().zip(&states[..worst]) {
                steps.set(step, better.clone());
            }
            steps.set(Step::ALWAYS[worst], state.clone());
            let ready = State::of(&steps.conditions(&[], at(1))[0]);
            assert_eq!(
                (&ready.status, &ready.severity),
                (&state.status, &state.severity)
            );
        }
    }

    #[test]
    fn control_characters_of_others_are_escaped_and_keep_the_time() {
        let mut steps = Steps::default();
        steps.set(
            Step::Db,
            State {
                reason: "A\x07".into(),
                ..State::error("peer says \x1b[2J")
            },
        );
        let first = steps.conditions(&[], at(7));
        let db = first
            .iter()
            .find(|one| one.type_ == Step::Db.condition())
            .unwrap();
        assert_eq!(
            (db.reason.as_deref(), db.message.as_deref()),
            (Some("A^G"), Some("peer says ^[[2J"))
        );
        assert_eq!(steps.conditions(&first, at(9)), first);
    }

    #[test]
    fn conditions_start_with_ready_and_the_steps_by_name() {
        let conditions = Steps::default().conditions(&[], at(7));
        let names: Vec<_> = conditions.iter().map(|one| one.type_.as_str()).collect();
        assert_eq!(
            names,
            [
                "Ready",
                "CreateServiceReady",
                "DBReady",
                "DBSyncReady",
                "DeploymentReady",
                "InputReady",
                "KeystoneEndpointReady",
                "KeystoneServiceReady",
                "NetworkAttachmentsReady",
                "RoleBindingReady",
                "RoleReady",
                "ServiceAccountReady",
                "ServiceConfigReady",
                "TLSInputReady",
                "Reconciling"
            ]
        );
        let (reconciling, others) = conditions.split_last().unwrap();
        assert_eq!(reconciling.status, "True");
        assert!(others.iter().all(|one| one.status == "Unknown"
            && one.reason.as_deref() == Some("Init")
            && one.severity.is_none()));
        assert_eq!(
            conditions[0].last_transition_time.as_ref().unwrap().0,
            Timestamp::new(7, 0).unwrap(),
            "whole seconds, as the API has them"
        );
    }

    #[test]
    fn ready_says_what_the_worst_condition_says() {
        let mut steps = Steps::default();
        steps.set(Step::Db, State::requested("DB create job still running"));
        assert_eq!(
            said(&steps.conditions(&[], at(1)))[0],
            ("Ready", "False", "DB create job still running")
        );
        steps.set(Step::TlsInput, Step::TlsInput.fails("no key"));
        let conditions = steps.conditions(&[], at(1));
        assert_eq!(
            said(&conditions)[0],
            (
                "Ready",
                "False",
                "TLSInput error occured in TLS sources no key"
            )
        );
        assert_eq!(
            (
                conditions[0].reason.as_deref(),
                conditions[0].severity.as_deref()
            ),
            (Some("Error"), Some("Warning"))
        );
        // Of two that are equally bad, the latest.
        steps.set(Step::CreateService, Step::CreateService.fails("later"));
        assert_eq!(
            said(&steps.conditions(&conditions, at(2)))[0].2,
            "Create service error occurred later"
        );
        for step in Step::ALWAYS {
            steps.set(step, State::ready(step.done()));
        }
        let conditions = steps.conditions(&conditions, at(3));
        assert_eq!(said(&conditions)[0], ("Ready", "True", "Setup complete"));
        assert!(conditions[0].severity.is_none() && steps.are_done());
    }

    #[test]
    fn an_equal_condition_keeps_its_time() {
        let mut steps = Steps::default();
        let first = steps.conditions(&[], at(1));
        steps.set(Step::Db, State::ready(Step::Db.done()));
        let second = steps.conditions(&first, at(9));
        let changed: Vec<_> = second
            .iter()
            .filter(|one| time(one) == Some(Timestamp::new(9, 0).unwrap()))
            .map(|one| one.type_.as_str())
            .collect();
        assert_eq!(changed, ["DBReady"]);
        assert_eq!(steps.conditions(&second, at(20)), second);
    }
}
