//! Network namespaces without names: each lives as long as a process in it, so nothing is left when
//! the processes are gone.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{
    process::{bound_command, spawn_bound},
    wait::blocking,
};

/// An own network namespace, with nothing but `lo` at first. A network, which ends on drop.
#[derive(Debug)]
pub(crate) struct Network {
    holder: Child,
}

impl Network {
    pub(crate) fn new() -> Result<Self> {
        let mut command = bound_command(Path::new("unshare"));
        command
            .args(["--net", "--", "sleep", "infinity"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0);
        let holder = spawn_bound(command).context("cannot run unshare, of util-linux")?;
        let mut network = Self { holder };
        let ours = fs::read_link("/proc/self/ns/net")?;
        let file = network.file();
        blocking(Duration::from_secs(30), || {
            if let Some(status) = network.holder.try_wait()? {
                bail!("no network namespace can be made (unshare: {status}): this needs root");
            }
            Ok(fs::read_link(&file)
                .is_ok_and(|theirs| theirs != ours)
                .then_some(()))
        })?
        .context("unshare makes no network namespace in time")?;
        ip(&network.file(), "link set lo up")?;
        Ok(network)
    }

    /// The file that stands for it, for `nsenter --net` and `setns(2)`.
    pub(crate) fn file(&self) -> PathBuf {
        of(self.holder.id())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The network namespace of a process.
pub(crate) fn of(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/ns/net"))
}

/// Runs commands of `ip`, one a line, in a namespace. The first that fails ends it.
pub(crate) fn ip(namespace: &Path, commands: &str) -> Result<()> {
    let mut child = Command::new("nsenter")
        .arg(format!("--net={}", namespace.display()))
        .args(["--", "ip", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run nsenter, of util-linux")?;
    // The status reports a failure of the write.
    let _ = child
        .stdin
        .take()
        .context("stdin is piped")?
        .write_all(commands.as_bytes());
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!(
            "ip failed: {} of\n{commands}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(())
}
