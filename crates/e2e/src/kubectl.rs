//! kubectl and `weft` as an administrator runs them, against the one cluster of the run.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::stop::Stop;

/// The result of a program that has ended.
pub struct Ended {
    /// Its exit code. -1 if a signal has ended it.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// The programs that the suite runs, and the kubeconfig that each of them gets.
#[derive(Clone)]
pub struct Cluster {
    kubeconfig: PathBuf,
    context: Option<String>,
    weft: PathBuf,
    /// A signal ends a program that runs, if this is set.
    stop: Option<Stop>,
}

impl Cluster {
    /// The cluster of this kubeconfig, in its current context unless another one is named.
    pub fn new(kubeconfig: &Path, context: Option<&str>, weft: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            context: context.map(str::to_owned),
            weft: weft.to_owned(),
            stop: None,
        }
    }

    /// The same cluster, for programs that a signal ends.
    #[must_use]
    pub fn until(&self, stop: &Stop) -> Self {
        Self {
            stop: Some(stop.clone()),
            ..self.clone()
        }
    }

    /// The arguments that name the cluster, as kubectl and `weft` both understand them.
    fn place(&self) -> Vec<String> {
        let mut place = vec![
            "--kubeconfig".to_owned(),
            self.kubeconfig.display().to_string(),
        ];
        if let Some(context) = &self.context {
            place.extend(["--context".to_owned(), context.clone()]);
        }
        place
    }

    /// Runs kubectl with this text on its standard input.
    ///
    /// # Errors
    /// kubectl cannot be started. An exit code is no error.
    pub fn try_kubectl(&self, arguments: &[&str], input: &str) -> Result<Ended> {
        let mut command = quiet(Path::new("kubectl"));
        command.args(self.place()).args(arguments);
        end(command, input, self.stop.as_ref())
            .context("kubectl: install it, and put it into your PATH")
    }

    /// Runs kubectl and returns its standard output.
    ///
    /// # Errors
    /// It failed. The error has its arguments and its last words.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_with(arguments, "")
    }

    /// The same with this text on its standard input.
    ///
    /// # Errors
    /// It failed. The error has its arguments and its last words.
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<String> {
        let ended = self.try_kubectl(arguments, input)?;
        if ended.code != 0 {
            bail!("kubectl {}: {}", arguments.join(" "), ended.stderr.trim());
        }
        Ok(ended.stdout)
    }

    /// Returns objects as the API server has them.
    ///
    /// # Errors
    /// kubectl failed, for example because there is no such object.
    pub fn get(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[&["get", "--output=json"], arguments].concat())?;
        serde_json::from_str(&text).context("kubectl get --output=json")
    }

    /// Returns the items of a list. The list is empty if the cluster does not serve the kind.
    ///
    /// # Errors
    /// The API server refuses the request, or cannot be reached.
    pub fn list(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let arguments = [&["get", "--output=json", "--ignore-not-found"], arguments].concat();
        let ended = self.try_kubectl(&arguments, "")?;
        if ended.code != 0 {
            if ended
                .stderr
                .contains("the server doesn't have a resource type")
            {
                return Ok(vec![]);
            }
            bail!("kubectl {}: {}", arguments.join(" "), ended.stderr.trim());
        }
        if ended.stdout.trim().is_empty() {
            return Ok(vec![]);
        }
        let list: Value = serde_json::from_str(&ended.stdout)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Applies an object as `kubectl apply` does.
    ///
    /// # Errors
    /// The API server refuses it.
    pub fn apply(&self, object: &Value) -> Result<()> {
        self.kubectl_with(&["apply", "-f", "-"], &object.to_string())
            .map(drop)
    }

    /// Starts `kubectl port-forward` to a port of an object, and returns the process and the port
    /// on 127.0.0.1.
    ///
    /// # Errors
    /// kubectl ended without a port. The error has its last words.
    pub fn forward(&self, namespace: &str, object: &str, port: u16) -> Result<(Bound, u16)> {
        let mut command = quiet(Path::new("kubectl"));
        command.args(self.place());
        command.args(["port-forward", "-n", namespace, object, &format!(":{port}")]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Bound(command.spawn().context("kubectl port-forward")?);
        let mut line = String::new();
        if let Some(stdout) = child.0.stdout.as_mut() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        // Forwarding from 127.0.0.1:40001 -> 8443
        let found = line
            .split_once(" -> ")
            .and_then(|(from, _)| from.rsplit_once(':'))
            .and_then(|(_, port)| port.parse().ok());
        let Some(port) = found else {
            let mut words = String::new();
            if let Some(stderr) = child.0.stderr.as_mut() {
                stderr.read_to_string(&mut words)?;
            }
            bail!("kubectl port-forward: {line}{}", words.trim());
        };
        Ok((child, port))
    }

    /// Runs `weft` with arguments that need no cluster.
    ///
    /// # Errors
    /// It cannot be started. An exit code is no error.
    pub fn weft_offline(&self, arguments: &[&str]) -> Result<Ended> {
        let mut command = quiet(&self.weft);
        command.args(arguments);
        end(command, "", None).with_context(|| {
            format!(
                "{}: build it with `make build`, or name another one with --weft",
                self.weft.display()
            )
        })
    }

    /// Runs a command of `weft` that talks to the cluster, with this text on its standard input.
    ///
    /// # Errors
    /// It cannot be started. An exit code is no error.
    pub fn weft(&self, arguments: &[&str], input: &str) -> Result<Ended> {
        let mut command = quiet(&self.weft);
        command.args(arguments).args(self.place());
        end(command, input, self.stop.as_ref()).with_context(|| self.weft.display().to_string())
    }
}

/// A process that ends with its owner.
pub struct Bound(Child);

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that no variable of the environment leads to another cluster, and that Ctrl-C on the
/// terminal does not end: a clean-up goes on after it.
pub fn quiet(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_remove("KUBECONFIG").process_group(0);
    command
}

/// How long a signal may wait while a program runs.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs a command to its end, or to the signal that `stop` waits for.
///
/// # Errors
/// It cannot be started.
fn end(mut command: Command, input: &str, stop: Option<&Stop>) -> Result<Ended> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // A program may end without reading all of it.
    let stdin = child.stdin.take();
    let pid = Pid::from_child(&child);
    let output = thread::scope(|scope| {
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        let (ended, waiting) = mpsc::channel();
        scope.spawn(move || ended.send(child.wait_with_output()));
        loop {
            match waiting.recv_timeout(PAUSE) {
                Ok(output) => return output.context("wait for the program"),
                Err(RecvTimeoutError::Timeout) if stop.is_some_and(Stop::is_wanted) => {
                    let _ = kill_process(pid, Signal::TERM);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("a thread has panicked"),
            }
        }
    })?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let mut stderr = text(output.stderr);
    if output.status.code().is_none() && stop.is_some_and(Stop::is_wanted) {
        stderr += "a signal has ended it";
    }
    Ok(Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr,
    })
}

/// Fetches a path over HTTPS with a bearer token, from a server whose certificate is self-signed.
/// kubectl is the client: an administrator has it, and curl may be missing.
///
/// # Errors
/// kubectl cannot be started. An exit code is no error.
pub fn fetch(server: &str, token: &str, path: &str) -> Result<Ended> {
    let mut command = quiet(Path::new("kubectl"));
    command.args([
        "--kubeconfig=/dev/null",
        "--insecure-skip-tls-verify",
        "--request-timeout=15s",
        "--server",
        server,
        "--token",
        token,
        "get",
        "--raw",
        path,
    ]);
    end(command, "", None)
}
