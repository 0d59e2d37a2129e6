//! The reconcile loop. It gathers changes, reconciles while this replica leads, and catches up with
//! the API server after it has taken the lead.

use std::{
    panic::AssertUnwindSafe,
    time::{Duration, Instant},
};

use futures::FutureExt;
use tokio::{sync::watch as channel, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    backoff::Backoff,
    reconcile::{defect::defect, retry},
};

/// Changes that come within this time lead to one reconcile.
const GATHER: Duration = Duration::from_millis(10);
/// The pause before a new leader tries again to catch up.
const CATCH_UP: Duration = Duration::from_secs(1);
/// The shortest and the longest pause after a reconcile that panicked.
const DEFECT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The work of one reconcile loop.
pub trait Work {
    /// Prepares a round, also while another replica leads.
    fn prepare(&mut self, leads: bool);

    /// Reports whether the watches have shown everything that decisions need.
    fn is_ready(&self) -> bool;

    /// Makes sure that the store knows at least as much as the last leader knew, whose watches may
    /// have been ahead of these. Returns false if that failed.
    fn catch_up(&mut self) -> impl Future<Output = bool> + Send;

    /// Reconciles. Returns when the next reconcile is due, if nothing changes before.
    fn reconcile(&mut self) -> impl Future<Output = Option<Instant>> + Send;

    /// Counts a reconcile that panicked, and drops state that it may have left half changed.
    fn panicked(&mut self);

    /// Ends a round, also while another replica leads: sets gauges and returns memory.
    fn finish(&mut self);

    /// Waits for a change.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// Waits until no write is under way. Only then may another replica lead.
    fn quiet(&mut self) -> impl Future<Output = ()> + Send;
}

/// Runs a loop until `stop`. It acts only while `leading`. The watches run always, so that a new
/// leader starts warm.
pub async fn run(
    mut work: impl Work,
    mut watches: JoinSet<()>,
    mut leading: channel::Receiver<bool>,
    stop: CancellationToken,
) {
    let mut up_to_date = false;
    let mut backoff = Backoff::new(DEFECT.0, DEFECT.1);
    loop {
        let leads = *leading.borrow_and_update();
        work.prepare(leads);
        let acts = leads && work.is_ready();
        up_to_date = acts && (up_to_date || work.catch_up().await);
        let due = match acts {
            // A defect in one reconcile must not end the operator.
            true if up_to_date => match AssertUnwindSafe(work.reconcile()).catch_unwind().await {
                Ok(due) => due,
                Err(panic) => {
                    defect(&*panic);
                    work.panicked();
                    Some(Instant::now() + backoff.next_pause())
                }
            },
            true => Some(Instant::now() + CATCH_UP),
            false => None,
        };
        work.finish();
        tokio::select! {
            () = work.changed() => {}
            () = retry::at(due) => {}
            changed = leading.changed() => if changed.is_err() { break },
            () = stop.cancelled() => break,
            // Watches never end. Without one, Weft would go on as if nothing had changed there, so
            // the process ends too.
            Some(ended) = watches.join_next() => {
                tracing::error!(?ended, "a watch has ended");
                break;
            }
        }
        tokio::time::sleep(GATHER).await;
    }
    work.quiet().await;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::sync::{Arc, Mutex};

    use tokio::sync::Notify;

    use super::*;

    /// Notes its calls. `fails` is the number of attempts to catch up until one succeeds, and
    /// `panics` the number of reconciles that panic.
    struct Noted {
        calls: Arc<Mutex<Vec<&'static str>>>,
        fails: usize,
        panics: usize,
        done: Arc<Notify>,
    }

    impl Noted {
        fn note(&self, call: &'static str) {
            self.calls.lock().unwrap().push(call);
        }
    }

    impl Work for Noted {
        fn prepare(&mut self, leads: bool) {
            self.note(if leads { "leads" } else { "follows" });
        }

        fn is_ready(&self) -> bool {
            true
        }

        async fn catch_up(&mut self) -> bool {
            self.note("catches up");
            self.fails = self.fails.saturating_sub(1);
            self.fails == 0
        }

        async fn reconcile(&mut self) -> Option<Instant> {
            self.note("reconciles");
            if self.panics > 0 {
                self.panics -= 1;
                panic!("a defect");
            }
            self.done.notify_one();
            None
        }

        fn panicked(&mut self) {
            self.note("panicked");
        }

        fn finish(&mut self) {}

        async fn changed(&self) {
            std::future::pending().await
        }

        async fn quiet(&mut self) {
            self.note("quiet");
        }
    }

    #[tokio::test]
    async fn a_new_leader_catches_up_and_survives_a_panic() {
        let calls: Arc<Mutex<Vec<_>>> = Arc::default();
        let done = Arc::new(Notify::new());
        let work = Noted {
            calls: Arc::clone(&calls),
            fails: 2,
            panics: 1,
            done: Arc::clone(&done),
        };
        let mut watches = JoinSet::new();
        watches.spawn(std::future::pending());
        let (lead, leading) = channel::channel(false);
        let stop = CancellationToken::new();
        let running = tokio::spawn(run(work, watches, leading, stop.clone()));
        while calls.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        lead.send_replace(true);
        done.notified().await;
        stop.cancel();
        running.await.unwrap();
        let expected = [
            "follows",
            "leads",
            "catches up",
            "leads",
            "catches up",
            "reconciles",
            "panicked",
            "leads",
            "reconciles",
            "quiet",
        ];
        assert_eq!(*calls.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn the_loop_ends_when_a_watch_ends() {
        let work = Noted {
            calls: Arc::default(),
            fails: 0,
            panics: 0,
            done: Arc::default(),
        };
        let mut watches = JoinSet::new();
        watches.spawn(async {});
        let (_lead, leading) = channel::channel(false);
        let running = run(work, watches, leading, CancellationToken::new());
        let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
        assert!(ended.is_ok(), "the loop goes on without its watch");
    }
}
