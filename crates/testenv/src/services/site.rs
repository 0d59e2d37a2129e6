//! The namespaces that services run in.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt;

use crate::{
    init::{Init, enter, enter_bound},
    lab::network,
    process::Process,
    relay::{Relay, listen_in},
    workdir::WorkDir,
};

use super::{Container, missing};

const INIT: &str = include_str!("site-init.sh");
const CONTAINER: &str = include_str!("container.sh");

/// A network of its own with nothing but loopback, where services run. Killed with all that runs in
/// it when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Site(Arc<Namespaces>);

#[derive(Debug)]
struct Namespaces {
    /// From its ports to another site.
    _ways: Vec<Relay>,
    // Before its files.
    init: Init,
    dir: WorkDir,
    /// Those that lead to its loopback.
    names: Vec<String>,
    /// Programs so far, for the names of their files.
    programs: AtomicU32,
}

/// Output and end of a command.
#[derive(Debug)]
pub struct Output {
    /// Its exit code.
    pub status: ExitStatus,
    /// Its stdout.
    pub stdout: String,
    /// Its stderr.
    pub stderr: String,
}

/// A program in a site. A running program, which is killed on drop.
#[derive(Debug)]
pub(super) struct Running {
    process: Process,
}

impl Site {
    /// In it, these names lead to its loopback address, 127.0.0.1.
    ///
    /// # Errors
    /// The machine lacks something: the error says what.
    pub fn start(names: &[&str]) -> Result<Self> {
        let missing = missing();
        if !missing.is_empty() {
            bail!(
                "this machine cannot run Placement, MariaDB and Apache: {}",
                missing.join("; ")
            );
        }
        Self::made(
            names.iter().map(|name| (*name).to_owned()).collect(),
            |_| Ok(vec![]),
        )
    }

    /// Another one next to this one, as another pod of the same cluster: it has the same names, and
    /// these ports of its loopback lead here. Its own ports are its own, so two servers may have
    /// the same.
    ///
    /// # Errors
    /// The machine has no namespaces left, or too few files.
    pub fn beside(&self, ports: &[u16]) -> Result<Self> {
        Self::made(self.0.names.clone(), |network| {
            let way = |port: &u16| {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
                Relay::start(listen_in(network, address)?, address, Some(&self.network()))
            };
            ports.iter().map(way).collect()
        })
    }

    fn made(names: Vec<String>, ways: impl FnOnce(&Path) -> Result<Vec<Relay>>) -> Result<Self> {
        let dir = WorkDir::temporary()?;
        let hosts = dir.write(
            "hosts",
            &format!("127.0.0.1 localhost {}\n", names.join(" ")),
        )?;
        // Others than root read it.
        fs::set_permissions(&hosts, std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        let script = dir.write("site-init.sh", INIT)?;
        dir.write("container.sh", CONTAINER)?;
        let ready = dir.path().join("ready");
        let mut init = Init::start(
            &script,
            &[&hosts.display().to_string(), &ready.display().to_string()],
            dir.path(),
        )?;
        init.wait_for(&ready)?;
        let ways = ways(&network::of(init.pid()))?;
        Ok(Self(Arc::new(Namespaces {
            _ways: ways,
            init,
            dir,
            names,
            programs: AtomicU32::new(0),
        })))
    }

    /// The folder with data and logs. Removed with the site, but after a panic.
    pub fn dir(&self) -> &Path {
        self.0.dir.path()
    }

    /// Runs a command in a container of its own and returns what it printed, also if it failed.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn output(&self, container: &Container, command: &[&str]) -> Result<Output> {
        let mut entered = enter(self.0.init.pid());
        entered.args(self.words(container, command)?);
        output(entered).await
    }

    /// Runs a command in a container of its own and returns its stdout.
    ///
    /// # Errors
    /// It failed: the error holds its stderr.
    pub async fn run(&self, container: &Container, command: &[&str]) -> Result<String> {
        let output = self.output(container, command).await?;
        if !output.status.success() {
            bail!(
                "{}: {}: {}{}",
                command.join(" "),
                output.status,
                output.stderr.trim_end(),
                output.stdout.trim_end()
            );
        }
        Ok(output.stdout)
    }

