//! A child process that a hook of the proxy kills.

use std::process::Child;
use std::sync::{Arc, OnceLock};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::{PATIENCE, blocking};

/// A child process that is to be killed at a certain moment, known before the child is started. Set
/// the hook first, start the child, then name it by [`is`](Self::is).
///
/// ```no_run
/// # fn example(proxy: &weft_testenv::proxy::Proxy) -> std::io::Result<()> {
/// use weft_testenv::{Victim, proxy::{Match, When}};
///
/// let victim = Victim::new();
/// proxy.on_write(Match::any().user("system:serviceaccount:a:b"), 3, When::After, victim.kill());
/// let mut child = std::process::Command::new("weft").spawn()?;
/// victim.is(&child);
/// child.wait()?; // ends by SIGKILL when its third write is done
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Victim(Arc<OnceLock<Pid>>);

impl Victim {
    /// A victim without a process.
    pub fn new() -> Self {
        Self::default()
    }

    /// This child. Wait for the process only after the kill, so that another process does not get
    /// its pid before.
    pub fn is(&self, child: &Child) {
        // The first one counts.
        let _ = self.0.set(Pid::from_child(child));
    }

    /// Sends SIGKILL to the child. Waits until it is known which one that is, but not for ever: a
    /// test that has failed before names none.
    pub fn kill(&self) -> impl FnOnce() + Send + 'static {
        let pid = self.0.clone();
        move || {
            if let Ok(Some(pid)) = blocking(PATIENCE, || Ok(pid.get().copied())) {
                // Fails only if it has ended and was waited for.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
