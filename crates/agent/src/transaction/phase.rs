//! The phases of a transaction, and the way to stop at one.

use std::{fmt, fs::File, time::Duration};

use rustix::{fs::FlockOperation, io::Errno};
use serde::{Deserialize, Serialize};

use crate::state_dir::StateDir;

/// Where a transaction is. A failure after `Checkpoint` is undone, unless `Commit` is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// The agent computes the change and reads secrets.
    Plan,
    /// Leftover checkpoints are rolled back, and what must be known of the state before is noted.
    Checkpoint,
    /// NetworkManager gets the new state.
    Apply,
    /// The host is compared with what was asked for.
    Verify,
    /// The probes that succeeded before are tried until they succeed again.
    Probe,
    /// The checkpoint is given up: the change stays.
    Commit,
    /// The change is there, and what must be known of it later is written down.
    Note,
    /// The checkpoint is rolled back.
    Rollback,
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

impl Phase {
    /// Waits while somebody holds the lock of this phase:
    /// `flock /var/lib/weft-agent/hold-Probe sleep 20` keeps a transaction from probing for that
    /// long, to look at a host in between or to try what a crash there does. Nobody does so by
    /// accident: the file must be made first.
    pub async fn wait_while_held(self, dir: &StateDir) {
        let Ok(file) = File::open(dir.path(&format!("hold-{self}"))) else {
            return;
        };
        while rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared)
            == Err(Errno::WOULDBLOCK)
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
