//! A user at a shell.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Output, Stdio},
};

use jiff::Timestamp;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    process::{ChildStderr, ChildStdout, Command},
    sync::mpsc,
};
use weft_testenv::{bound_command, spawn_bound};

use weft_system_tests::*;

/// The result of a run of `weft`.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code().expect("it ended by itself"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Returns its output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Fails the test if it did not end with this code.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.stdout, self.stderr);
        self
    }
}

/// The Lease of the add-ons as another user has written it: for a very long time, and with a holder
/// that is neither an operator of Weft nor a pod.
pub fn ghost_lease() -> String {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": NAMESPACE, "name": "weft-addons"},
        "spec": {
            "holderIdentity": "ghost", "leaseDurationSeconds": 2_000_000_000,
            "renewTime": format!("{:.6}", Timestamp::now())
        }
    })
    .to_string()
}

/// The part of a message that is about the [`ghost_lease`].
pub fn held_by_ghost() -> String {
    format!(
        "the Lease is held by ghost, which is neither an operator of Weft nor a pod in {NAMESPACE}"
    )
}

/// `weft` with these arguments as the admin of the cluster, with nothing to read.
pub async fn weft(cluster: &Cluster, arguments: &[&str]) -> Run {
    weft_reading(cluster, arguments, "").await
}

/// The same with this text on stdin.
pub async fn weft_reading(cluster: &Cluster, arguments: &[&str], stdin: &str) -> Run {
    run(cluster.control_plane.kubeconfig(), arguments, stdin).await
}

/// The same as the user of this kubeconfig.
pub async fn run(kubeconfig: &Path, arguments: &[&str], stdin: &str) -> Run {
    let mut child = command(kubeconfig, arguments)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end without reading all of it.
    let _ = child
        .stdin
        .take()
        .unwrap()
        .write_all(stdin.as_bytes())
        .await;
    let what = format!("weft {}", arguments.join(" "));
    let output = answer_within(COMMAND_LIMIT, &what, child.wait_with_output()).await;
    Run::of(output.unwrap())
}

/// The command, in an environment that says nothing else to it.
pub fn command(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(weft_binary());
    command
        .args(arguments)
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// A program that runs next to the test. It is killed on drop, and by the kernel if the test's
/// process is killed.
pub struct Running {
    child: Child,
}

impl Running {
    /// `weft` with these arguments and with SIGINT ignored when it starts, as a script has it in
    /// the background.
    pub fn weft(kubeconfig: &Path, arguments: &[&str]) -> Self {
        let mut command = bound_command(Path::new("sh"));
        command
            .args(["-c", "trap '' INT; exec \"$0\" \"$@\""])
            .arg(weft_binary())
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self::spawn(command)
    }

    fn spawn(command: std::process::Command) -> Self {
        let child = spawn_bound(command).expect("the program is there");
        Self { child }
    }

    /// Its stdout. A test takes it once.
    pub fn stdout(&mut self) -> Shown {
        let stdout = self.child.stdout.take().expect("it is taken once");
        Shown::of(ChildStdout::from_std(stdout).unwrap())
    }

    /// Its stderr. A test takes it once.
    pub fn stderr(&mut self) -> Shown {
        let stderr = self.child.stderr.take().expect("it is taken once");
        Shown::of(ChildStderr::from_std(stderr).unwrap())
    }

    /// Sends the signal of Ctrl-C.
    pub fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Waits for its end, and returns the exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        let status = wait_until("it ends", async || {
            let ended = self.child.try_wait().unwrap();
            ended.ok_or_else(|| "it runs".to_owned())
        })
        .await;
        status.code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines that a running program prints. They are read to the end, so that it never waits for a
/// reader.
pub struct Shown(mpsc::UnboundedReceiver<String>);

impl Shown {
    fn of(stream: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut read = BufReader::new(stream).lines();
            while let Ok(Some(line)) = read.next_line().await {
                // The test may have seen enough.
                let _ = sender.send(line);
            }
        });
        Self(lines)
    }

    /// Waits for a line with this text, and returns it.
    pub async fn wait(&mut self, text: &str) -> String {
        loop {
            let line = tokio::time::timeout(PATIENCE, self.0.recv())
                .await
                .unwrap_or_else(|_| panic!("{text:?} is not shown"))
                .unwrap_or_else(|| panic!("the program has ended without {text:?}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits for the end of the program, and returns all further lines.
    pub async fn rest(mut self) -> String {
        let read = async {
            let mut rest = String::new();
            while let Some(line) = self.0.recv().await {
                rest += &format!("{line}\n");
            }
            rest
        };
        answer_within(COMMAND_LIMIT, "the rest of what is shown", read).await
    }
}

/// `weft` on a terminal of 200 columns, which `script` of util-linux lends.
pub struct Terminal {
    running: Running,
    keys: ChildStdin,
    typescript: PathBuf,
}

impl Terminal {
    /// Starts `weft` with these arguments. The folder is for a file of what it shows.
    pub fn start(kubeconfig: &Path, folder: &Path, arguments: &str) -> Self {
        let typescript = folder.join(format!("typescript-{:x}", rand::random::<u64>()));
        let weft = weft_binary();
        // A shell that runs the tests in the background ignores the signal of Ctrl-C, and a terminal's
        // shell does not.
        let shell = format!(
            "stty rows 40 cols 200; exec env --default-signal=INT {} {arguments}",
            weft.display()
        );
        let mut command = bound_command(Path::new("script"));
        command
            .args(["-qefc", &shell])
            .arg(&typescript)
            .env("KUBECONFIG", kubeconfig)
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut running = Running::spawn(command);
        Self {
            keys: running.child.stdin.take().unwrap(),
            running,
            typescript,
        }
    }

    /// All that it has shown.
    pub fn shown(&self) -> String {
        std::fs::read_to_string(&self.typescript).unwrap_or_default()
    }

    /// Waits until it has shown this text.
    pub async fn wait(&self, text: &str) {
        wait_until(&format!("{text:?} is shown"), async || {
            let shown = self.shown();
            if shown.contains(text) {
                Ok(())
            } else {
                Err(shown)
            }
        })
        .await;
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits for its end, and returns the exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        self.running.ended().await
    }
}

/// The kubeconfig of a user with the ClusterRole `view`.
pub async fn viewer(cluster: &Cluster) -> std::path::PathBuf {
    cluster
        .kubectl(&["create", "serviceaccount", "viewer"])
        .await;
    cluster
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "viewer",
            "--clusterrole=view",
            "--serviceaccount=default:viewer",
        ])
        .await;
    cluster
        .control_plane
        .service_account_kubeconfig("default", "viewer")
        .await
        .unwrap()
}