    /// Runs a program in the site, outside any container, with this text on stdin, and returns its
    /// stdout.
    ///
    /// # Errors
    /// It failed: the error holds its stderr.
    pub async fn exec(&self, command: &[&str], input: &str) -> Result<String> {
        let mut child = tokio::process::Command::from(enter(self.0.init.pid()))
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
        if !output.status.success() {
            let program = command.first().copied().unwrap_or_default();
            bail!(
                "{program}: {}: {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs curl in the site and returns the status of the answer, and its body.
    ///
    /// # Errors
    /// No answer: the error is curl's.
    pub async fn curl(&self, args: &[&str]) -> Result<(u16, String)> {
        let all = [
            &[
                "curl",
                "--silent",
                "--show-error",
                "--max-time",
                "60",
                "--write-out",
                "\n%{http_code}",
            ],
            args,
        ]
        .concat();
        let text = self.exec(&all, "").await?;
        let (body, status) = text.rsplit_once('\n').context("curl writes the status")?;
        Ok((status.parse()?, body.to_owned()))
    }

    /// A port of this machine's loopback that leads to the same port of the site: a URL with it is
    /// good on either side.
    ///
    /// # Errors
    /// No port is free.
    pub(super) fn expose(&self, port: u16) -> Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("port {port} is taken"))?;
        self.forward(listener, port)
    }

    /// The same with any port on this machine.
    pub(super) fn reach(&self, port: u16) -> Result<Relay> {
        self.forward(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, port)
    }

    fn forward(&self, listener: TcpListener, port: u16) -> Result<Relay> {
        Relay::start(
            listener,
            SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            Some(&self.network()),
        )
    }

    fn network(&self) -> PathBuf {
        network::of(self.0.init.pid())
    }

    /// Starts a program in a container of its own. Its output goes to `<name>.log` in the site's
    /// folder.
    pub(super) fn spawn(
        &self,
        name: &str,
        container: &Container,
        command: &[&str],
    ) -> Result<Running> {
        let mut entered = enter_bound(self.0.init.pid());
        entered.args(self.words(container, command)?);
        Ok(Running {
            process: Process::spawn(name.to_owned(), entered, self.dir())?,
        })
    }

    /// The same without a container.
    pub(super) fn spawn_bare(&self, name: &str, command: &[String]) -> Result<Running> {
        let mut entered = enter_bound(self.0.init.pid());
        entered.args(command);
        Ok(Running {
            process: Process::spawn(name.to_owned(), entered, self.dir())?,
        })
    }

    /// Another one at each call, for the name of a file.
    pub(super) fn number(&self) -> u32 {
        self.0.programs.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn words(&self, container: &Container, command: &[&str]) -> Result<Vec<String>> {
        let mounts = self
            .0
            .dir
            .write(&format!("mounts-{}", self.number()), &container.mounts())?;
        let script = self.dir().join("container.sh");
        let mut words: Vec<String> = ["unshare", "--mount", "--propagation=private", "--", "bash"]
            .map(Into::into)
            .to_vec();
        words.extend([
            script.display().to_string(),
            mounts.display().to_string(),
            container.user().to_string(),
        ]);
        words.extend(container.restricted());
        words.push("env".into());
        words.extend(container.environment());
        words.extend(command.iter().map(|word| (*word).to_owned()));
        Ok(words)
    }
}

impl Running {
    /// An error with the end of its log if it is not running any more.
    pub(super) fn check_running(&mut self) -> Result<()> {
        self.process.check_running()
    }

    pub(super) fn log(&self) -> &Path {
        self.process.log()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // nsenter, killed first, would leave it running.
        if let (Ok(None), Ok(pid)) = (
            self.process.status(),
            crate::init::child_of(&mut self.process),
        ) {
            end_tree(pid);
        }
    }
}

/// Ends a process and all that it started, and returns when they are gone.
fn end_tree(pid: u32) {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(parent) = all.get(next) {
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))
            .unwrap_or_default();
        all.extend(
            children
                .split_whitespace()
                .filter_map(|child| child.parse::<u32>().ok()),
        );
        next += 1;
    }
    for process in &all {
        crate::init::kill(*process, rustix::process::Signal::KILL);
    }
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while all.iter().any(|process| runs(*process)) && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// It is there, and no zombie that waits to be reaped.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, fields)| !fields.starts_with('Z'))
}

async fn output(command: Command) -> Result<Output> {
    let output = tokio::process::Command::from(command)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Output {
        status: output.status,
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    })
}
