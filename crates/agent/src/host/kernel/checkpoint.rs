//! The checkpoint of a change without NetworkManager: a file in the agent's folder, so that the
//! [guardian](crate::guardian) or the next agent finds it when this process is killed, and a time
//! after which the agent rolls back by itself.

use std::{collections::BTreeSet, fs, time::Duration};

use nmstate::ErrorKind;
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, time::Instant};

use super::{super::HostError, restore, snapshot::Snapshot};
use crate::state_dir::{self, StateDir};

const FILE: &str = "kernel-checkpoint.json";
/// The number of this boot (random(4)). A reboot has undone every change.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct Kept {
    boot: String,
    before: Snapshot,
}

/// The only checkpoint that there can be.
pub struct Checkpoint {
    dir: StateDir,
    /// When the agent rolls back by itself.
    due: watch::Sender<Option<Instant>>,
}

impl Checkpoint {
    /// The time until the next try if the host cannot be brought back.
    pub const AGAIN: Duration = Duration::from_secs(5);

    pub fn new(dir: StateDir) -> Self {
        Self {
            dir,
            due: watch::Sender::new(None),
        }
    }

    /// Keeps a snapshot, before the first write.
    pub fn begin(&self, before: &Snapshot, lease: Duration) -> Result<(), HostError> {
        if self.kept()?.is_some() {
            return Err(HostError::Nmstate {
                kind: ErrorKind::PluginFailure,
                message: format!(
                    "an earlier change of this host is not finished: the guardian or the next start of the agent rolls back its checkpoint {}",
                    self.dir.path(FILE).display()
                ),
            });
        }
        let kept = Kept {
            boot: boot()?,
            before: before.clone(),
        };
        self.dir.write(FILE, &kept).map_err(folder)?;
        self.due.send_replace(Some(Instant::now() + lease));
        Ok(())
    }

    /// The path of the checkpoint, if there is one.
    pub fn held(&self) -> Result<Option<String>, HostError> {
        Ok(self
            .kept()?
            .map(|_| self.dir.path(FILE).display().to_string()))
    }

    /// The links that look like the ends of pods' pairs, and that the change wants as ports.
    pub fn wanted_ends(&self) -> Result<BTreeSet<String>, HostError> {
        let Some(kept) = self.kept()? else {
            return Ok(BTreeSet::new());
        };
        let Snapshot { ports, links, .. } = kept.before;
        let ends = links.into_values().filter(|link| link.is_pod_end);
        Ok(ends
            .map(|link| link.name)
            .filter(|name| ports.contains(name))
            .collect())
    }

    /// Has it last this long from now on. Returns false if there is none.
    pub fn renew(&self, lease: Duration) -> bool {
        self.due.send_if_modified(|due| {
            let is_held = due.is_some();
            if is_held {
                *due = Some(Instant::now() + lease);
            }
            is_held
        })
    }

    /// Keeps the change.
    pub fn commit(&self) -> Result<(), HostError> {
        if self.kept()?.is_none() {
            return Err(missing());
        }
        self.end()
    }

    /// Puts everything back. The checkpoint stays after an error, for the next try.
    pub async fn roll_back(&self) -> Result<(), HostError> {
        let kept = self.kept()?.ok_or_else(missing)?;
        restore::restore(&kept.before).await?;
        self.end()
    }

    /// Rolls back when the time is over. Never returns.
    pub async fn when_due(&self) {
        let mut due = self.due.subscribe();
        loop {
            let at = *due.borrow_and_update();
            let over = async {
                match at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = due.changed() => {}
                () = over => return,
            }
        }
    }

    /// See [`Checkpoint::when_due`]: the agent tries again as long as it fails.
    pub async fn roll_back_overdue(&self) {
        tracing::warn!("the time of the checkpoint is over: rolling back");
        if let Err(error) = self.roll_back().await {
            tracing::error!(%error, "failed to roll back; trying again");
            self.due.send_replace(Some(Instant::now() + Self::AGAIN));
        }
    }

    fn end(&self) -> Result<(), HostError> {
        self.due.send_replace(None);
        self.dir.remove(FILE).map_err(folder)
    }

    /// The checkpoint of this boot.
    fn kept(&self) -> Result<Option<Kept>, HostError> {
        let kept: Option<Kept> = self.dir.read(FILE).map_err(folder)?;
        let boot = boot()?;
        Ok(kept.filter(|kept| kept.boot == boot))
    }
}

fn boot() -> Result<String, HostError> {
    Ok(fs::read_to_string(BOOT)?.trim().to_owned())
}

fn missing() -> HostError {
    HostError::Nmstate {
        kind: ErrorKind::InvalidArgument,
        message: "there is no checkpoint: its time was over, and the agent has rolled back"
            .to_owned(),
    }
}

pub fn folder(error: state_dir::Error) -> HostError {
    HostError::Links(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_of_an_earlier_boot_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path()).unwrap();
        let begin = || {
            let checkpoint = Checkpoint::new(dir.clone());
            checkpoint.begin(&Snapshot::default(), Duration::from_secs(9))
        };
        begin().unwrap();
        // Another process finds it, and begins no second change.
        assert!(Checkpoint::new(dir.clone()).held().unwrap().is_some());
        assert!(begin().unwrap_err().to_string().contains(FILE));

        let mut kept: Kept = dir.read(FILE).unwrap().unwrap();
        kept.boot = "before".to_owned();
        dir.write(FILE, &kept).unwrap();
        assert_eq!(Checkpoint::new(dir.clone()).held().unwrap(), None);
        begin().unwrap();
    }
}
