//! A control plane in the background: one process of ours is the parent of all its programs. They
//! die with it, so this one is all that must be ended.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use weft_testenv::{ControlPlane, lab};

/// A process that cannot be mistaken for a later one with the same pid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    name: String,
    pid: u32,
    /// Time of its start, in clock ticks since the boot.
    started: u64,
}

impl Identity {
    fn of(name: &str, pid: u32) -> Option<Self> {
        Some(Self {
            name: name.into(),
            pid,
            started: start_time(pid)?,
        })
    }

    fn runs(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// Field 22 of `/proc/<pid>/stat` (`proc_pid_stat(5)`). The second field, the name in parentheses,
/// may hold anything. None if there is no such process, or if it is a zombie (state Z).
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18)?.parse().ok())?
}

/// The running processes. The file is in the folder of the control plane.
#[derive(Serialize, Deserialize)]
pub(crate) struct State {
    supervisor: Identity,
    processes: Vec<Identity>,
    pub(crate) url: String,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) programs: Vec<PathBuf>,
}

const FILE: &str = "state.json";

impl State {
    pub(crate) fn of(control_plane: &ControlPlane, processes: Vec<(String, u32)>) -> Result<Self> {
        Ok(Self {
            supervisor: Identity::of("weft-testenv", std::process::id())
                .context("/proc is not mounted")?,
            processes: processes
                .iter()
                .filter_map(|(name, pid)| Identity::of(name, *pid))
                .collect(),
            url: control_plane.url().to_owned(),
            kubeconfig: control_plane.kubeconfig().to_owned(),
            programs: control_plane.programs().folders().to_vec(),
        })
    }

    /// Whole or not at all: others wait for it to appear.
    pub(crate) fn save(&self, dir: &Path) -> Result<()> {
        fs::write(dir.join("state.new"), serde_json::to_vec_pretty(self)?)?;
        Ok(fs::rename(dir.join("state.new"), dir.join(FILE))?)
    }

    fn load(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join(FILE)).ok()?).ok()
    }

    /// The control plane that runs in this folder.
    pub(crate) fn running(dir: &Path) -> Result<Self> {
        let state = Self::load(dir).filter(|state| state.supervisor.runs());
        state.with_context(|| {
            format!(
                "no control plane runs in {}: start one with weft-testenv up",
                dir.display()
            )
        })
    }
}

/// Starts this program again in the background, with the same arguments but for `--detach`, and
/// waits until its control plane is up.
pub(crate) fn detach(dir: &Path) -> Result<State> {
    if let Ok(state) = State::running(dir) {
        bail!(
            "a control plane runs in {} already (pid {}): end it with weft-testenv down",
            dir.display(),
            state.supervisor.pid
        );
    }
    // Next to the folder: inside, it would go with it.
    let log = dir.with_extension("log");
    fs::create_dir_all(dir.parent().unwrap_or(dir))?;
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(
            std::env::args_os()
                .skip(1)
                .filter(|argument| argument != "--detach"),
        )
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .process_group(0)
        .spawn()?;
    loop {
        if let Some(state) = State::load(dir).filter(|state| state.supervisor.pid == child.id()) {
            return Ok(state);
        }
        if let Some(status) = child.try_wait()? {
            let text = fs::read_to_string(&log).unwrap_or_default();
            bail!("it did not start ({status}):\n{}", text.trim_end());
        }
        sleep(Duration::from_millis(50));
    }
}

/// Ends it by pid, and returns when nothing of it is left.
pub(crate) fn down(dir: &Path) -> Result<()> {
    let Some(state) = State::load(dir) else {
        println!("No control plane runs in {}.", dir.display());
        return Ok(());
    };
    // First kindly: it removes its folder. Then not: its programs die with it.
    for (signal, patience) in [(Signal::TERM, 10), (Signal::KILL, 10)] {
        let deadline = Instant::now() + Duration::from_secs(patience);
        if state.supervisor.runs() {
            let pid = i32::try_from(state.supervisor.pid)
                .ok()
                .and_then(Pid::from_raw)
                .context("not a pid")?;
            // It may end by itself in this very moment.
            let _ = kill_process(pid, signal);
        }
        while Instant::now() < deadline {
            if !state.supervisor.runs() && !state.processes.iter().any(Identity::runs) {
                let _ = fs::remove_file(dir.join(FILE));
                // It could not do that itself if it was killed.
                lab::remove_leftovers(dir);
                println!("The control plane in {} has ended.", dir.display());
                return Ok(());
            }
            sleep(Duration::from_millis(20));
        }
    }
    let left = state
        .processes
        .iter()
        .filter(|process| process.runs())
        .map(|process| format!("{} ({})", process.name, process.pid));
    bail!(
        "these processes do not end: {}",
        left.collect::<Vec<_>>().join(", ")
    )
}

/// Runs a command on a real node, with this terminal, and fails if it does.
pub(crate) fn run_on(dir: &Path, node: &str, command: &[String]) -> Result<()> {
    let state = State::running(dir)?;
    let name = format!("{node}: init");
    let init = state
        .processes
        .iter()
        .find(|process| process.name == name && process.runs());
    let init = init.with_context(|| {
        format!(
            "no real node {node} runs in {}: `weft-testenv status` lists what does",
            dir.display()
        )
    })?;
    let mut enter = lab::enter(init.pid);
    Err(enter.args(command).exec()).context("cannot run nsenter, of util-linux")
}

/// Prints what runs. Fails if nothing does.
pub(crate) fn status(dir: &Path) -> Result<()> {
    let state = State::running(dir)?;
    println!("{}  (folder {})", state.url, dir.display());
    for process in std::iter::once(&state.supervisor).chain(&state.processes) {
        println!(
            "  {:<24} pid {:<8} {}",
            process.name,
            process.pid,
            if process.runs() { "running" } else { "ended" }
        );
    }
    Ok(())
}
