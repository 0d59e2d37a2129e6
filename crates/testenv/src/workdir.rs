//! The folder a control plane lives in.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};

use crate::lab::cgroups;

/// Name of the file that is locked as long as the owner of the folder lives.
const LOCK: &str = "lock";

/// Where snapshots of etcd are, in the folder of the control plane.
pub(crate) const SNAPSHOTS: &str = "etcd-snapshots";

/// Data, logs and kubeconfigs of one control plane. Removed on drop, but what helps to find a cause
/// is kept on a panic, after a failed start, or if the environment variable `WEFT_TESTENV_KEEP` is
/// set.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
    pub(crate) keep: bool,
    temporary: bool,
    _lock: File,
}

impl WorkDir {
    /// A fresh folder below the system's folder for temporary files.
    pub(crate) fn temporary() -> Result<Self> {
        let parent = std::env::temp_dir();
        remove_orphans(&parent);
        let path = parent.join(format!("{PREFIX}{:016x}", rand::random::<u64>()));
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        // It gets its name when it is locked already: another start may be looking for orphans
        // right now.
        let mut folder = Self::own(&path, &path.join("lock.new"))?;
        folder.temporary = true;
        fs::rename(path.join("lock.new"), path.join(LOCK))?;
        Ok(folder)
    }

    /// A folder chosen by a person. Made if it is not there. Data of an earlier control plane in it
    /// is removed.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))?;
        if fs::read_dir(path)?.next().is_some() && !path.join(LOCK).exists() {
            bail!(
                "{} holds something else already, and would be removed at the end: choose an empty folder or a new one",
                path.display()
            );
        }
        let folder = Self::own(&path.canonicalize()?, &path.join(LOCK))?;
        remove_data(&folder.path);
        Ok(folder)
    }

    fn own(path: &Path, lock: &Path) -> Result<Self> {
        let lock =
            File::create(lock).with_context(|| format!("cannot write {}", lock.display()))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).with_context(|| {
            format!(
                "another control plane lives in {}: end it first, or choose another folder",
                path.display()
            )
        })?;
        let keep = std::env::var_os("WEFT_TESTENV_KEEP").is_some();
        Ok(Self {
            path: path.to_owned(),
            keep,
            temporary: false,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file that only we may read (most hold a key or a token).
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        write_private(&self.path.join(name), content)
    }
}

pub(crate) fn write_private(path: &Path, content: &str) -> Result<PathBuf> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.to_owned())
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if self.keep || std::thread::panicking() {
            remove_data(&self.path);
            if self.temporary {
                // Without a lock it is not taken for an orphan by the next start.
                let _ = fs::remove_file(self.path.join(LOCK));
            }
            eprintln!(
                "weft-testenv: the logs of the control plane are kept in {}",
                self.path.display()
            );
        } else {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

const PREFIX: &str = "weft-testenv-";

/// The big part, worth nothing afterwards.
fn remove_data(path: &Path) {
    cgroups::remove_leftovers(path);
    for folder in ["etcd", SNAPSHOTS, "kubectl-cache"] {
        let _ = fs::remove_dir_all(path.join(folder));
    }
    for node in fs::read_dir(path.join("nodes"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let _ = fs::remove_dir_all(node.path().join("root"));
    }
    // Of the command line: what is running.
    let _ = fs::remove_file(path.join("state.json"));
}

/// Removes folders whose owner was killed: nobody holds their lock any more.
fn remove_orphans(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
    {
        let Ok(lock) = File::open(entry.path().join(LOCK)) else {
            continue;
        };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            cgroups::remove_leftovers(&entry.path());
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_folder_with_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("thesis.tex"), "").unwrap();
        assert!(
            WorkDir::at(folder.path())
                .unwrap_err()
                .to_string()
                .contains("holds something else")
        );
        assert!(folder.path().join("thesis.tex").exists());
    }

    #[test]
    fn a_folder_has_one_owner_and_an_orphan_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("weft-testenv-x");
        let owned = WorkDir::at(&path).unwrap();
        let error = WorkDir::at(&path).unwrap_err();
        assert!(
            format!("{error:#}").contains("another control plane lives in"),
            "{error:#}"
        );
        remove_orphans(parent.path());
        assert!(path.exists(), "its owner lives");
        // As after SIGKILL: the lock is released, Drop did not run.
        flock(&owned._lock, FlockOperation::Unlock).unwrap();
        remove_orphans(parent.path());
        assert!(!path.exists());
    }
}
