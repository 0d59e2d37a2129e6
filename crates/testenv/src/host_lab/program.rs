//! A program that runs on a host.

use std::path::Path;
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::Signal;

use crate::{
    init::{child_of, kill},
    process::{Process, end_of},
};

/// A program, which is killed on drop.
#[derive(Debug)]
pub struct Program {
    /// `nsenter`, which waits for the program, and ends as it does.
    process: Process,
    pid: u32,
}

impl Program {
    pub(super) fn new(mut process: Process) -> Result<Self> {
        let pid = child_of(&mut process)?;
        Ok(Self { process, pid })
    }

    /// On this machine: for `/proc/<pid>`. Inside the host it has another one.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its stdout and stderr.
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// The last lines of its log.
    pub fn last_words(&self) -> String {
        end_of(self.process.log())
    }

    /// An error with the end of its log if it is not running any more.
    ///
    /// # Errors
    /// The process has ended.
    pub fn check_running(&mut self) -> Result<()> {
        self.process.check_running()
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
        self.wait(Duration::from_secs(30))
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// It does not, for this long: the error shows the end of its log.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.process.status()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!(
                    "{} does not end in time; its log {} ends with:\n{}",
                    self.process.name(),
                    self.log().display(),
                    self.last_words()
                );
            }
            sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // nsenter, killed first, would leave it running.
        if matches!(self.process.status(), Ok(None)) {
            let _ = self.kill();
        }
    }
}
