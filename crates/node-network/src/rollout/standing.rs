//! Where a policy stands on one node.

use super::view::{Decision, Enactment, Node, Phase, Policy, Wanted};

/// Where a policy stands on one node, whatever other nodes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The node is being changed, or may be, because it has the permission and has not reported
    /// the end.
    InFlux {
        /// True if the node changes to the wanted generation, false if a newer one is wanted.
        current: bool,
    },
    /// The node has what is wanted now.
    Done,
    /// The node could not, and does not try again by itself.
    Failed,
    /// The operator decided, in this try, that the node leaves the policy unapplied.
    Aborted,
    /// Nothing goes on there, and what is wanted now is not decided, or waits, or nobody may act
    /// there.
    Waiting,
}

impl Standing {
    /// Where a policy stands whose node it is for.
    ///
    /// The agent's report counts only for the current specification (`status.observedGeneration`).
    /// While the agent may have read a specification without a report, the enactment is in flux.
    /// Generations are compared by equality alone, since a policy that was recreated begins with 1.
    pub(super) fn of(policy: &Policy, enactment: Option<&Enactment>) -> Self {
        Self::towards(Decision::Granted, policy, enactment)
    }

    /// The same, where the values of the node differ from those that were granted: another grant is
    /// due, or the node waits for a value.
    pub(super) fn with_other_values(self) -> Self {
        match self {
            Self::InFlux { .. } => Self::InFlux { current: false },
            Self::Done | Self::Failed => Self::Waiting,
            Self::Aborted | Self::Waiting => self,
        }
    }

    /// The same on a node that is to put back what the policy changed.
    pub(super) fn of_leaving(policy: &Policy, enactment: &Enactment) -> Self {
        Self::towards(Decision::Revert, policy, Some(enactment))
    }

    fn towards(goal: Decision, policy: &Policy, enactment: Option<&Enactment>) -> Self {
        let Some((enactment, wanted)) =
            enactment.and_then(|enactment| Some((enactment, enactment.wanted.as_ref()?)))
        else {
            return Self::Waiting;
        };
        let runs = runs(enactment, wanted);
        // The agent puts back the granted state, whichever generation that was.
        let of_this = goal == Decision::Revert
            || wanted.generation == policy.generation
                && enactment.policy_uid.as_deref() == Some(policy.uid.as_str());
        let is_current_try = policy.is_current_try(wanted);
        match wanted.decision {
            decision if runs => Self::InFlux {
                current: decision == goal && of_this,
            },
            decision if decision == goal && of_this && enactment.phase == Phase::Available => {
                Self::Done
            }
            decision if decision == goal && of_this && is_current_try => Self::Failed,
            Decision::Aborted if goal == Decision::Granted && of_this && is_current_try => {
                Self::Aborted
            }
            _ => Self::Waiting,
        }
    }
}

/// Reports whether a node is being changed, or may be, for whatever policy.
pub(super) fn is_in_flux(enactment: &Enactment) -> bool {
    enactment
        .wanted
        .as_ref()
        .is_some_and(|wanted| runs(enactment, wanted))
}

fn runs(enactment: &Enactment, wanted: &Wanted) -> bool {
    match wanted.decision {
        Decision::Granted | Decision::Revert => {
            let has_ended = [Phase::Available, Phase::Failing].contains(&enactment.phase);
            !(has_ended && enactment.observed == Some(enactment.generation))
        }
        // Such a decision is only written where nothing runs.
        Decision::Pending | Decision::Aborted => enactment.phase == Phase::Progressing,
    }
}

