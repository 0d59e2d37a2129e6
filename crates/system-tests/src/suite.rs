//! An administrator at a shell who runs the suite.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::program;

/// The program `weft`.
pub fn weft() -> PathBuf {
    program("weft")
}

/// The suite with these arguments, in an environment that says nothing else to it. kubectl is that
/// of this folder.
pub fn suite(kubectl: &Path, arguments: &[&str]) -> Command {
    let folder = kubectl.parent().expect("a program is in a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(program("weft-e2e"));
    command
        .args(arguments)
        .env_clear()
        .env("PATH", path)
        .env("HOME", std::env::var_os("HOME").unwrap_or_default())
        .env("WEFT_BIN", weft())
        .stdin(Stdio::null());
    command
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs it to its end.
pub async fn run(mut command: Command) -> Run {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
