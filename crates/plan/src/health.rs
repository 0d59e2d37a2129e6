//! The conditions that tools judge any resource by: Ready, Reconciling and Stalled.
//!
//! kstatus (`sigs.k8s.io/cli-utils/pkg/kstatus`) reads them, and with it Helm, Flux and kpt. They
//! repeat the verdict of a resource's own conditions in words that these tools know:
//!
//! | state | Ready | Reconciling | Stalled | kstatus |
//! | --- | --- | --- | --- | --- |
//! | as the user wants it | True | | | Current |
//! | in progress | False | True | | InProgress |
//! | waits for a person | False, or Unknown if Weft cannot know | | True | Failed |
//!
//! Reconciling and Stalled exist only while they hold, and never together.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use weft_api::Condition;

use crate::dropped;

/// The types of the conditions, in the order in which they follow a resource's own conditions.
pub const TYPES: [&str; 3] = ["Ready", "Reconciling", "Stalled"];

/// The verdict about a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The resource is as the user wants it.
    Ready(Cause),
    /// Weft, or another controller, is at work.
    Reconciling(Cause),
    /// Nothing continues, or ends well, until a person acts.
    Stalled(Cause),
    /// The same, and Weft cannot know whether the resource is ready.
    Unknown(Cause),
}

/// The reason and message of a verdict, which its conditions share. Both may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// A word in CamelCase for programs.
    pub reason: String,
    /// A text for people.
    pub message: String,
}

impl Cause {
    /// Returns the reason and message of a condition.
    fn of(condition: &Condition) -> Self {
        Self {
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
        }
    }
}

impl Health {
    /// Judges a resource by its conditions Available, Progressing and Degraded, and by Blocked and
    /// FieldsDropped if it has them.
    pub fn of(conditions: &[Condition]) -> Self {
        let holds = |name: &str| {
            conditions
                .iter()
                .find(|condition| condition.type_ == name && condition.status == "True")
        };
        if let Some(blocked) = holds("Blocked") {
            return Self::Unknown(Cause::of(blocked));
        }
        if let Some(degraded) = holds("Degraded") {
            return Self::Stalled(Cause::of(degraded));
        }
        if let Some(lost) = holds(dropped::CONDITION) {
            return Self::Stalled(Cause::of(lost));
        }
        if let Some(progressing) = holds("Progressing") {
            return Self::Reconciling(Cause::of(progressing));
        }
        match conditions.iter().find(|one| one.type_ == "Available") {
            Some(available) if available.status == "True" => Self::Ready(Cause::of(available)),
            Some(available) => Self::Stalled(Cause::of(available)),
            None => Self::Reconciling(Cause::default()),
        }
    }

    /// The type, status and cause of each condition.
    pub fn conditions(&self) -> Vec<(&'static str, &'static str, &Cause)> {
        let [ready, reconciling, stalled] = TYPES;
        match self {
            Self::Ready(cause) => vec![(ready, "True", cause)],
            Self::Reconciling(cause) => {
                vec![(ready, "False", cause), (reconciling, "True", cause)]
            }
            Self::Stalled(cause) => vec![(ready, "False", cause), (stalled, "True", cause)],
            Self::Unknown(cause) => vec![(ready, "Unknown", cause), (stalled, "True", cause)],
        }
    }
}

/// Adds the conditions Ready, Reconciling and Stalled to a resource's own. `previous` are the
/// conditions as they are stored: a condition whose status does not change keeps its transition
/// time.
pub fn with_health(
    mut conditions: Vec<Condition>,
    generation: i64,
    previous: &[Condition],
    now: Timestamp,
) -> Vec<Condition> {
    conditions.retain(|condition| !TYPES.contains(&condition.type_.as_str()));
    let health = Health::of(&conditions);
    let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    conditions.extend(
        health
            .conditions()
            .into_iter()
            .map(|(name, status, cause)| {
                let since = previous
                    .iter()
                    .find(|known| known.type_ == name && known.status == status)
                    .and_then(|known| known.last_transition_time.clone());
                Condition {
                    type_: name.to_owned(),
                    status: status.to_owned(),
                    reason: text(&cause.reason),
                    message: text(&cause.message),
                    last_transition_time: since.or_else(|| Some(Time(whole_seconds(now)))),
                    last_heartbeat_time: None,
                    observed_generation: Some(generation),
                }
            }),
    );
    conditions
}

/// Times in Kubernetes objects have whole seconds.
pub(crate) fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(type_: &str, status: &str) -> Condition {
        Condition {
            type_: type_.into(),
            status: status.into(),
            reason: Some(format!("ReasonOf{type_}")),
            ..Condition::default()
        }
    }

    fn shown(own: &[(&str, &str)]) -> Vec<String> {
        let own = own.iter().map(|(type_, status)| condition(type_, status));
        let all = with_health(own.collect(), 3, &[], Timestamp::UNIX_EPOCH);
        all.iter()
            .filter(|one| TYPES.contains(&one.type_.as_str()))
            .map(|one| {
                let reason = one.reason.clone().unwrap_or_default();
                format!("{}={} {reason}", one.type_, one.status)
            })
            .collect()
    }

    #[test]
    fn tools_get_the_verdict_of_the_own_conditions() {
        let usual = |available, progressing, degraded| {
            shown(&[
                ("Available", available),
                ("Progressing", progressing),
                ("Degraded", degraded),
            ])
        };
        assert_eq!(
            usual("True", "False", "False"),
            ["Ready=True ReasonOfAvailable"]
        );
        assert_eq!(
            usual("False", "True", "False"),
            [
                "Ready=False ReasonOfProgressing",
                "Reconciling=True ReasonOfProgressing"
            ]
        );
        for available in ["True", "False"] {
            assert_eq!(
                usual(available, "True", "True"),
                [
                    "Ready=False ReasonOfDegraded",
                    "Stalled=True ReasonOfDegraded"
                ],
                "a failure counts, whatever else holds"
            );
        }
        assert_eq!(
            usual("False", "False", "False"),
            [
                "Ready=False ReasonOfAvailable",
                "Stalled=True ReasonOfAvailable"
            ],
            "a pause holds back what the user asks for"
        );
        let lossy = [("Available", "True"), ("FieldsDropped", "True")];
        assert_eq!(
            shown(&lossy),
            [
                "Ready=False ReasonOfFieldsDropped",
                "Stalled=True ReasonOfFieldsDropped"
            ],
            "what gets lost cannot become as the user wants it"
        );
        assert_eq!(
            shown(&[("Available", "True"), ("Blocked", "True")]),
            [
                "Ready=Unknown ReasonOfBlocked",
                "Stalled=True ReasonOfBlocked"
            ]
        );
    }

    #[test]
    fn a_transition_time_moves_with_the_status_and_old_conditions_go() {
        let later: Timestamp = Timestamp::from_second(60).unwrap_or_default();
        let first = with_health(
            vec![condition("Available", "True")],
            1,
            &[],
            Timestamp::UNIX_EPOCH,
        );
        let same = with_health(first.clone(), 1, &first, later);
        assert_eq!(same, first);
        let progressing = vec![condition("Progressing", "True"), first[1].clone()];
        let next = with_health(progressing, 2, &first, later);
        let times: Vec<_> = next[1..]
            .iter()
            .map(|one| one.last_transition_time.clone().map(|time| time.0))
            .collect();
        assert_eq!(times, [Some(later), Some(later)]);
        assert_eq!(next.len(), 3, "{next:?}");
    }
}
