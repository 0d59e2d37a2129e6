//! Only one agent acts on a host: kubernetes-nmstate's and Weft's take the same lock, so that
//! neither a switch nor a rolling update has two.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    thread,
};

use rustix::{fs::FlockOperation, io::Errno};
use tokio::sync::oneshot;

/// Why the lock cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("the lock {} that keeps two agents from acting at once cannot be taken: {source}; --lock-file names another file", path.display())]
pub struct Error {
    path: PathBuf,
    source: io::Error,
}

/// The lock, held until the process ends, however it ends.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] File);

/// Waits for as long as another one holds the lock, and says so once.
///
/// # Errors
/// The file cannot be made or locked.
pub async fn take(path: &Path) -> Result<Lock, Error> {
    let failed = |source: io::Error| Error {
        path: path.to_owned(),
        source,
    };
    let file = open(path).map_err(failed)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(Lock(file)),
        Err(Errno::WOULDBLOCK) => {}
        Err(error) => return Err(failed(error.into())),
    }
    tracing::info!(
        path = %path.display(),
        "waiting: another agent holds the lock and acts on this host, of kubernetes-nmstate or of Weft; nothing is read or changed until it ends"
    );
    let file = wait_for(file).await.map_err(failed)?;
    tracing::info!(path = %path.display(), "the other agent has released the lock");
    Ok(Lock(file))
}

/// Waits until no other process holds this file's lock, and takes it. The kernel wakes the process.
pub(crate) async fn wait_for(file: File) -> io::Result<File> {
    let (tell, told) = oneshot::channel();
    // Not one of the runtime's threads: those are waited for at the end of the process.
    thread::Builder::new()
        .name("lock".to_owned())
        .spawn(move || {
            let taken = loop {
                match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                    Err(Errno::INTR) => {}
                    taken => break taken,
                }
            };
            let _ = tell.send(taken.map(|()| file));
        })?;
    let taken = told
        .await
        .map_err(|_| io::Error::other("the thread that waited has ended"))?;
    Ok(taken?)
}

/// Opened as kubernetes-nmstate does: made if it is not there, never emptied.
fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn the_second_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/handler_lock");
        let first = take(&path).await.unwrap();
        let mut second = Box::pin(take(&path));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        second.await.unwrap();
    }

    #[tokio::test]
    async fn a_lock_that_cannot_be_is_named() {
        let error = take(Path::new("/dev/null/lock"))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/dev/null/lock") && error.contains("--lock-file"),
            "{error}"
        );
    }
}