/// Reports whether a node in flux counts as unavailable by our doing.
///
/// A node that is not Ready, or gone, does not: it would hold up the others for as long as it is
/// away. But it does if its agent has begun: what was changed there may be the very reason, and
/// must not spread.
pub(super) fn holds(node: Option<&Node>, enactment: &Enactment) -> bool {
    let has_begun =
        enactment.phase == Phase::Progressing && enactment.observed == Some(enactment.generation);
    node.is_some_and(|node| node.is_ready || has_begun)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn policy(generation: i64, retry: Option<&str>) -> Policy {
        Policy {
            uid: "u".into(),
            generation,
            retry: retry.map(str::to_owned),
            ..Policy::default()
        }
    }

    fn enactment(decision: Decision, phase: Phase, observed: i64) -> Enactment {
        Enactment {
            generation: 2,
            policy_uid: Some("u".into()),
            wanted: Some(Wanted {
                generation: 7,
                decision,
                retry: Some("a".into()),
                waits: None,
            }),
            observed: Some(observed),
            phase,
            ..Enactment::default()
        }
    }

    #[test]
    fn an_agents_report_counts_after_it_observed_the_latest_decision() {
        use Decision::{Aborted, Granted, Pending, Revert};
        use Standing::{Done, Failed, InFlux, Waiting};
        let (same, newer) = (policy(7, None), policy(8, None));
        for (decision, phase, observed, of_same, of_newer) in [
            (Granted, Phase::Available, 2, Done, Waiting),
            (
                Granted,
                Phase::Available,
                1,
                InFlux { current: true },
                InFlux { current: false },
            ),
            (
                Granted,
                Phase::Progressing,
                2,
                InFlux { current: true },
                InFlux { current: false },
            ),
            (Granted, Phase::Failing, 2, Failed, Waiting),
            (
                Granted,
                Phase::Failing,
                1,
                InFlux { current: true },
                InFlux { current: false },
            ),
            (
                Granted,
                Phase::Unknown,
                2,
                InFlux { current: true },
                InFlux { current: false },
            ),
            (
                Granted,
                Phase::Pending,
                2,
                InFlux { current: true },
                InFlux { current: false },
            ),
            (Pending, Phase::Available, 1, Waiting, Waiting),
            (Pending, Phase::Pending, 2, Waiting, Waiting),
            (Aborted, Phase::Available, 1, Standing::Aborted, Waiting),
            (Revert, Phase::Available, 2, Waiting, Waiting),
            (
                Revert,
                Phase::Available,
                1,
                InFlux { current: false },
                InFlux { current: false },
            ),
        ] {
            let enactment = enactment(decision, phase, observed);
            assert_eq!(
                Standing::of(&same, Some(&enactment)),
                of_same,
                "{enactment:?}"
            );
            assert_eq!(
                Standing::of(&newer, Some(&enactment)),
                of_newer,
                "newer: {enactment:?}"
            );
            assert_eq!(
                is_in_flux(&enactment),
                matches!(of_same, InFlux { .. }),
                "{enactment:?}"
            );
        }
        assert_eq!(Standing::of(&same, None), Waiting);
        assert!(!is_in_flux(&Enactment::default()));
        assert_eq!(
            Standing::of(
                &same,
                Some(&Enactment {
                    phase: Phase::Available,
                    ..Enactment::default()
                })
            ),
            Waiting,
            "of another operator"
        );
    }

    #[test]
    fn another_try_takes_failures_back_and_leaves_what_is_done() {
        let again = policy(7, Some("b"));
        assert_eq!(
            Standing::of(
                &again,
                Some(&enactment(Decision::Granted, Phase::Failing, 2))
            ),
            Standing::Waiting
        );
        assert_eq!(
            Standing::of(
                &again,
                Some(&enactment(Decision::Aborted, Phase::Aborted, 2))
            ),
            Standing::Waiting
        );
        assert_eq!(
            Standing::of(
                &again,
                Some(&enactment(Decision::Granted, Phase::Available, 2))
            ),
            Standing::Done
        );
        assert_eq!(
            Standing::of(
                &policy(7, None),
                Some(&enactment(Decision::Granted, Phase::Failing, 2))
            ),
            Standing::Failed,
            "taken away"
        );
    }

    #[test]
    fn a_policy_made_anew_is_another_one() {
        let anew = Policy {
            uid: "v".into(),
            ..policy(7, None)
        };
        assert_eq!(
            Standing::of(
                &anew,
                Some(&enactment(Decision::Granted, Phase::Available, 2))
            ),
            Standing::Waiting
        );
    }

    #[test]
    fn a_node_that_is_away_holds_a_slot_only_if_the_change_had_begun() {
        let (ready, away) = (
            Node {
                is_ready: true,
                ..Node::default()
            },
            Node::default(),
        );
        let (told, begun) = (
            enactment(Decision::Granted, Phase::Progressing, 1),
            enactment(Decision::Granted, Phase::Progressing, 2),
        );
        assert!(
            holds(Some(&ready), &told) && holds(Some(&ready), &begun) && holds(Some(&away), &begun)
        );
        assert!(!holds(Some(&away), &told) && !holds(None, &begun));
    }
}
