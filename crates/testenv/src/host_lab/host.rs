//! A host: D-Bus and NetworkManager in namespaces of their own.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{
    command::{Input, output},
    init::{Init, enter, enter_bound},
    process::{Process, end_of},
    program::Program,
    wait::{START_TIMEOUT, within},
};

use super::addresses;
use super::gateway::Gateway;

const RESET: &str = include_str!("host-reset.sh");
const LOSE_POWER: &str = include_str!("host-lose-power.sh");
const INIT: &str = include_str!("host-init.sh");

/// The programs of a host.
pub(super) struct HostPrograms<'a> {
    /// The folders of `/usr`, see [`host_programs`](crate::host_programs).
    pub(super) usr: &'a str,
    /// True if Open vSwitch runs too. It is in one of the folders.
    pub(super) open_vswitch: bool,
    /// True if NetworkManager and D-Bus run.
    pub(super) network_manager: bool,
}

/// A host of a [`HostLab`](super::HostLab). Killed on drop, with all that runs on it.
#[derive(Debug)]
pub struct Host {
    name: String,
    index: u8,
    init: Init,
    dir: PathBuf,
    network_manager: bool,
    /// Programs so far, for the names of their logs.
    programs: AtomicU32,
}

impl Host {
    /// Starts the host of this index, from 1, with these programs. NetworkManager is not ready yet
    /// when this returns.
    pub(super) fn start(
        index: u8,
        name: &str,
        cards: u8,
        configuration: &str,
        programs: &HostPrograms,
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
        let folder = dir.display().to_string();
        let services = match (programs.network_manager, programs.open_vswitch) {
            (false, _) => "none",
            (true, false) => "nm",
            (true, true) => "nm-ovs",
        };
        let args = [
            name.to_owned(),
            address,
            router,
            folder,
            programs.usr.to_owned(),
            services.to_owned(),
        ];
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
            network_manager: programs.network_manager,
            programs: AtomicU32::new(0),
        })
    }

    /// Of the Node object, and its host name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Index of the host, from 1.
    pub(super) fn index(&self) -> u8 {
        self.index
    }

    /// Of `eth0`.
    pub(super) fn address(&self) -> Ipv4Addr {
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
        let mut entered = enter(self.init.pid());
        entered.args(command);
        let output = output(entered, Input::Text(input)).await?;
        output.success(&format!("{} on {}", command.join(" "), self.name))
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
    pub(super) fn start_confined(
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

    /// Ends NetworkManager by SIGTERM and returns when it is up again.
    ///
    /// # Errors
    /// It does not come up in time.
    pub async fn restart_network_manager(&self) -> Result<()> {
        let before = self.service_pid("NetworkManager")?;
        self.exec(&["kill", &before]).await?;
        self.wait_for("NetworkManager is not started again", async || {
            Ok(self.service_pid("NetworkManager")? != before)
        })
        .await?;
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
        self.wait_for("NetworkManager does not end", async || {
            Ok(!self.file(format!("/proc/{pid}")).exists())
        })
        .await
    }

    /// Starts it after [`stop_network_manager`](Self::stop_network_manager).
    ///
    /// # Errors
    /// It does not come up in time.
    pub async fn start_network_manager(&self) -> Result<()> {
        fs::remove_file(self.file("/run/NetworkManager.stopped"))?;
        self.wait_ready().await
    }

    /// Ends NetworkManager and takes from the kernel all that a reboot takes, except from the cards
    /// that `keeps` names. [`start_network_manager`](Self::start_network_manager) starts it again.
    ///
    /// # Errors
    /// A step failed.
    pub async fn lose_power(&self, keeps: &[&str]) -> Result<()> {
        self.stop_network_manager().await?;
        let command = [&["bash", "-e", "-s"][..], keeps].concat();
        self.exec_with_input(&command, LOSE_POWER).await.map(drop)
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

    /// Waits until `eth0` is up, as configured, and NetworkManager has done what it does at its
    /// start.
    pub(super) async fn wait_ready(&self) -> Result<()> {
        if !self.network_manager {
            return self
                .wait_for("eth0 has no route to the gateway", async || {
                    let route = self.exec(&["ip", "route", "show", "default"]).await;
                    Ok(route.is_ok_and(|route| !route.is_empty()))
                })
                .await;
        }
        self.wait_for("NetworkManager is not ready", async || {
            let state = self
                .exec(&["nmcli", "-t", "-f", "STATE,STARTUP", "general"])
                .await;
            // Both are needed: it is "connected" by eth0 before it has looked at all cards.
            Ok(state.is_ok_and(|state| state.trim() == "connected:started"))
        })
        .await
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

    /// Waits until a problem is solved. The error names it and shows the ends of the logs.
    async fn wait_for(
        &self,
        problem: &str,
        mut is_solved: impl AsyncFnMut() -> Result<bool>,
    ) -> Result<()> {
        let result = within(START_TIMEOUT, Duration::from_millis(20), async || {
            Ok(is_solved().await?.then_some(()).ok_or(problem.to_owned()))
        });
        result.await.with_context(|| {
            let ends = ["init", "dbus", "NetworkManager"].map(|name| {
                let log = self.dir.join(format!("{name}.log"));
                format!("{} ends with:\n{}", log.display(), end_of(&log))
            });
            format!("host {}: {}", self.name, ends.join("\n"))
        })
    }
}
