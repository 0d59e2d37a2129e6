//! Child processes that never outlive us.
//!
//! Drop ends them on a normal end and on a panic. A parent that is killed runs no Drop: for that
//! case each child asks the kernel for SIGKILL when its parent dies (`prctl(2)`,
//! `PR_SET_PDEATHSIG`), by way of `setpriv` of util-linux, so that no unsafe code is needed between
//! fork and exec.
//!
//! The kernel clears this signal when a program changes its user, its group or its capabilities.
//! Such a program needs a process 1 that ends it, see [`Init`](crate::init::Init).

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;
use std::{fs, io, thread};

use anyhow::{Context, Result, anyhow, bail};

use crate::{
    usage,
    wait::{START_TIMEOUT, within},
};

/// Settings of the Go runtime (<https://pkg.go.dev/runtime#hdr-Environment_Variables>): memory is
/// only collected near this limit. The API server takes up to half a gigabyte more for that, and a
/// sixth less of the processor.
pub(crate) const GO_RUNTIME: [(&str, &str); 2] = [("GOGC", "off"), ("GOMEMLIMIT", "700MiB")];

/// A running program with a log file. A process, which is killed on drop.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    /// None where another command started it.
    launch: Option<Launch>,
    /// The processor time in milliseconds that is in the table of usage already.
    recorded: u64,
}

/// The parameters of [`Process::start`].
#[derive(Clone, Debug)]
struct Launch {
    program: PathBuf,
    args: Vec<String>,
    network: Option<PathBuf>,
}

impl Process {
    /// Starts `program`, in the network namespace of this file (`/proc/<pid>/ns/net`) if one is
    /// given. Its output goes to `<log_folder>/<name>.log`.
    pub(crate) fn start(
        program: &Path,
        args: Vec<String>,
        network: Option<&Path>,
        log_folder: &Path,
    ) -> Result<Self> {
        Self::launch(
            Launch {
                program: program.to_owned(),
                args,
                network: network.map(Path::to_owned),
            },
            log_folder,
        )
    }

    fn launch(launch: Launch, log_folder: &Path) -> Result<Self> {
        let Launch {
            program,
            args,
            network,
        } = &launch;
        let name = program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut command = match network {
            // Without other namespaces nsenter does not fork: the pid is that of the program.
            Some(network) => {
                let mut command = bound_command(Path::new("nsenter"));
                command
                    .arg(format!("--net={}", network.display()))
                    .arg("--")
                    .arg(program);
                command
            }
            None => bound_command(program),
        };
        command.args(args).envs(GO_RUNTIME);
        let mut process = Self::spawn(name, command, log_folder)?;
        process.launch = Some(launch);
        Ok(process)
    }

    /// Notes the processor time that it has used since the last note.
    pub(crate) fn record_usage(&mut self) {
        self.recorded = usage::record_since(&self.name, self.pid(), self.recorded);
    }

    /// Ends the process.
    pub(crate) fn stop(&mut self) {
        self.record_usage();
        // Both fail only if the child was reaped already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again after [`stop`](Self::stop), with the arguments of its first start. Its
    /// output is added to the same log.
    ///
    /// # Errors
    /// It was not started by [`start`](Self::start), or cannot be started.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        let launch = self
            .launch
            .clone()
            .with_context(|| format!("{} cannot be started again", self.name))?;
        let log_folder = self
            .log
            .parent()
            .with_context(|| format!("{} is in no folder", self.log.display()))?
            .to_owned();
        *self = Self::launch(launch, &log_folder)?;
        Ok(())
    }

