//! A program in namespaces of its own or of another process.

use std::fs;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    process::{Process, end_of},
    wait::{START_TIMEOUT, blocking},
};

/// How long a program may take to end after SIGKILL.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// A program, which is killed on drop, with all that it started.
#[derive(Debug)]
pub struct Program {
    /// `nsenter` or `unshare`, which waits for the program, and ends as it does.
    launcher: Process,
    pid: u32,
}

impl Program {
    /// Takes a launcher that forks once, as `unshare --fork` and `nsenter --pid` do. Returns when
    /// the program runs.
    ///
    /// # Errors
    /// The launcher ends, or starts no program in time.
    pub(crate) fn new(mut launcher: Process) -> Result<Self> {
        let parent = launcher.pid();
        let started = blocking(START_TIMEOUT, || {
            launcher.check_running()?;
            Ok(children(parent).first().copied())
        })?;
        let pid =
            started.with_context(|| format!("{} starts no process in time", launcher.name()))?;
        Ok(Self { launcher, pid })
    }

    /// The pid on this machine, for `/proc/<pid>`. Inside its namespaces the program has another
    /// one.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The pid of `nsenter` or `unshare`.
    pub(crate) fn launcher(&self) -> u32 {
        self.launcher.pid()
    }

    /// Its stdout and stderr.
    pub fn log(&self) -> &Path {
        self.launcher.log()
    }

    /// The last lines of its log.
    pub fn last_words(&self) -> String {
        end_of(self.log())
    }

    /// An error with the end of its log if it is not running any more.
    ///
    /// # Errors
    /// The process has ended.
    pub fn check_running(&mut self) -> Result<()> {
        self.launcher.check_running()
    }

    /// Waits until `look` has a result, while the program runs, see [`Process::wait_ready`].
    pub(crate) async fn wait_ready<T>(
        &mut self,
        pause: Duration,
        look: impl AsyncFnMut() -> Result<T, String>,
    ) -> Result<T> {
        self.launcher.wait_ready(pause, look).await
    }

    /// Waits until it listens on the port.
    pub(crate) async fn wait_listening(&mut self, port: u16) -> Result<()> {
        self.launcher.wait_listener(self.pid, port).await
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid, signal);
    }

    /// Ends it by SIGKILL and returns when it is gone.
    ///
    /// # Errors
    /// It does not end.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.wait(END_TIMEOUT)
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// It does not, for this long: the error shows the end of its log.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        let ended = blocking(patience, || self.launcher.status())?;
        ended.with_context(|| {
            format!(
                "{} does not end in time; its log {} ends with:\n{}",
                self.launcher.name(),
                self.log().display(),
                self.last_words()
            )
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The launcher, killed first, would leave the program running, and would not wait for it.
        if !matches!(self.launcher.status(), Ok(None)) {
            return;
        }
        let mut all = vec![self.pid];
        let mut next = 0;
        while let Some(parent) = all.get(next) {
            all.extend(children(*parent));
            next += 1;
        }
        for process in &all {
            kill(*process, Signal::KILL);
        }
        // The kernel ends all processes of a PID namespace with its process 1, which is gone only
        // when they are (pid_namespaces(7)).
        let _ = blocking(END_TIMEOUT, || {
            let ended = self.launcher.status()?.is_some();
            Ok((ended && !all.iter().any(|process| runs(*process))).then_some(()))
        });
    }
}

/// Sends a signal to a process that may have ended by now.
fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// The children of a process whose only thread forks (`proc_pid_task(5)`).
fn children(pid: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace()
        .filter_map(|child| child.parse().ok())
        .collect()
}

/// Returns true if the process exists and is no zombie.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, fields)| !fields.starts_with('Z'))
}
