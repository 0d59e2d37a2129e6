//! The guardian of a host without NetworkManager: a process next to the agent that rolls back the
//! change of an agent that was killed. On other hosts NetworkManager does that.
//!
//! It sleeps until a change begins. Then it waits for the lock that the agent holds during a
//! change. If it gets the lock while there is still a checkpoint, the agent has ended without
//! finishing its change.

use std::{io, pin::pin};

use futures::StreamExt;
use inotify::{Inotify, WatchMask};

use crate::{
    host::{Checkpoint, HostError},
    state_dir::{self, StateDir},
    stop,
};

/// Why the guardian cannot work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The agent's folder cannot be used.
    #[error(transparent)]
    Folder(#[from] state_dir::Error),
    /// The checkpoint cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The kernel does not report changes of the folder.
    #[error(
        "the agent's folder cannot be watched: {0}; a low sysctl fs.inotify.max_user_instances can be the cause"
    )]
    Watch(#[from] io::Error),
}

/// Guards the changes of the agent with this folder until SIGTERM or SIGINT, and then the change
/// that is under way.
///
/// # Errors
/// The folder cannot be read, locked or watched.
pub async fn run(dir: StateDir) -> Result<(), Error> {
    let mut stop = pin!(stop::signal());
    let mut is_ending = false;
    let files = Inotify::init()?;
    // Each file comes there by a rename.
    files.watches().add(dir.folder(), WatchMask::MOVED_TO)?;
    let mut events = [0; 4096];
    let mut files = files.into_event_stream(&mut events)?;
    let checkpoint = Checkpoint::new(dir.clone());
    tracing::info!("guarding the changes of this host's agent");
    loop {
        if checkpoint.held()?.is_some() {
            let lock = dir.lock_when_free().await?;
            if checkpoint.held()?.is_some() && !roll_back(&checkpoint).await {
                drop(lock);
                tokio::time::sleep(Checkpoint::AGAIN).await;
            }
        } else if is_ending {
            return Ok(());
        } else {
            tokio::select! {
                () = &mut stop => is_ending = true,
                event = files.next() => {
                    event.transpose()?;
                }
            }
        }
    }
}

/// Returns true if the host is back.
async fn roll_back(checkpoint: &Checkpoint) -> bool {
    tracing::warn!("the agent ended in the middle of a change: rolling back");
    match checkpoint.roll_back().await {
        Ok(()) => {
            tracing::warn!("the host is as it was before the change");
            true
        }
        Err(error) => {
            tracing::error!(%error, "failed to roll back; trying again");
            false
        }
    }
}
