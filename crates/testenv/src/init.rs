//! Process 1 of namespaces of its own: what runs in them ends with it, and with them their devices
//! and mounts.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    builder::START_TIMEOUT,
    process::{Process, bound_command},
};

/// A bash script in new network, mount, UTS, IPC and PID namespaces. Killed on drop, with all that
/// it started.
#[derive(Debug)]
pub(crate) struct Init {
    /// `unshare`, whose only child the script is.
    process: Process,
    pid: u32,
}

impl Init {
    /// Starts it. Its output goes to `init.log` in this folder.
    pub(crate) fn start(script: &Path, args: &[&str], log_folder: &Path) -> Result<Self> {
        let mut command = bound_command(Path::new("unshare"));
        command
            .args([
                "--net",
                "--mount",
                "--uts",
                "--ipc",
                "--pid",
                "--fork",
                "--kill-child=KILL",
                "--propagation=private",
                "--",
                "bash",
            ])
            .arg(script)
            .args(args);
        let mut process = Process::spawn("init".into(), command, log_folder)?;
        let pid = child_of(&mut process).context("a node needs namespaces of its own")?;
        Ok(Self { process, pid })
    }

    /// On this machine.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn check_running(&mut self) -> Result<()> {
        self.process.check_running()
    }

    /// Waits until the script has written this file. A process that enters before sees the
    /// machine's processes and files, or none.
    pub(crate) fn wait_for(&mut self, ready: &Path) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while !ready.exists() {
            self.check_running()?;
            if Instant::now() > deadline {
                bail!(
                    "{} is not there in time; the log: {}",
                    ready.display(),
                    self.process.log().display()
                );
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Name and pid of what runs for this node on this machine.
    pub(crate) fn processes(&self, node: &str) -> [(String, u32); 2] {
        [
            (format!("{node}: unshare"), self.process.pid()),
            (format!("{node}: init"), self.pid),
        ]
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        // With process 1 of a PID namespace all others in it are killed, and it is gone only when
        // they are (pid_namespaces(7)). unshare ends with it, and is waited for by the drop of
        // `process`. Killed first, it would not wait.
        if self.process.check_running().is_ok() {
            kill(self.pid, Signal::KILL);
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.process.check_running().is_ok() && Instant::now() < deadline {
            sleep(Duration::from_millis(5));
        }
    }
}

/// Sends a signal to a process that may have ended by now.
pub(crate) fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// The pid of the only child that a program makes which forks once, as `unshare --fork` and
/// `nsenter --pid` do (`proc_pid_task(5)`).
pub(crate) fn child_of(process: &mut Process) -> Result<u32> {
    let pid = process.pid();
    let deadline = Instant::now() + START_TIMEOUT;
    while Instant::now() < deadline {
        process.check_running()?;
        let children =
            fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        if let Some(Ok(child)) = children.split_whitespace().next().map(str::parse) {
            return Ok(child);
        }
        sleep(Duration::from_millis(2));
    }
    bail!("{} starts no process in time", process.name())
}

/// A command that runs what is added to it inside the node whose process 1 this is.
pub fn enter(init: u32) -> Command {
    let mut command = Command::new("nsenter");
    command.args(enter_args(init));
    command
}

/// The same, for a program that the kernel ends with this process.
pub(crate) fn enter_bound(init: u32) -> Command {
    let mut command = bound_command(Path::new("nsenter"));
    command.args(enter_args(init));
    command
}

fn enter_args(init: u32) -> Vec<String> {
    let target = format!("--target={init}");
    let path = "PATH=/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    [
        &target,
        "--mount",
        "--uts",
        "--ipc",
        "--net",
        "--pid",
        "--root",
        "--wd",
        "--",
        "env",
        path,
        "HOME=/root",
    ]
    .map(Into::into)
    .to_vec()
}
