//! The control groups of a lab: one folder in each hierarchy (cgroup v1), a folder a node in it.
//! They are all that outlives a killed lab besides files, so their name is written down before they
//! are made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::wait::blocking;

const ROOT: &str = "/sys/fs/cgroup";

/// The hierarchies in which the kubelet and runc make groups.
pub(crate) const HIERARCHIES: [&str; 9] = [
    "cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd",
];

/// Name of the file, in the folder of a control plane, that names the groups.
const RECORD: &str = "cgroups";

/// The groups of a lab. Removed on drop, which is to be after the last process in them.
#[derive(Debug)]
pub(crate) struct Cgroups {
    name: String,
}

impl Cgroups {
    /// Makes them, and notes their name in this folder.
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        let name = format!("weft-testenv-{:08x}", rand::random::<u32>());
        fs::write(dir.join(RECORD), &name)?;
        let cgroups = Self { name };
        cgroups.make(&cgroups.name)?;
        Ok(cgroups)
    }

    /// Makes those of a node, and returns their path inside each hierarchy: `/<lab>/<node>`.
    pub(crate) fn node(&self, node: &str) -> Result<String> {
        let path = format!("{}/{node}", self.name);
        self.make(&path)?;
        Ok(format!("/{path}"))
    }

    fn make(&self, path: &str) -> Result<()> {
        for hierarchy in HIERARCHIES {
            let hierarchy = Path::new(ROOT).join(hierarchy);
            let group = hierarchy.join(path);
            match fs::create_dir(&group) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    Err(error).with_context(|| format!("cannot make {}", group.display()))?
                }
                _ => {}
            }
        }
        // Empty at first, and a group without processors and memory nodes takes no process
        // (cpusets(7)).
        let cpuset = Path::new(ROOT).join("cpuset");
        for file in ["cpuset.cpus", "cpuset.mems"] {
            fs::write(cpuset.join(path).join(file), fs::read(cpuset.join(file))?)?;
        }
        Ok(())
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Removes the control groups whose name the folder of a killed lab holds. Its processes are gone
/// already. Files stay. It does nothing for another folder.
pub fn remove_leftovers(dir: &Path) {
    if let Ok(name) = fs::read_to_string(dir.join(RECORD))
        && name.starts_with("weft-testenv-")
        && !name.contains(['/', '.'])
    {
        remove(&name);
    }
}

fn remove(name: &str) {
    // A group is busy for a moment after its last process was killed.
    let _ = blocking(Duration::from_secs(10), || {
        let groups = HIERARCHIES.map(|hierarchy| Path::new(ROOT).join(hierarchy).join(name));
        let is_busy = |group: &PathBuf| group.exists() && remove_tree(group).is_err();
        Ok((groups.iter().filter(|group| is_busy(group)).count() == 0).then_some(()))
    });
}

/// The files of a group cannot be removed, and go with it.
fn remove_tree(group: &Path) -> io::Result<()> {
    let entries: Vec<PathBuf> = fs::read_dir(group)?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    for entry in entries.iter().filter(|entry| entry.is_dir()) {
        remove_tree(entry)?;
    }
    fs::remove_dir(group)
}
