//! The directories of the container runtime: its CNI configurations, and the plugins that they
//! name.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use serde_json::Value;

/// Puts a file there, whole or not at all, and only if it is not there already with this content.
/// Returns whether it was written.
///
/// It is written under another name in the same directory, and renamed: containerd acts on a rename
/// inside the directory, not on a file that is moved in from elsewhere, and may read half of a file
/// that is written in place. The other name begins with a dot and has none of the endings that
/// container runtimes read.
///
/// # Errors
/// The directory does not exist or may not be written to.
pub fn write(directory: &Path, name: &str, content: &str) -> io::Result<bool> {
    let path = directory.join(name);
    if fs::read(&path).is_ok_and(|old| old == content.as_bytes()) {
        return Ok(false);
    }
    let temporary = directory.join(format!(".{name}.new"));
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // An earlier attempt may have been killed.
        _ => {}
    }
    // For root alone, as the CIS benchmark for Kubernetes (1.1.9) has it.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(content.as_bytes())?;
    // Else a crash of the machine may leave an empty file under the new name.
    file.sync_all()?;
    fs::rename(&temporary, &path)?;
    File::open(directory)?.sync_all()?;
    Ok(true)
}

/// The other configurations that the container runtime takes instead of the one of this name: it
/// uses the first in the order of their names. Those of Multus are none: it comes first on purpose,
/// and hands on to the next one.
///
/// # Errors
/// The directory cannot be read.
pub fn shadowing(directory: &Path, name: &str) -> io::Result<Vec<String>> {
    let mut others = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let other = entry.file_name().to_string_lossy().into_owned();
        let is_configuration = [".conf", ".conflist", ".json"]
            .iter()
            .any(|ending| other.ends_with(ending));
        // A link to elsewhere on the host leads nowhere inside a container, so it is not followed.
        if is_configuration
            && *other < *name
            && !entry.file_type()?.is_dir()
            && !is_multus(&entry.path())
        {
            others.push(other);
        }
    }
    others.sort_unstable();
    Ok(others)
}

fn is_multus(path: &Path) -> bool {
    let configuration: Value = fs::read(path)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default();
    let of = |plugin: &Value| {
        plugin["type"]
            .as_str()
            .is_some_and(|name| name == "multus" || name == "multus-shim")
    };
    of(&configuration) || of(&configuration["plugins"][0])
}

/// Those of these plugins that are not in the directory.
///
/// # Errors
/// The directory cannot be read.
pub fn missing_plugins(directory: &Path, plugins: &[&str]) -> io::Result<Vec<String>> {
    // A directory that is not there would make all of them missing: that says less.
    fs::read_dir(directory)?;
    let is_there = |plugin: &str| {
        // A link to elsewhere on the host leads nowhere inside a container, and is right all the
        // same.
        fs::symlink_metadata(directory.join(plugin)).is_ok_and(|file| {
            file.is_symlink() || file.is_file() && file.permissions().mode() & 0o111 != 0
        })
    };
    Ok(plugins
        .iter()
        .filter(|plugin| !is_there(plugin))
        .map(|plugin| (*plugin).to_owned())
        .collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    const NAME: &str = "10-flannel.conflist";

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_only_if_it_differs() {
        let directory = tempfile::tempdir().unwrap();
        let (path, inode) = (directory.path().join(NAME), |path: &Path| {
            fs::metadata(path).unwrap().ino()
        });
        assert!(write(directory.path(), NAME, "a").unwrap());
        let reader = File::open(&path).unwrap();
        let first = inode(&path);
        assert!(
            !write(directory.path(), NAME, "a").unwrap(),
            "it is there already"
        );
        assert_eq!(inode(&path), first);
        assert!(write(directory.path(), NAME, "bb").unwrap());
        assert_ne!(inode(&path), first, "another file took its name");
        assert_eq!(
            io::read_to_string(reader).unwrap(),
            "a",
            "who was reading has read all of the old one"
        );
        assert_eq!(
            (names(directory.path()), fs::read_to_string(&path).unwrap()),
            (vec![NAME.to_owned()], "bb".to_owned())
        );
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn leftovers_of_an_earlier_attempt_block_nothing() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(".10-flannel.conflist.new"), "ha").unwrap();
        assert!(shadowing(directory.path(), NAME).unwrap().is_empty());
        assert!(write(directory.path(), NAME, "whole").unwrap());
        assert_eq!(names(directory.path()), [NAME]);
    }

    #[test]
    fn configurations_that_come_first_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let put =
            |name: &str, content: &str| fs::write(directory.path().join(name), content).unwrap();
        put(
            "00-multus.conf",
            r#"{"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus-shim"}"#,
        );
        put("01-multus.conflist", r#"{"plugins": [{"type": "multus"}]}"#);
        put(
            "05-cilium.conflist",
            r#"{"plugins": [{"type": "cilium-cni"}]}"#,
        );
        put("06-broken.json", "{");
        put("07-readme.txt", "");
        put(NAME, "{}");
        put("87-podman.conflist", "{}");
        symlink("/nowhere", directory.path().join("08-link.conf")).unwrap();
        fs::create_dir(directory.path().join("09-folder.conf")).unwrap();
        assert_eq!(
            shadowing(directory.path(), NAME).unwrap(),
            ["05-cilium.conflist", "06-broken.json", "08-link.conf"]
        );
    }

    #[test]
    fn a_plugin_is_a_program() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, mode: u32| {
            let path = directory.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        put("bridge", 0o755);
        put("host-local", 0o644);
        symlink("/usr/libexec/cni/portmap", directory.path().join("portmap")).unwrap();
        let missing = missing_plugins(
            directory.path(),
            &["bridge", "host-local", "portmap", "flannel"],
        )
        .unwrap();
        assert_eq!(missing, ["host-local", "flannel"]);
        assert!(missing_plugins(&directory.path().join("nowhere"), &[]).is_err());
    }
}
