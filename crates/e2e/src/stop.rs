//! Ctrl-C and other signals, and waits that they end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

/// The pause between two looks at the cluster: a look is a process, and most waits take seconds.
const PAUSE: Duration = Duration::from_millis(500);

/// A wish to stop. Each of SIGINT, SIGTERM and SIGHUP expresses it.
#[derive(Clone)]
pub struct Stop(Arc<Counts>);

struct Counts {
    /// The signals so far.
    come: AtomicUsize,
    /// So many of them end what runs.
    needed: AtomicUsize,
}

impl Stop {
    /// Takes over the three signals: the process ends by itself, after its clean-up.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn on_signals() -> Result<Self> {
        let stop = Self(Arc::new(Counts {
            come: AtomicUsize::new(0),
            needed: AtomicUsize::new(1),
        }));
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signal handler")?;
        let counted = stop.clone();
        thread::spawn(move || {
            for signal in signals.forever() {
                // A terminal that closes sends several of them.
                if signal != SIGHUP || !counted.has_come() {
                    counted.0.come.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Ok(stop)
    }

    /// Returns true once a signal has come that ends what runs.
    pub fn is_wanted(&self) -> bool {
        self.0.come.load(Ordering::Relaxed) >= self.0.needed.load(Ordering::Relaxed)
    }

    /// Returns true once any signal has come.
    pub fn has_come(&self) -> bool {
        self.0.come.load(Ordering::Relaxed) > 0
    }

    /// From now on only another signal ends what runs, and a second one if none has come yet. So the
    /// first signal ends the tests, and the clean-up continues.
    pub fn need_another(&self) {
        let come = self.0.come.load(Ordering::Relaxed);
        self.0.needed.store(come.max(1) + 1, Ordering::Relaxed);
    }

    /// Looks at the cluster until there is a result. An inner `Err` describes the state that is
    /// there instead, for the message of the test.
    ///
    /// # Errors
    /// An outer `Err` of `look` ends the wait at once, and so do the limit and a signal.
    pub fn wait<T>(
        &self,
        awaited: &str,
        limit: Duration,
        mut look: impl FnMut() -> Result<Result<T, String>>,
    ) -> Result<T> {
        let deadline = Instant::now() + limit;
        loop {
            let is_last = Instant::now() > deadline;
            match look()? {
                Ok(result) => return Ok(result),
                Err(_) if self.is_wanted() => bail!("a signal has ended the wait: {awaited}"),
                Err(instead) if is_last => {
                    bail!(
                        "{awaited}: not within {} s. Instead: {instead}",
                        limit.as_secs()
                    )
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }
}
