//! The agent's folder on the host, `/var/lib/weft-agent`: what must outlive the process. Only root
//! may read it, since states hold secrets.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::{fs::FlockOperation, io::Errno};
use serde::{Serialize, de::DeserializeOwned};

use crate::lock;

/// Why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{}: {source}; the agent keeps its journal and history there, set --state-dir to a folder that it may write", path.display())]
    Io {
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file is not what the agent has written.
    #[error("{}: {source}; remove the file, its content is lost", path.display())]
    Content {
        /// The path of the file.
        path: PathBuf,
        /// The place at which it stops being valid, and the reason.
        source: serde_json::Error,
    },
    /// Another process changes the host.
    #[error("another weft-agent changes this host (it holds the lock {}): try again when it is done", .0.display())]
    Busy(PathBuf),
}

/// The folder in which the agent keeps its state on the host.
#[derive(Clone, Debug)]
pub struct StateDir(PathBuf);

impl StateDir {
    /// Makes the folder unless it is there.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)
            .map_err(at(&path))?;
        Ok(Self(path))
    }

    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A file's content. `None` if it is not there.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let path = self.path(name);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::Io { path, source }),
        };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| Error::Content { path, source })
    }

    /// Puts a file there as a whole: after a crash or a power cut there is the old content or the
    /// new one.
    pub fn write<T: Serialize>(&self, name: &str, content: &T) -> Result<(), Error> {
        let path = self.path(name);
        let bytes = serde_json::to_vec(content).map_err(|source| Error::Content {
            path: path.clone(),
            source,
        })?;
        let new = path.with_extension("new");
        let written = || -> io::Result<()> {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
        };
        written().map_err(at(&path))
    }

    /// Removes a file. None there is fine.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::Io {
                path,
                source: error,
            }),
            _ => Ok(()),
        }
    }

    /// Takes the lock under which a host is changed. The kernel releases it when the process ends,
    /// however it ends.
    pub fn lock(&self) -> Result<Lock, Error> {
        let (path, file) = self.lock_file()?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock { _file: file }),
            Err(Errno::WOULDBLOCK) => Err(Error::Busy(path)),
            Err(error) => Err(at(&path)(error.into())),
        }
    }

    /// Takes the same lock once no other process holds it.
    pub async fn lock_when_free(&self) -> Result<Lock, Error> {
        let (path, file) = self.lock_file()?;
        let file = lock::wait_for(file).await.map_err(at(&path))?;
        Ok(Lock { _file: file })
    }

    fn lock_file(&self) -> Result<(PathBuf, File), Error> {
        let path = self.path("lock");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(at(&path))?;
        Ok((path, file))
    }
}

/// The lock of [`StateDir::lock`], while it lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    |source| Error::Io { path, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_file_is_for_root_alone_and_comes_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path().join("agent")).unwrap();
        assert_eq!(dir.read::<Vec<u32>>("numbers.json").unwrap(), None);
        dir.write("numbers.json", &vec![1, 2]).unwrap();
        dir.write("numbers.json", &vec![3]).unwrap();
        assert_eq!(dir.read::<Vec<u32>>("numbers.json").unwrap(), Some(vec![3]));
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(dir.path("numbers.json")), 0o600);
        assert_eq!(mode(folder.path().join("agent")), 0o700);
        dir.remove("numbers.json").unwrap();
        dir.remove("numbers.json").unwrap();
    }

    #[test]
    fn one_changes_the_host_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path()).unwrap();
        let lock = dir.lock().unwrap();
        assert!(matches!(dir.lock(), Err(Error::Busy(_))));
        drop(lock);
        dir.lock().unwrap();
    }

    #[tokio::test]
    async fn a_process_can_wait_for_its_turn() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::open(folder.path()).unwrap();
        let lock = dir.lock().unwrap();
        let mut second = Box::pin(dir.lock_when_free());
        assert!(second.as_mut().now_or_never().is_none());
        drop(lock);
        second.await.unwrap();
    }
}
