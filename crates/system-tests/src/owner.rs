//! A process that owns a lab and that a test kills. The kernel must end all that it has started.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::{self, File},
    io::{BufRead, BufReader},
    os::fd::AsRawFd,
    path::Path,
    process::{Child, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use weft_testenv::{bound_command, spawn_bound, wait::wait_until};

/// The variable that makes a test the owner of a lab instead.
const VARIABLE: &str = "WEFT_TEST_OWNS_A_LAB";
/// The owner prints this before the folders of its lab, with colons between them.
const UP: &str = "the lab is up in ";
/// Kinds of namespaces that labs make (`namespaces(7)`).
const KINDS: [&str; 5] = ["pid", "net", "mnt", "uts", "ipc"];

/// Reports whether this process is the owner that [`Owner::start`] has started.
pub fn is_owner() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Keeps a lab, with its files in these folders, until this process is killed.
pub async fn keep<T>(lab: T, folders: &[&Path]) {
    let folders: Vec<_> = folders
        .iter()
        .filter_map(|folder| folder.to_str())
        .collect();
    println!("{UP}{}", folders.join(":"));
    std::future::pending::<()>().await;
    drop(lab);
}

/// The process. It is killed on drop.
pub struct Owner {
    process: Child,
    folders: Vec<String>,
}

impl Owner {
    /// Runs the test of this name (`module::test`) of this program in a process of its own, as the
    /// owner of a lab. Returns when the lab is up.
    pub fn start(test: &str) -> Self {
        let mut command = bound_command(&env::current_exe().unwrap());
        command
            .args(["--exact", "--nocapture", test])
            .env(VARIABLE, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut process = spawn_bound(command).unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let folders = lines.find_map(|line| Some(line.ok()?.split_once(UP)?.1.to_owned()));
        let folders = folders.unwrap_or_else(|| panic!("{test} starts no lab"));
        Self {
            process,
            folders: folders.split(':').map(str::to_owned).collect(),
        }
    }

    /// Kills the owner by SIGKILL, and waits until no process, mount and namespace of its lab is
    /// left. Panics if the lab does not run these programs, by the names that the kernel has for
    /// them (`proc_pid_comm(5)`).
    pub async fn kill(mut self, programs: &[&str]) {
        let namespaces = namespaces_below(self.process.id());
        let kinds: BTreeSet<_> = namespaces
            .keys()
            .filter_map(|namespace| namespace.split(':').next())
            .collect();
        assert_eq!(kinds, BTreeSet::from(KINDS), "a lab has all of them");
        let before = traces(&namespaces, &self.folders);
        for program in programs {
            assert!(
                before.iter().any(|trace| trace.starts_with(program)),
                "{program} does not run: {before:#?}"
            );
        }

        kill_process(Pid::from_child(&self.process), Signal::KILL).unwrap();
        self.process.wait().unwrap();
        wait_until("nothing is left of a killed lab", async || {
            let left = traces(&namespaces, &self.folders);
            if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:#?}"))
            }
        })
        .await;
        // The next start of any lab removes them, too.
        for folder in &self.folders {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Both fail only if the owner was waited for already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The pids of all processes of this machine.
fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The files of the namespaces of a process. A zombie has none.
fn files(pid: u32) -> impl Iterator<Item = String> {
    KINDS
        .into_iter()
        .map(move |kind| format!("/proc/{pid}/ns/{kind}"))
}

/// The name of the namespace that this file is, as `net:[4026531840]`.
fn name(file: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_link(file).ok()?.to_string_lossy().into_owned())
}

/// Opens a namespace. While its file is open, the kernel gives its number to no other namespace.
fn open(file: String) -> Option<(String, File)> {
    let file = File::open(file).ok()?;
    let name = name(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Some((name, file))
}

/// The namespaces of all descendants of a process that are not this process's own.
fn namespaces_below(ancestor: u32) -> BTreeMap<String, File> {
    // The parent is the second field after the name in parentheses (`proc_pid_stat(5)`).
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields = stat.rsplit_once(") ")?.1;
        fields.split(' ').nth(1)?.parse().ok()
    };
    let parents: BTreeMap<u32, u32> = pids().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let is_below = |pid: &u32| {
        let mut line = std::iter::successors(Some(*pid), |pid| parents.get(pid).copied());
        line.any(|pid| pid == ancestor)
    };
    let ours: BTreeSet<_> = files(std::process::id()).filter_map(name).collect();
    let below = parents.keys().copied().filter(is_below);
    below
        .flat_map(files)
        .filter_map(open)
        .filter(|(name, _)| !ours.contains(name))
        .collect()
}

/// All that is left of a lab: processes in its namespaces, or with one of its folders in their
/// arguments, other processes than this one that hold a namespace open, and mounts.
fn traces(of_lab: &BTreeMap<String, File>, folders: &[String]) -> Vec<String> {
    let has_folder = |text: &str| folders.iter().any(|folder| text.contains(folder));
    let process = |pid: u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
        let is_held = || {
            let mut open = descriptors.into_iter().flatten().flatten();
            open.any(|open| name(open.path()).is_some_and(|name| of_lab.contains_key(&name)))
        };
        let is_of_lab = has_folder(&arguments)
            || files(pid)
                .filter_map(name)
                .any(|name| of_lab.contains_key(&name))
            || is_held();
        let program = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        is_of_lab.then(|| format!("{} {pid}: {arguments}", program.trim_end()))
    };
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let is_of_lab = |mount: &&str| {
        has_folder(mount) || of_lab.keys().any(|namespace| mount.contains(namespace))
    };
    let mounts = mounts.lines().filter(is_of_lab).map(str::to_owned);
    let others = pids().filter(|pid| *pid != std::process::id());
    others.filter_map(process).chain(mounts).collect()
}