    /// Runs a command made by [`bound_command`].
    pub(crate) fn spawn(name: String, mut command: Command, log_folder: &Path) -> Result<Self> {
        let log = log_folder.join(format!("{name}.log"));
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        command
            .current_dir(log_folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Not in the terminal's foreground group: Ctrl-C is for us, and we end them in order.
            .process_group(0);
        let child = spawn_bound(command).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                anyhow!("`setpriv` is not in PATH: install util-linux (2.33 or newer)")
            }
            _ => anyhow!("cannot start {name}: {error}"),
        })?;
        Ok(Self {
            name,
            child,
            log,
            launch: None,
            recorded: 0,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    /// An error with the end of its log if it is not running any more.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait()? else {
            return Ok(());
        };
        bail!(
            "{} ended with {status}; its log {} ends with:\n{}",
            self.name,
            self.log.display(),
            end_of(&self.log)
        )
    }

    /// How it ended. Nothing while it runs.
    pub(crate) fn status(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until `look` has a result, with this pause between two looks. `Err` says what there
    /// is instead.
    ///
    /// # Errors
    /// The process has ended, or there is no result in time: the error shows the end of its log.
    pub(crate) async fn wait_ready<T>(
        &mut self,
        pause: Duration,
        mut look: impl AsyncFnMut() -> Result<T, String>,
    ) -> Result<T> {
        let ready = within(START_TIMEOUT, pause, async || {
            let result = look().await;
            if result.is_err() {
                self.check_running()?;
            }
            Ok(result)
        })
        .await;
        // An end is reported as it is, and a timeout with the log.
        self.check_running()?;
        ready.with_context(|| {
            format!(
                "{} is not ready in time; its log {} ends with:\n{}",
                self.name,
                self.log.display(),
                end_of(&self.log)
            )
        })
    }

    /// Waits until it listens on the port.
    pub(crate) async fn wait_listening(&mut self, port: u16) -> Result<()> {
        self.wait_listener(self.pid(), port).await
    }

    /// Waits until the process of this pid, which it has started, listens on the port.
    pub(crate) async fn wait_listener(&mut self, pid: u32, port: u16) -> Result<()> {
        self.wait_ready(Duration::from_millis(10), async || {
            if listens_on(pid, port) {
                Ok(())
            } else {
                Err(format!("it does not listen on port {port}"))
            }
        })
        .await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The last lines of a log.
pub(crate) fn end_of(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let mut last: Vec<_> = text.lines().rev().take(12).collect();
    last.reverse();
    last.join("\n")
}

/// A command whose process the kernel ends when this one ends, however that is. Start it with
/// [`spawn_bound`]. The pid of the child is that of the program.
pub fn bound_command(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Spawns on one thread that lives as long as the process: the kernel sends the parent death signal
/// when the *thread* that forked ends, and a test's thread ends with the test.
///
/// # Errors
/// As [`Command::spawn`].
pub fn spawn_bound(command: Command) -> io::Result<Child> {
    type Job = (Command, mpsc::Sender<io::Result<Child>>);
    static SPAWNER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        thread::spawn(move || {
            for (mut command, reply) in jobs {
                // The receiver waits for exactly this, see below.
                let _ = reply.send(command.spawn());
            }
        });
        sender
    });
    let (reply, result) = mpsc::channel();
    let ended = || io::Error::other("the thread that starts processes has ended");
    spawner.send((command, reply)).map_err(|_| ended())?;
    result.recv().map_err(|_| ended())?
}

/// A loopback port that is free right now.
///
/// Taken from below the kernel's range for outgoing connections (`ip_local_port_range`, from 32768
/// by default), so that no connection of another process takes it in the moment until the program
/// binds it.
pub(crate) fn free_port() -> Result<u16> {
    for _ in 0..200 {
        let port = rand::random_range(10_000..32_000);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free TCP port found on 127.0.0.1 between 10000 and 32000")
}

/// Inodes of the sockets that listen on this port, in the network namespace of the process
/// (`proc_net_tcp(5)`: the second field is the address, both parts hexadecimal; state 0A is LISTEN,
/// the tenth field is the inode). A listener of Go on 0.0.0.0 is one of IPv6.
fn listeners(pid: u32, port: u16) -> Vec<String> {
    let port = format!(":{port:04X}");
    let tables = ["tcp", "tcp6"]
        .map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default());
    let lines = tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter(|fields| {
            fields.get(1).is_some_and(|local| local.ends_with(&port))
                && fields.get(3) == Some(&"0A")
        })
        .filter_map(|fields| fields.get(9).map(ToString::to_string))
        .collect()
}

/// Is the listener on this port this very process? Another program may have taken the port between
/// our choice and its bind, and nobody wants to write into a stranger's etcd.
fn listens_on(pid: u32, port: u16) -> bool {
    listeners(pid, port)
        .iter()
        .any(|inode| owns_socket(pid, inode))
}

/// How many connections to this port of loopback other processes than these have: the connections
/// whose remote end is the port (state 01 is ESTABLISHED), but for the sockets of these processes.
pub(crate) fn foreign_connections(port: u16, own: &[u32]) -> usize {
    let remote = format!(":{port:04X}");
    let tables = ["tcp", "tcp6"]
        .map(|table| fs::read_to_string(format!("/proc/self/net/{table}")).unwrap_or_default());
    tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| {
            fields
                .get(2)
                .is_some_and(|address| address.ends_with(&remote))
                && fields.get(3) == Some(&"01")
        })
        .filter_map(|fields| fields.get(9).copied())
        .filter(|inode| !own.iter().any(|pid| owns_socket(*pid, inode)))
        .count()
}

fn owns_socket(pid: u32, inode: &str) -> bool {
    let socket = PathBuf::from(format!("socket:[{inode}]"));
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    descriptors
        .flatten()
        .any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|target| target == socket))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_listener_is_not_taken_for_a_strangers() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let inodes = listeners(std::process::id(), listener.local_addr().unwrap().port());
        assert!(
            inodes
                .iter()
                .any(|inode| owns_socket(std::process::id(), inode))
        );
        assert!(
            !inodes.iter().any(|inode| owns_socket(1, inode)),
            "init is not us"
        );
    }

    #[test]
    fn a_dropped_process_is_gone_and_its_death_is_reported_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let sleep = Process::start(
            Path::new("/bin/sleep"),
            vec!["1000".into()],
            None,
            folder.path(),
        )
        .unwrap();
        let proc = PathBuf::from(format!("/proc/{}", sleep.pid()));
        assert!(proc.exists());
        drop(sleep);
        assert!(!proc.exists());

        let mut failing = Process::start(
            Path::new("/bin/ls"),
            vec!["--no-such-option".into()],
            None,
            folder.path(),
        )
        .unwrap();
        failing.child.wait().unwrap();
        let error = failing.check_running().unwrap_err().to_string();
        assert!(error.contains("no-such-option"), "{error}");
    }
}
