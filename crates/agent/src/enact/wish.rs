//! The wish of one enactment and its progress. Both come from the object itself, so that a
//! restarted agent knows them, too.

use std::collections::BTreeSet;

use serde_json::Value;
use weft_api::node_network::{
    Decision, NodeNetworkConfigurationEnactment, NodeNetworkConfigurationEnactmentStatus as Status,
    NodeNetworkConfigurationPolicySpec as Spec,
};
use weft_node_network::{
    claims::{Layer, Owner, Rank},
    render::{RenderError, Rendered, render_without},
    state,
};

use super::store::Applied;
use crate::enact::phase;

/// How far an enactment has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Something is to be done.
    Open,
    /// The policy was applied.
    Done,
    /// It failed for good, until somebody changes something.
    Failed,
}

/// An enactment of this node, as the agent reads it.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// The name of the enactment.
    pub name: String,
    /// The name of its policy.
    pub policy: String,
    /// The `metadata.generation` of the enactment, which the status acknowledges.
    pub observed: i64,
    /// Generation of the policy.
    pub generation: i64,
    pub decision: Decision,
    pub retry: Option<String>,
    /// The granted specification, with its generation.
    pub granted: Option<(i64, Spec)>,
    /// The last status, of this process if it has written one.
    pub status: Status,
}

impl Wish {
    /// `None` for what kubernetes-nmstate has left, which nobody has decided about.
    pub fn of(
        enactment: &NodeNetworkConfigurationEnactment,
        status: Option<&Status>,
    ) -> Option<Self> {
        let wanted = enactment.spec.wanted.as_ref()?;
        Some(Self {
            name: enactment.metadata.name.clone()?,
            policy: enactment.spec.policy.clone(),
            observed: enactment.metadata.generation.unwrap_or_default(),
            generation: wanted.generation,
            decision: wanted.decision,
            retry: wanted.retry.clone(),
            granted: enactment
                .spec
                .granted
                .as_ref()
                .map(|granted| (granted.generation, granted.spec.clone())),
            status: status
                .or(enactment.status.as_ref())
                .cloned()
                .unwrap_or_default(),
        })
    }

    pub fn owner(&self) -> Owner {
        Owner::Policy(self.policy.clone())
    }

    fn is_acknowledged(&self) -> bool {
        self.status.observed_generation == Some(self.observed)
    }

    /// A failure that may pass by itself (a missing interface, another policy, NetworkManager) gets
    /// a new look each time.
    pub fn standing(&self) -> Standing {
        let phase = self
            .status
            .outcome
            .as_ref()
            .and_then(|outcome| outcome.phase.as_deref());
        if !self.is_acknowledged() {
            Standing::Open
        } else if phase::is_true(&self.status, "Available") {
            Standing::Done
        } else if phase::is_true(&self.status, "Failing")
            && !phase::is_true(&self.status, "Progressing")
            && !matches!(
                phase,
                Some(phase::RENDER | phase::CONFLICT | phase::BACKEND)
            )
        {
            Standing::Failed
        } else {
            Standing::Open
        }
    }

    /// Reports whether this says that it failed for lack of NetworkManager.
    pub fn has_failed_without_backend(&self) -> bool {
        let phase = self
            .status
            .outcome
            .as_ref()
            .and_then(|outcome| outcome.phase.as_deref());
        self.is_acknowledged()
            && phase == Some(phase::BACKEND)
            && !phase::is_true(&self.status, "Progressing")
    }

    /// Returns true if the agent corrects drift, and false if it only reports drift.
    pub fn corrects_drift(&self) -> bool {
        self.granted
            .as_ref()
            .is_none_or(|(_, spec)| spec.drift.as_deref() != Some("report"))
    }

    /// The desired state of what is granted.
    ///
    /// Captures were carried out on the host as it was: once a bridge has taken the place of a
    /// card, the card that has the default route is the bridge. So what they made is kept as long
    /// as the policy stays the same. Matches of interfaces are looked at each time. `leaving` are
    /// the ports that leave automatic bonds.
    pub fn render(
        &self,
        applied: Option<&Applied>,
        current: &Value,
        leaving: &BTreeSet<String>,
    ) -> Result<Rendered, RenderError> {
        let Some((generation, spec)) = &self.granted else {
            return Ok(Rendered {
                desired: state::empty(),
                captures: Default::default(),
                cards: Default::default(),
            });
        };
        if spec.capture.is_some() && self.standing() == Standing::Done {
            let captures = || {
                self.status
                    .captured_states
                    .iter()
                    .flatten()
                    .map(|(name, captured)| {
                        (name.clone(), captured.state.clone().unwrap_or_default())
                    })
                    .collect()
            };
            if let Some(applied) = applied.filter(|applied| applied.generation == *generation) {
                return Ok(Rendered {
                    desired: applied.desired.clone(),
                    captures: captures(),
                    cards: Default::default(),
                });
            }
            if let Some(desired) = self
                .status
                .desired_state
                .clone()
                .filter(|_| self.status.policy_generation == Some(*generation))
            {
                return Ok(Rendered {
                    desired,
                    captures: captures(),
                    cards: Default::default(),
                });
            }
        }
        render_without(spec, current, leaving)
    }

    /// The layer of this policy with this state.
    pub fn layer(&self, state: Value) -> Layer {
        let priority = self
            .granted
            .as_ref()
            .and_then(|(_, spec)| spec.priority)
            .unwrap_or_default();
        // A revert of a policy gives way to the wishes of all others.
        let rank = if self.decision == Decision::Revert {
            Rank::Policy(i64::MIN)
        } else {
            Rank::Policy(priority)
        };
        Layer {
            owner: self.owner(),
            rank,
            state,
        }
    }
}
