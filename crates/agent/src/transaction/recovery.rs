//! The start after a crash in the middle of a transaction: the host goes back to before, unless the change had been committed.

use std::fmt;

use super::{Failure, Journal, Phase, Transactor, is_as_desired, journal::States};
use crate::host::{ApplyOptions, Host, Query};

/// A transaction that did not come to its end because the agent, or the host, did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The phase that had begun.
    pub phase: Phase,
    /// Whose change it was.
    pub what: String,
    /// Whether the change is there: it had been committed. Else the host is as it was before.
    pub is_there: bool,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = if self.is_there { "it had been committed, and is there" } else { "the host is as it was before" };
        write!(formatter, "the agent was stopped in phase {} of changing {}: {now}", self.phase, self.what)
    }
}

impl Transactor {
    /// Cleans up after a transaction that did not come to its end. To be called at the start, before anything else is changed.
    ///
    /// # Errors
    /// The host could not be brought back; the journal stays, so that the next start tries again.
    pub async fn recover(&self) -> Result<Option<Interrupted>, Failure> {
        let _lock = self.dir.lock().map_err(|error| Failure::new(Phase::Plan, error.to_string()))?;
        let left = Journal::left(&self.dir).map_err(|error| Failure::new(Phase::Rollback, error.to_string()))?;
        let Some((journal, states)) = left else { return Ok(None) };
        tracing::warn!(phase = %journal.phase, what = journal.what, "a transaction did not come to its end");
        let rolled_back = self.roll_back_checkpoints().await?;
        let is_there = match states {
            Some(states) if rolled_back == 0 => self.settle(journal.phase, states).await?,
            _ => false,
        };
        self.put_ports_back(&Default::default()).await;
        Journal::end(&self.dir).map_err(|error| Failure::new(Phase::Rollback, error.to_string()))?;
        Ok(Some(Interrupted { phase: journal.phase, what: journal.what, is_there }))
    }

    /// No checkpoint is left. Either it was committed; or its time was over, and NetworkManager has rolled back; or NetworkManager, which keeps
    /// checkpoints in its memory alone, was started anew and has the new profiles. In that last case the change is undone by another one.
    async fn settle(&self, phase: Phase, states: States) -> Result<bool, Failure> {
        let host: &dyn Host = &*self.host;
        let failed = |error: crate::host::HostError| Failure::new(Phase::Rollback, error.to_string());
        let now = host.retrieve(Query { secrets: true, ..Query::default() }).await.map_err(failed)?.state;
        if phase == Phase::Commit && is_as_desired(&states.desired, &now) {
            return Ok(true);
        }
        if phase <= Phase::Checkpoint {
            return Ok(false);
        }
        let revert = states.desired.generate_revert(&states.before).map_err(|error| Failure::nmstate(&error))?;
        if !is_as_desired(&revert, &now) {
            let options = ApplyOptions { commit: true, ..self.options() };
            host.apply(revert, options).await.map_err(|error| Failure::host(Phase::Rollback, &error))?;
        }
        Ok(false)
    }
}
