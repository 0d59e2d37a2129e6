//! Where a policy stands on a node, in the words that commands count by.

use std::collections::BTreeMap;

use super::{
    standing::Standing,
    view::{Enactment, Phase, Policy},
};

/// Where a policy stands on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The node has the latest generation.
    Finished,
    /// The node could not apply it, and does not try again by itself.
    Failed,
    /// The node is being changed.
    Progressing,
    /// The node waits for its turn, or is not tried because the policy has failed elsewhere.
    Waiting,
}

impl Progress {
    /// Reads where a policy stands on the node of an enactment. Of an enactment that
    /// kubernetes-nmstate made, this is the agent's report alone.
    pub fn of(policy: &Policy, enactment: &Enactment) -> Self {
        if enactment.wanted.is_none() {
            return match enactment.phase {
                Phase::Available => Self::Finished,
                Phase::Failing => Self::Failed,
                Phase::Progressing => Self::Progressing,
                Phase::Unknown | Phase::Pending | Phase::Aborted => Self::Waiting,
            };
        }
        let standing = match policy.is_deleted {
            true => Standing::of_leaving(policy, enactment),
            false => Standing::of(policy, Some(enactment)),
        };
        match standing {
            Standing::Done => Self::Finished,
            Standing::Failed => Self::Failed,
            Standing::InFlux { .. } => Self::Progressing,
            Standing::Aborted | Standing::Waiting => Self::Waiting,
        }
    }
}

/// Reports whether a policy is for a node with these labels.
pub fn is_for(policy: &Policy, labels: &BTreeMap<String, String>) -> bool {
    policy.selection.matches(labels)
}
