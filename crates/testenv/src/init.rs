//! Process 1 of namespaces of its own. The kernel ends all programs in them with it, and then their
//! devices and mounts.
//!
//! Nodes, hosts, the gateway of hosts and the sites of services each have one. A parent death
//! signal on each program does not suffice: the kernel clears it when a program changes its user,
//! its group or its capabilities (`PR_SET_PDEATHSIG(2const)`), as dnsmasq, lldpd and Apache do.
//! Process 1 keeps the signal, because it is a shell that changes none of them. So a program that
//! changes them must enter, and must not be process 1 itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{
    process::{Process, bound_command},
    program::Program,
    wait::{START_TIMEOUT, blocking},
    workdir::write_private,
};

const IDLE: &str = include_str!("idle-init.sh");

/// A bash script in new network, mount, UTS, IPC and PID namespaces. Killed on drop, with all that
/// it started.
#[derive(Debug)]
pub(crate) struct Init(Program);

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
        let launcher = Process::spawn("init".into(), command, log_folder)?;
        let program = Program::new(launcher).context("a node needs namespaces of its own")?;
        Ok(Self(program))
    }

    /// Starts one that runs nothing itself. Its network has nothing but loopback, to which these
    /// names lead, and its `/usr` shows these folders, as `lowerdir` of an overlay has them.
    /// Returns when programs can enter. Its files and its log are in this folder.
    pub(crate) fn idle(names: &[String], usr: &str, folder: &Path) -> Result<Self> {
        let hosts = write_private(
            &folder.join("hosts"),
            &format!("127.0.0.1 localhost {}\n", names.join(" ")),
        )?;
        // Others than root read it.
        fs::set_permissions(&hosts, PermissionsExt::from_mode(0o644))?;
        let script = write_private(&folder.join("idle-init.sh"), IDLE)?;
        let ready = folder.join("ready");
        let mut init = Self::start(
            &script,
            &[
                &hosts.display().to_string(),
                &ready.display().to_string(),
                usr,
            ],
            folder,
        )?;
        init.wait_for(&ready)?;
        Ok(init)
    }

    /// On this machine.
    pub(crate) fn pid(&self) -> u32 {
        self.0.pid()
    }

    pub(crate) fn check_running(&mut self) -> Result<()> {
        self.0.check_running()
    }

    /// Waits until the script has written this file. A process that enters before sees the
    /// machine's processes and files, or none.
    fn wait_for(&mut self, ready: &Path) -> Result<()> {
        let written = blocking(START_TIMEOUT, || {
            self.check_running()?;
            Ok(ready.exists().then_some(()))
        })?;
        written.with_context(|| {
            format!(
                "{} is not there in time; the log: {}",
                ready.display(),
                self.0.log().display()
            )
        })
    }

    /// Name and pid of what runs for this node on this machine.
    pub(crate) fn processes(&self, node: &str) -> [(String, u32); 2] {
        [
            (format!("{node}: unshare"), self.0.launcher()),
            (format!("{node}: init"), self.0.pid()),
        ]
    }
}

/// A command that runs what is added to it inside the node whose process 1 this is.
pub fn enter(init: u32) -> Command {
    enter_by(Command::new("nsenter"), init)
}

/// The same, for a program that the kernel ends with this process.
pub(crate) fn enter_bound(init: u32) -> Command {
    enter_by(bound_command(Path::new("nsenter")), init)
}

fn enter_by(mut nsenter: Command, init: u32) -> Command {
    nsenter
        .arg(format!("--target={init}"))
        .args([
            "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd", "--",
        ])
        .args([
            "env",
            "PATH=/opt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
        ]);
    nsenter
}
