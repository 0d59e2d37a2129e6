//! Installs CNI plugins next to those that the node has.
//!
//! A plugin of another owner stays as it is. A file in the directory says which plugins are from
//! here: `.weft-plugins.json` has the digests of the files that were installed under each name. By its
//! digest, a plugin of another owner is known that took the name later. The file is written before a
//! plugin is, and both arrive by a rename, so a crash at any point leaves whole files, and none whose
//! owner is not known.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::conf_dir;

/// The file that says which plugins are from here.
pub const NOTES: &str = ".weft-plugins.json";
/// How many digests of one plugin are kept: one for each release that may still be on the node.
const DIGESTS: usize = 8;
/// How long a plugin may take to print its version.
const ANSWER: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// Which plugins a run replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// None. A plugin that is not there is installed.
    Nothing,
    /// Those from here whose version is lower, and those of the same version whose content differs.
    Older,
}

/// The result for a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The name of the plugin, which is the `type` in a network configuration.
    pub name: String,
    /// The owner of the file, and whether it was written now.
    pub owner: Owner,
    /// The version that the plugin prints, for example `1.10.0`. `None` if it prints none.
    pub version: Option<String>,
}

/// The owner of a plugin's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It is from here, and this run has written it.
    Installed,
    /// It is from here, and was there before.
    Kept,
    /// It is from elsewhere, for example a package of the distribution.
    Other,
}

/// The file that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct InstallError {
    /// The file or the directory.
    pub path: PathBuf,
    /// The answer of the kernel.
    pub source: io::Error,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Notes {
    plugins: BTreeMap<String, Note>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Note {
    /// SHA-256 of each file that was installed under this name, in hexadecimal, the last one last.
    digests: Vec<String>,
}

/// Installs plugins of the directory `from` in the directory `to`, which exists. A plugin that
/// cannot be installed does not keep the others from being installed.
///
/// # Errors
/// `from` lacks one of the plugins, or `to` cannot be written to. The first failure is returned.
pub fn install(
    from: &Path,
    to: &Path,
    names: &[String],
    replace: Replace,
) -> Result<Vec<Found>, InstallError> {
    let mut notes: Notes = fs::read(to.join(NOTES))
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    let results: Vec<_> = names
        .iter()
        .map(|name| install_one(from, to, name, replace, &mut notes))
        .collect();
    results.into_iter().collect()
}

fn install_one(
    from: &Path,
    to: &Path,
    name: &str,
    replace: Replace,
    notes: &mut Notes,
) -> Result<Found, InstallError> {
    let (source, target) = (from.join(name), to.join(name));
    let failed = |path: &Path, source| InstallError {
        path: path.to_owned(),
        source,
    };
    let wanted = digest(&source).map_err(|error| failed(&source, error))?;
    let found = |owner, path: &Path| {
        Ok(Found {
            name: name.to_owned(),
            owner,
            version: version(path),
        })
    };
    // A link is of another owner, also one that leads nowhere inside a container.
    let there = match fs::symlink_metadata(&target) {
        Ok(file) if !file.is_file() => return found(Owner::Other, &target),
        Ok(_) => Some(digest(&target).map_err(|error| failed(&target, error))?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(&target, error)),
    };
    if let Some(there) = there {
        if there == wanted {
            note(to, name, &wanted, notes)?;
            return found(Owner::Kept, &target);
        }
        let is_from_here = notes
            .plugins
            .get(name)
            .is_some_and(|note| note.digests.contains(&there));
        if !is_from_here {
            return found(Owner::Other, &target);
        }
        let is_older = || release(version(&target)) <= release(version(&source));
        if replace == Replace::Nothing || !is_older() {
            return found(Owner::Kept, &target);
        }
    }
    note(to, name, &wanted, notes)?;
    copy(&source, to, name).map_err(|error| failed(&target, error))?;
    found(Owner::Installed, &target)
}

/// Writes down that a file with this content is from here.
fn note(to: &Path, name: &str, digest: &str, notes: &mut Notes) -> Result<(), InstallError> {
    let digests = &mut notes.plugins.entry(name.to_owned()).or_default().digests;
    if digests.last().is_none_or(|last| last != digest) {
        digests.retain(|other| other != digest);
        digests.push(digest.to_owned());
        digests.drain(..digests.len().saturating_sub(DIGESTS));
    }
    // Lists of texts can always be written as JSON.
    let text = serde_json::to_string(notes).unwrap_or_default();
    let written = conf_dir::write(to, NOTES, &text);
    written.map(drop).map_err(|source| InstallError {
        path: to.join(NOTES),
        source,
    })
}

/// Copies a plugin under another name and renames it: the container runtime may be running the old
/// one, and a file that is open for writing cannot be run (`ETXTBSY`).
fn copy(source: &Path, to: &Path, name: &str) -> io::Result<()> {
    let temporary = to.join(format!(".{name}.weft"));
    let copied = (|| {
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // An earlier run may have been killed.
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&temporary)?;
        io::copy(&mut File::open(source)?, &mut file)?;
        // The umask does not count here.
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
        file.sync_all()?;
        drop(file);
        fs::rename(&temporary, to.join(name))?;
        File::open(to)?.sync_all()
    })();
    if copied.is_err() {
        // On a full disk half of a plugin would stay.
        let _ = fs::remove_file(&temporary);
    }
    copied
}

