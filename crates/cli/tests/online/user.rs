//! Somebody at a shell.

use std::{
    path::Path,
    process::{Output, Stdio},
};

use serde_json::Value;
use tokio::{io::AsyncWriteExt, process::Command};

use crate::harness::*;

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

/// `weft` with these arguments as the admin of the cluster, with nothing to read.
pub async fn weft(cluster: &Cluster, arguments: &[&str]) -> Run {
    weft_reading(cluster, arguments, "").await
}

/// The same with this text on stdin.
pub async fn weft_reading(cluster: &Cluster, arguments: &[&str], stdin: &str) -> Run {
    run(cluster.control_plane.kubeconfig(), arguments, stdin).await
}

/// The same as whoever this kubeconfig says.
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
    Run::of(child.wait_with_output().await.unwrap())
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
