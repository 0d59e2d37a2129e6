//! A host: D-Bus and NetworkManager in namespaces of their own.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt;

use crate::{
    builder::START_TIMEOUT,
    init::{Init, enter, enter_bound},
    process::{Process, end_of},
};

use super::addresses;
use super::gateway::Gateway;
use super::program::Program;

const RESET: &str = include_str!("host-reset.sh");
const INIT: &str = include_str!("host-init.sh");

/// A host of a [`HostLab`](super::HostLab). Killed on drop, with all that runs on it.
#[derive(Debug)]
pub struct Host {
    name: String,
    index: u8,
    init: Init,
    dir: PathBuf,
    /// Programs so far, for the names of their logs.
    programs: AtomicU32,
}

impl Host {
    /// Starts the host of this index, from 1, with the Open vSwitch in that folder, if any.
    /// NetworkManager is not ready yet when this returns.
    pub(super) fn start(
        index: u8,
        name: &str,
        cards: u8,
        configuration: &str,
        open_vswitch: Option<&Path>,
        gateway: &Gateway,
        folder: &Path,
    ) -> Result<Self> {
        let dir = folder.join("hosts").join(name);
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("NetworkManager.conf"), configuration)?;
        let script = dir.join("host-init.sh");
        fs::write(&script, INIT)?;
        let (address, router) = (
            addresses::host(index).to_string(),
            addresses::gateway(0).to_string(),
        );
        let mut args = vec![name.to_owned(), address, router, dir.display().to_string()];
        args.extend(open_vswitch.map(|folder| folder.display().to_string()));
        let init = Init::start(
            &script,
            &args.iter().map(String::as_str).collect::<Vec<_>>(),
            &dir,
        )?;
        gateway.plug_in(index, cards, init.pid())?;
        Ok(Self {
            name: name.to_owned(),
            index,
            init,
            dir,
            programs: AtomicU32::new(0),
        })
    }

    /// Of the Node object, and its host name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Index of the host, from 1.
    pub fn index(&self) -> u8 {
        self.index
    }

    /// Of `eth0`.
    pub fn address(&self) -> Ipv4Addr {
        addresses::host(self.index)
    }

    /// Runs a program on the host as root and returns its stdout.
    ///
    /// # Errors
    /// It cannot be started or failed: the error holds its stderr.
    pub async fn exec(&self, command: &[&str]) -> Result<String> {
        self.exec_with_input(command, "").await
    }

    /// The same with this text on stdin.
    ///
    /// # Errors
    /// As [`exec`](Self::exec).
    pub async fn exec_with_input(&self, command: &[&str], input: &str) -> Result<String> {
        let mut child = tokio::process::Command::from(enter(self.init.pid()))
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut stdin = child.stdin.take().context("stdin is piped")?;
        let write = async move {
            // An early end is told by the status.
            let _ = stdin.write_all(input.as_bytes()).await;
        };
        let ((), output) = tokio::join!(write, child.wait_with_output());
        let output = output?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!(
                "{} on {}: {}: {}{}",
                command.join(" "),
                self.name,
                output.status,
                stderr.trim_end(),
                stdout.trim_end()
            );
        }
        Ok(stdout)
    }

    /// Runs commands of `ip`, one a line. The first that fails ends it.
    ///
    /// # Errors
    /// One failed.
    pub async fn ip(&self, commands: &str) -> Result<()> {
        self.exec_with_input(&["ip", "-batch", "-"], commands)
            .await
            .map(drop)
    }

    /// Starts a program in the background, with these variables in its environment. Its output goes
    /// to a log of its own.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_program(
        &self,
        program: &Path,
        args: &[&str],
        environment: &[(String, String)],
    ) -> Result<Program> {
        let mut words: Vec<_> = environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        words.push(program.display().to_string());
        self.start_words(program, &words, args)
    }

    /// The same with no more than these capabilities (`NET_ADMIN` …), and no way to more, as in a
    /// container of root.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_confined(
        &self,
        program: &Path,
        args: &[&str],
        environment: &[(String, String)],
        capabilities: &[String],
    ) -> Result<Program> {
        let mut words: Vec<_> = environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let added: String = capabilities
            .iter()
            .map(|name| format!(",+{}", name.to_lowercase()))
            .collect();
        words.extend([
            "setpriv".to_owned(),
            "--no-new-privs".into(),
            "--inh-caps=-all".into(),
            format!("--bounding-set=-all{added}"),
            "--".into(),
        ]);
        words.push(program.display().to_string());
        self.start_words(program, &words, args)
    }

    fn start_words(&self, program: &Path, words: &[String], args: &[&str]) -> Result<Program> {
        let number = self.programs.fetch_add(1, Ordering::Relaxed) + 1;
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let mut command = enter_bound(self.init.pid());
        command.args(words).args(args);
        Program::new(Process::spawn(
            format!("{name}-{number}"),
            command,
            &self.dir,
        )?)
    }

    /// A file of the host, seen from this machine. The path is the one inside. Of use while the
    /// host runs.
    pub fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        let inside = path.as_ref();
        Path::new(&format!("/proc/{}/root", self.init.pid()))
            .join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// The folder with the logs of D-Bus, NetworkManager and the programs.
    pub fn logs(&self) -> &Path {
        &self.dir
    }

    /// Ends NetworkManager by SIGTERM and returns when it is up again.
    ///
    /// # Errors
    /// It does not come up in time.
    pub async fn restart_network_manager(&self) -> Result<()> {
        let before = self.service_pid("NetworkManager")?;
        self.exec(&["kill", &before]).await?;
        let deadline = Instant::now() + START_TIMEOUT;
        while self.service_pid("NetworkManager")? == before {
            self.pause(deadline, "NetworkManager is not started again")
                .await?;
        }
        self.wait_ready().await
    }

    /// Ends NetworkManager for good.
    ///
    /// # Errors
    /// It does not end.
    pub async fn stop_network_manager(&self) -> Result<()> {
        fs::write(self.file("/run/NetworkManager.stopped"), "")?;
        let pid = self.service_pid("NetworkManager")?;
        self.exec(&["kill", &pid]).await?;
        let deadline = Instant::now() + START_TIMEOUT;
        while self.file(format!("/proc/{pid}")).exists() {
            self.pause(deadline, "NetworkManager does not end").await?;
        }
        Ok(())
    }

    /// Starts it after [`stop_network_manager`](Self::stop_network_manager).
    ///
    /// # Errors
    /// It does not come up in time.
    pub async fn start_network_manager(&self) -> Result<()> {
        fs::remove_file(self.file("/run/NetworkManager.stopped"))?;
        self.wait_ready().await
    }

    /// Gives it the network back that it had at its start: one connection, no devices but its
    /// cards.
    ///
    /// # Errors
    /// A step failed.
    pub async fn reset_network(&self) -> Result<()> {
        self.exec_with_input(&["bash", "-e"], RESET).await?;
        self.wait_ready().await
    }

    /// Waits until NetworkManager has done what it does at its start: `eth0` is up, as configured.
    pub(super) async fn wait_ready(&self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        // Both are needed: it is "connected" by eth0 before it has looked at all cards.
        while !self
            .exec(&["nmcli", "-t", "-f", "STATE,STARTUP", "general"])
            .await
            .is_ok_and(|state| state.trim() == "connected:started")
        {
            self.pause(deadline, "NetworkManager is not ready").await?;
        }
        Ok(())
    }

    /// Is its process 1 running?
    pub(super) fn check_running(&mut self) -> Result<()> {
        self.init
            .check_running()
            .with_context(|| format!("host {}", self.name))
    }

    pub(super) fn processes(&self) -> [(String, u32); 2] {
        self.init.processes(&self.name)
    }

    /// Inside the host.
    fn service_pid(&self, service: &str) -> Result<String> {
        let file = self.file(format!("/run/{service}.pid"));
        Ok(fs::read_to_string(&file)
            .with_context(|| format!("{service} was never started on {}", self.name))?
            .trim()
            .to_owned())
    }

    async fn pause(&self, deadline: Instant, problem: &str) -> Result<()> {
        if Instant::now() > deadline {
            let logs =
                ["init", "dbus", "NetworkManager"].map(|name| self.dir.join(format!("{name}.log")));
            let ends: Vec<_> = logs
                .iter()
                .map(|log| format!("{} ends with:\n{}", log.display(), end_of(log)))
                .collect();
            bail!("{problem} in time on {}; {}", self.name, ends.join("\n"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(())
    }
}
