//! When the host is looked at: whenever something changed there, soon, and not more often than it
//! can bear.
//!
//! Nothing is polled. Events of the kernel and of NetworkManager lead to one look after
//! [`Pace::quiet`] without further events, at the latest after [`Pace::latest`]. A full look every
//! [`SAFETY_NET`] finds changes without an event.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use nmstate::NetworkState;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until, timeout},
};

use crate::{
    health::{Changing, Health},
    host::{Backend, BridgeFilter, Change, Changes, Host, HostError, Query},
    pause::Pause,
};

/// The agent looks at the host after this time even if no change was reported.
pub const SAFETY_NET: Duration = Duration::from_secs(600);
/// A host that changes all the time is looked at for at most half of the time. No pause between
/// looks is longer.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// When the host is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// So long nothing more may have changed before the host is looked at: a bridge with its ports
    /// is many changes.
    pub quiet: Duration,
    /// So long a change waits at most.
    pub latest: Duration,
    /// So long after a look the next one comes at the latest.
    pub safety_net: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(200),
            latest: Duration::from_secs(2),
            safety_net: SAFETY_NET,
        }
    }
}

impl Pace {
    /// How long a change waits at most. NetworkManager has more to say for some seconds after its
    /// start, and the node is not ready for pods before it is looked at.
    fn patience(&self, change: Change) -> Duration {
        match change {
            Change::Backend => self.latest / 4,
            Change::Kernel | Change::NetworkManager | Change::Lost => self.latest,
        }
    }
}

/// The host at one look.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Its network as nmstate has it, without secrets. Not normalised.
    pub state: NetworkState,
    /// The backend that reported it.
    pub backend: Backend,
    /// True while NetworkManager has not done all that it does at its start.
    pub is_starting: bool,
    /// The kernel's index of each interface that it knows.
    pub indexes: BTreeMap<String, u32>,
    /// The interfaces with a neighbor whose port is part of an aggregation.
    pub aggregated: BTreeSet<String>,
    /// The bridges whose packets pass the host's firewall.
    pub bridge_filter: BridgeFilter,
}

/// A look at the host.
#[derive(Clone, Debug)]
pub struct Look {
    /// How many there have been, this one included.
    pub number: u64,
    /// The observation, or the reason why there is none.
    pub seen: Result<Arc<Observation>, HostError>,
}

/// Looks at the host. Clones are for those who want to know. It ends when all are dropped.
#[derive(Clone)]
pub struct Observer {
    looks: watch::Receiver<Option<Look>>,
    ask: mpsc::UnboundedSender<oneshot::Sender<()>>,
    health: Health,
}

impl Observer {
    /// Begins with a look at once. To be called inside a runtime.
    pub fn start(host: Arc<dyn Host>, changes: Changes, health: Health) -> Self {
        Self::start_at(Pace::default(), host, changes, health)
    }

    /// The same at another pace.
    pub fn start_at(pace: Pace, host: Arc<dyn Host>, changes: Changes, health: Health) -> Self {
        let (show, looks) = watch::channel(None);
        let (ask, asked) = mpsc::unbounded_channel();
        let eye = Eye {
            pace,
            host,
            changes,
            told: true,
            asked,
            waiting: Vec::new(),
            held: health.under_way(),
            show,
            health: health.clone(),
        };
        tokio::spawn(eye.watch());
        Self { looks, ask, health }
    }

    /// The latest look, `None` before the first, and each that follows.
    pub fn looks(&self) -> watch::Receiver<Option<Look>> {
        self.looks.clone()
    }

    /// Looks now, and waits until that look can be seen. While somebody [holds](Self::hold) it,
    /// that is afterwards.
    pub async fn refresh(&self) {
        let (answer, answered) = oneshot::channel();
        if self.ask.send(answer).is_ok() {
            let _ = answered.await;
        }
    }

    /// No look while this lives, so that nobody takes a change that may still be rolled back for
    /// the state of the host. The observer looks at changes of that time afterwards.
    #[must_use]
    pub fn hold(&self) -> Changing {
        self.health.changes()
    }
}

struct Eye {
    pace: Pace,
    host: Arc<dyn Host>,
    changes: Changes,
    /// False once the stream of changes has ended.
    told: bool,
    asked: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    /// Callers that wait for the next look.
    waiting: Vec<oneshot::Sender<()>>,
    held: watch::Receiver<usize>,
    show: watch::Sender<Option<Look>>,
    health: Health,
}

impl Eye {
    async fn watch(mut self) {
        let mut failures = Pause::new(Duration::from_secs(1), Duration::from_secs(60));
        let mut number = 0;
        loop {
            if self.held.wait_for(|holds| *holds == 0).await.is_err() {
                return;
            }
            while let Ok(answer) = self.asked.try_recv() {
                self.waiting.push(answer);
            }
            let waiting = std::mem::take(&mut self.waiting);
            let begun = Instant::now();
            self.health.looks();
            let seen = look(&*self.host).await;
            self.health.looked(seen.is_ok());
            let took = begun.elapsed();
            number += 1;
            let next = match &seen {
                Ok(seen) => {
                    failures.reset();
                    tracing::debug!(number, ?took, backend = ?seen.backend, "looked at the host");
                    self.pace.safety_net
                }
                Err(error) => {
                    let pause = failures.next();
                    tracing::warn!(%error, ?pause, "the host cannot be looked at; trying again");
                    pause
                }
            };
            if self.show.send(Some(Look { number, seen })).is_err() {
                return;
            }
            waiting.into_iter().for_each(|answer| _ = answer.send(()));
            if !self
                .reason(
                    Instant::now() + next,
                    Instant::now() + took.min(LONGEST_REST),
                )
                .await
            {
                return;
            }
        }
    }

    /// Waits for a reason to look again: a request, at once. A change, when it has become quiet and
    /// `rested` is over. `deadline`. False when nobody wants to know any more.
    async fn reason(&mut self, deadline: Instant, rested: Instant) -> bool {
        let patience = tokio::select! {
            answer = self.asked.recv() => return self.note(answer),
            change = self.changes.next(), if self.told => match change {
                Some(change) => {
                    tracing::debug!(?change, "the host has changed");
                    self.pace.patience(change)
                }
                None => {
                    tracing::error!("stream of host changes ended; only the regular full look is left");
                    self.told = false;
                    return true;
                }
            },
            () = sleep_until(deadline) => return true,
        };
        let latest = Instant::now() + patience;
        loop {
            tokio::select! {
                answer = self.asked.recv() => return self.note(answer),
                more = timeout(self.pace.quiet, self.changes.next()) => if !matches!(more, Ok(Some(_))) { break },
                () = sleep_until(latest) => break,
            }
        }
        tokio::select! {
            answer = self.asked.recv() => self.note(answer),
            () = sleep_until(rested) => true,
        }
    }

    fn note(&mut self, answer: Option<oneshot::Sender<()>>) -> bool {
        let there = answer.is_some();
        self.waiting.extend(answer);
        there
    }
}

async fn look(host: &dyn Host) -> Result<Arc<Observation>, HostError> {
    let found = host.retrieve(Query::default()).await?;
    Ok(Arc::new(Observation {
        state: found.state,
        backend: found.backend,
        is_starting: found.is_starting,
        indexes: found.indexes,
        aggregated: found.aggregated,
        bridge_filter: found.bridge_filter,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_looked_at_within_a_second_after_networkmanager_has_come() {
        let pace = Pace::default();
        let patience = pace.patience(Change::Backend);
        assert!(patience >= pace.quiet && patience <= Duration::from_millis(500));
        assert_eq!(pace.patience(Change::NetworkManager), pace.latest);
    }
}
