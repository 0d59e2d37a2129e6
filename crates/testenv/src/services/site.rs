//! The namespaces that services run in.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

use crate::{
    command::{Input, Output, output},
    init::{Init, enter, enter_bound},
    network,
    process::Process,
    program::Program,
    relay::{Relay, listen_in},
    workdir::WorkDir,
};

use super::{Container, missing, usr};

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
    /// The folders of `/usr`, as `lowerdir` of an overlay has them.
    usr: String,
    /// Programs so far, for the names of their files.
    programs: AtomicU32,
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
        dir.write("container.sh", CONTAINER)?;
        let usr = usr()?;
        let init = Init::idle(&names, &usr, dir.path())?;
        let ways = ways(&network::of(init.pid()))?;
        Ok(Self(Arc::new(Namespaces {
            _ways: ways,
            init,
            dir,
            names,
            usr,
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
        output(entered, Input::Text("")).await
    }

    /// Runs a command in a container of its own and returns its stdout.
    ///
    /// # Errors
    /// It failed: the error holds its stderr.
    pub async fn run(&self, container: &Container, command: &[&str]) -> Result<String> {
        let output = self.output(container, command).await?;
        output.success(&command.join(" "))
    }

    /// Runs a program in the site, outside any container, with this text on stdin, and returns its
    /// stdout.
    ///
    /// # Errors
    /// It failed: the error holds its stderr.
    pub async fn exec(&self, command: &[&str], input: &str) -> Result<String> {
        let mut entered = enter(self.0.init.pid());
        entered.args(command);
        let output = output(entered, Input::Text(input)).await?;
        output.success(command.first().copied().unwrap_or_default())
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
    ) -> Result<Program> {
        self.spawn_bare(name, &self.words(container, command)?)
    }

    /// The same without a container.
    pub(super) fn spawn_bare(&self, name: &str, command: &[String]) -> Result<Program> {
        let mut entered = enter_bound(self.0.init.pid());
        entered.args(command);
        Program::new(Process::spawn(name.to_owned(), entered, self.dir())?)
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
            self.0.usr.clone(),
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
