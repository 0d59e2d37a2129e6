//! The start after a crash in the middle of a transaction: the host goes back to before, unless the
//! change had been committed.

use std::{fmt, time::Duration};

use nmstate::NetworkState;
use tokio::time::Instant;

use super::{Failure, Journal, Phase, Transactor, is_as_desired, is_made, journal::States};
use crate::{
    history,
    host::{ApplyOptions, Query},
    state_dir::Lock,
};

/// How long devices may take to be what they were, once NetworkManager has rolled back.
const SETTLED: Duration = Duration::from_secs(2);

/// A transaction that did not come to its end because the agent, or the host, did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// The phase that had begun.
    pub phase: Phase,
    /// The owner of the change.
    pub what: String,
    /// True if the change is there: it had been committed. Else the host is as it was before.
    pub is_there: bool,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = if self.is_there {
            "it had been committed, and is there"
        } else {
            "the host is as it was before"
        };
        write!(
            formatter,
            "the agent was stopped in phase {} of changing {}: {now}",
            self.phase, self.what
        )
    }
}

impl Transactor {
    /// Cleans up after a transaction that did not come to its end, under the lock of the agent's
    /// folder. To be called at the start, before anything else is changed.
    ///
    /// # Errors
    /// The host could not be brought back. The journal stays, so that the next start tries again.
    pub async fn recover(&self, _lock: Lock) -> Result<Option<Interrupted>, Failure> {
        let left = Journal::left(&self.dir)
            .map_err(|error| Failure::new(Phase::Rollback, error.to_string()))?;
        let Some((journal, states)) = left else {
            return Ok(None);
        };
        tracing::warn!(phase = %journal.phase, what = journal.what, "a transaction did not come to its end");
        let rolled_back = self.roll_back_checkpoints().await?;
        // A missing checkpoint has three causes: the commit is done, NetworkManager rolled back when
        // the time was over, or it was restarted and forgot. Only the host's state shows which.
        let is_there = match (&states, journal.phase) {
            (Some(_), Phase::Note) => true,
            (Some(states), Phase::Commit) if rolled_back == 0 => self.is_there(states).await?,
            _ => false,
        };
        // A rollback does not restore everything, and a restarted NetworkManager nothing at all.
        // Before the phase Apply there is nothing to restore.
        if let Some(states) = states
            .as_ref()
            .filter(|_| !is_there && journal.phase > Phase::Checkpoint)
        {
            self.restore(states).await?;
        }
        self.put_ports_back(&Default::default()).await;
        let interrupted = Interrupted {
            phase: journal.phase,
            what: journal.what,
            is_there,
        };
        let ended = match states.as_ref().filter(|_| is_there) {
            Some(states) => Journal::end_after(&self.dir, states),
            None => Journal::end_before(&self.dir),
        };
        ended.map_err(|error| Failure::new(Phase::Rollback, error.to_string()))?;
        if let Some(states) = states {
            let outcome = if is_there {
                Ok(())
            } else {
                Err(interrupted.to_string())
            };
            self.remember(
                &interrupted.what,
                outcome,
                states.before,
                states.desired,
                &[],
            );
        }
        Ok(Some(interrupted))
    }

    /// Reports whether the change was committed: the checkpoint is gone, and the host is as
    /// desired.
    async fn is_there(&self, states: &States) -> Result<bool, Failure> {
        Ok(is_made(&states.desired, &self.now().await?))
    }

    /// Brings back by a change of its own what a rollback has left: a checkpoint has the global DNS
    /// configuration only from NetworkManager 1.47 on, and it is kept in memory alone, so that a
    /// NetworkManager that was started anew meanwhile has none, and the new profiles on disk.
    pub(super) async fn restore(&self, states: &States) -> Result<(), Failure> {
        let revert = history::revert(&states.desired, &states.before)
            .map_err(|error| Failure::nmstate(Phase::Rollback, &error))?;
        let deadline = Instant::now() + SETTLED;
        loop {
            let now = self.now().await?;
            if is_as_desired(&revert, &now) {
                return Ok(());
            }
            if Instant::now() > deadline {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        tracing::warn!(
            "the rollback has left something of the change: it is taken back by another one"
        );
        let options = ApplyOptions {
            commit: true,
            ..self.options()
        };
        self.while_renewing(self.host.apply(revert, options))
            .await
            .map_err(|error| Failure::host(Phase::Rollback, &error))
    }

    pub(super) async fn now(&self) -> Result<NetworkState, Failure> {
        let read = self
            .host
            .retrieve(Query {
                secrets: true,
                ..Query::default()
            })
            .await;
        Ok(read
            .map_err(|error| Failure::host(Phase::Rollback, &error))?
            .state)
    }
}