/// The SHA-256 of a file, in hexadecimal.
fn digest(path: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    io::copy(&mut File::open(path)?, &mut digest)?;
    Ok(format!("{:x}", digest.finalize()))
}

/// The version of a plugin. Called without `CNI_COMMAND`, the plugins of the CNI project print
/// `CNI bridge plugin v1.10.0` (`skel.PluginMainFuncs`), each to the standard error.
fn version(plugin: &Path) -> Option<String> {
    version_within(plugin, ANSWER)
}

fn version_within(plugin: &Path, limit: Duration) -> Option<String> {
    let is_program = fs::metadata(plugin).is_ok_and(|file| file.mode() & 0o111 != 0);
    if !is_program {
        return None;
    }
    let end = Instant::now() + limit;
    let mut child = loop {
        let spawned = Command::new(plugin)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        match spawned {
            Ok(child) => break child,
            // Another program that is being started holds the file of the copy for a moment.
            Err(error)
                if error.kind() == io::ErrorKind::ExecutableFileBusy && Instant::now() < end =>
            {
                thread::sleep(PAUSE);
            }
            Err(_) => return None,
        }
    };
    while child.try_wait().ok()?.is_none() {
        if Instant::now() >= end {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(PAUSE);
    }
    let mut words = Vec::new();
    // More than this is no version.
    child.stderr?.take(512).read_to_end(&mut words).ok()?;
    let words = String::from_utf8_lossy(&words);
    let word = words.lines().next()?.split_whitespace().last()?;
    let number = word.strip_prefix('v')?;
    number
        .starts_with(|first: char| first.is_ascii_digit())
        .then(|| number.to_owned())
}

/// A version as numbers, for a comparison. One that is not known is lower than each other one.
fn release(version: Option<String>) -> Vec<u64> {
    let version = version.unwrap_or_default();
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    numbers
        .split('.')
        .map_while(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::symlink;

    struct Folders {
        from: tempfile::TempDir,
        to: tempfile::TempDir,
    }

    impl Folders {
        fn new() -> Self {
            Self {
                from: tempfile::tempdir().unwrap(),
                to: tempfile::tempdir().unwrap(),
            }
        }

        fn offer(&self, name: &str, version: &str) {
            put(self.from.path(), name, &plugin(name, version));
        }

        fn run(&self, names: &[&str], replace: Replace) -> Vec<(String, Owner, Option<String>)> {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            let found = install(self.from.path(), self.to.path(), &names, replace).unwrap();
            found
                .into_iter()
                .map(|found| (found.name, found.owner, found.version))
                .collect()
        }

        fn has(&self, name: &str) -> String {
            fs::read_to_string(self.to.path().join(name)).unwrap()
        }
    }

    /// A program that answers as the plugins of the CNI project do.
    fn plugin(name: &str, version: &str) -> String {
        format!(
            "#!/bin/sh\necho 'CNI {name} plugin {version}\nCNI protocol versions supported: 1.0.0' >&2\n"
        )
    }

    fn put(folder: &Path, name: &str, content: &str) {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn result(name: &str, owner: Owner, version: &str) -> (String, Owner, Option<String>) {
        (name.to_owned(), owner, Some(version.to_owned()))
    }

    #[test]
    fn missing_plugins_are_installed_and_run() {
        let folders = Folders::new();
        folders.offer("macvlan", "v1.10.0");
        folders.offer("static", "v1.10.0");
        let names = ["macvlan", "static"];
        let of = |owner| {
            [
                result("macvlan", owner, "1.10.0"),
                result("static", owner, "1.10.0"),
            ]
        };
        assert_eq!(folders.run(&names, Replace::Older), of(Owner::Installed));
        let inode = || {
            let file = fs::metadata(folders.to.path().join("macvlan")).unwrap();
            (file.ino(), file.mode() & 0o7777)
        };
        let before = inode();
        assert_eq!(before.1, 0o755);
        assert_eq!(folders.run(&names, Replace::Older), of(Owner::Kept));
        assert_eq!(inode(), before, "nothing is written where nothing differs");
        let hidden = fs::read_dir(folders.to.path()).unwrap().count();
        assert_eq!(hidden, 3, "the two plugins and the notes");
    }

    #[test]
    fn plugins_of_others_stay() {
        let folders = Folders::new();
        let (older, link, silent) = ("macvlan", "bridge", "vlan");
        for name in [older, link, silent] {
            folders.offer(name, "v1.10.0");
        }
        put(folders.to.path(), older, &plugin(older, "v0.9.1"));
        symlink("/nowhere/bridge", folders.to.path().join(link)).unwrap();
        put(folders.to.path(), silent, "#!/bin/sh\n");
        let found = folders.run(&[older, link, silent], Replace::Older);
        assert_eq!(
            found,
            [
                result(older, Owner::Other, "0.9.1"),
                (link.to_owned(), Owner::Other, None),
                (silent.to_owned(), Owner::Other, None),
            ]
        );
        assert_eq!(folders.has(older), plugin(older, "v0.9.1"));
        assert!(folders.to.path().join(link).is_symlink());
    }

    #[test]
    fn only_an_older_one_from_here_is_replaced() {
        let folders = Folders::new();
        folders.offer("macvlan", "v1.9.1");
        folders.run(&["macvlan"], Replace::Older);
        folders.offer("macvlan", "v1.10.0");
        let one = |owner, version| [result("macvlan", owner, version)];
        assert_eq!(
            folders.run(&["macvlan"], Replace::Nothing),
            one(Owner::Kept, "1.9.1")
        );
        let reader = File::open(folders.to.path().join("macvlan")).unwrap();
        assert_eq!(
            folders.run(&["macvlan"], Replace::Older),
            one(Owner::Installed, "1.10.0")
        );
        assert_eq!(
            io::read_to_string(reader).unwrap(),
            plugin("macvlan", "v1.9.1"),
            "a runtime that runs the old one keeps it"
        );
        // 1.9.1 is not newer than 1.10.0.
        folders.offer("macvlan", "v1.9.1");
        assert_eq!(
            folders.run(&["macvlan"], Replace::Older),
            one(Owner::Kept, "1.10.0")
        );
        // A package of the distribution takes the name.
        put(folders.to.path(), "macvlan", &plugin("macvlan", "v1.2.0"));
        folders.offer("macvlan", "v1.11.0");
        assert_eq!(
            folders.run(&["macvlan"], Replace::Older),
            one(Owner::Other, "1.2.0")
        );
    }

    /// A run is killed at each point: the next one knows each file, and finishes.
    #[test]
    fn a_crash_leaves_no_file_of_an_unknown_owner() {
        let folders = Folders::new();
        folders.offer("macvlan", "v1.10.0");
        let wanted = digest(&folders.from.path().join("macvlan")).unwrap();
        note(folders.to.path(), "macvlan", &wanted, &mut Notes::default()).unwrap();
        put(folders.to.path(), ".macvlan.weft", "#!/bin/");
        let installed = [result("macvlan", Owner::Installed, "1.10.0")];
        assert_eq!(folders.run(&["macvlan"], Replace::Older), installed);
        // The notes are lost, and the content is what this image has.
        fs::remove_file(folders.to.path().join(NOTES)).unwrap();
        folders.run(&["macvlan"], Replace::Older);
        folders.offer("macvlan", "v1.11.0");
        let replaced = [result("macvlan", Owner::Installed, "1.11.0")];
        assert_eq!(folders.run(&["macvlan"], Replace::Older), replaced);
    }

    #[test]
    fn failures_name_the_file_and_leave_no_half_of_a_plugin() {
        let folders = Folders::new();
        folders.offer("macvlan", "v1.10.0");
        let names = ["ipvlan".to_owned(), "macvlan".to_owned()];
        let (from, to) = (folders.from.path(), folders.to.path());
        let error = install(from, to, &names, Replace::Older).unwrap_err();
        assert_eq!(error.path, from.join("ipvlan"));
        assert!(to.join("macvlan").exists(), "the others are installed");

        let nowhere = to.join("nowhere");
        let error = install(from, &nowhere, &names[1..], Replace::Older).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("nowhere"), "{error}");

        // A directory has the name under which a plugin arrives.
        fs::remove_file(to.join("macvlan")).unwrap();
        fs::create_dir(to.join(".macvlan.weft")).unwrap();
        let error = install(from, to, &names[1..], Replace::Older).unwrap_err();
        assert_eq!(error.path, to.join("macvlan"));
        assert!(!to.join("macvlan").exists());
    }

    #[test]
    fn notes_keep_the_last_digests_only() {
        let folder = tempfile::tempdir().unwrap();
        let mut notes = Notes::default();
        for number in 0..20 {
            note(folder.path(), "macvlan", &format!("{number}"), &mut notes).unwrap();
        }
        note(folder.path(), "macvlan", "15", &mut notes).unwrap();
        let digests = &notes.plugins["macvlan"].digests;
        assert_eq!(digests.len(), DIGESTS);
        assert_eq!(digests.last().unwrap(), "15");
        let text = fs::read_to_string(folder.path().join(NOTES)).unwrap();
        let read: Notes = serde_json::from_str(&text).unwrap();
        assert_eq!(&read.plugins["macvlan"].digests, digests);
    }

    #[test]
    fn a_plugin_that_hangs_has_no_version_and_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "hangs", "#!/bin/sh\nexec sleep 60\n");
        let limit = Duration::from_millis(50);
        assert_eq!(version_within(&folder.path().join("hangs"), limit), None);
    }
}
