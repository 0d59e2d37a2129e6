//! Ctrl-C and other signals, and waits that they end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The pause between two looks at the cluster: a look is a process, and most waits take seconds.
const PAUSE: Duration = Duration::from_millis(500);

/// A wish to stop. Each of SIGINT, SIGTERM and SIGHUP expresses it.
#[derive(Clone)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Takes over the three signals: the process ends by itself, after its clean-up.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn on_signals() -> Result<Self> {
        let wish = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&wish)).context("signal handler")?;
        }
        Ok(Self(wish))
    }

    /// Returns true once a signal has come.
    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Forgets the signal, so that the waits of the clean-up go on.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
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
