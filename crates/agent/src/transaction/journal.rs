//! What a transaction leaves in the agent's folder while it runs, for the next start after a crash.

use jiff::Timestamp;
use nmstate::NetworkState;
use serde::{Deserialize, Serialize};

use super::Phase;
use crate::state_dir::{Error, StateDir};

const PHASE: &str = "transaction.json";
const STATES: &str = "transaction-states.json";

/// Where a transaction is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The phase that has begun.
    pub phase: Phase,
    /// Whose change it is, for people.
    pub what: String,
    /// When the transaction began.
    pub began: Timestamp,
}

/// What is needed to undo a change that NetworkManager itself cannot undo any more, because it was started anew meanwhile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct States {
    /// The host before, secrets included.
    pub before: NetworkState,
    /// What was to be changed, secrets included.
    pub desired: NetworkState,
}

impl Journal {
    /// Begins, with what must be known to undo it.
    pub fn begin(dir: &StateDir, what: &str, states: &States) -> Result<Self, Error> {
        dir.write(STATES, states)?;
        let journal = Self { phase: Phase::Checkpoint, what: what.to_owned(), began: Timestamp::now() };
        dir.write(PHASE, &journal)?;
        Ok(journal)
    }

    /// Notes a phase before it begins.
    pub fn enter(&mut self, dir: &StateDir, phase: Phase) -> Result<(), Error> {
        self.phase = phase;
        dir.write(PHASE, self)
    }

    /// Ends: the host is before or after.
    pub fn end(dir: &StateDir) -> Result<(), Error> {
        // In this order: states without a phase mean nothing.
        dir.remove(PHASE)?;
        dir.remove(STATES)
    }

    /// What a process that did not come to the end has left.
    pub fn left(dir: &StateDir) -> Result<Option<(Self, Option<States>)>, Error> {
        match dir.read::<Self>(PHASE)? {
            Some(journal) => Ok(Some((journal, dir.read(STATES)?))),
            None => Ok(None),
        }
    }
}
