//! A command that runs to its end.

use std::fs::File;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt;

use crate::wait::COMMAND_LIMIT;

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

/// The stdin of a command.
pub(crate) enum Input<'a> {
    Text(&'a str),
    File(File),
}

/// Runs a command to its end. It is killed if the caller stops waiting, and at [`COMMAND_LIMIT`].
///
/// # Errors
/// It cannot be started, or does not end.
pub(crate) async fn output(command: Command, input: Input<'_>) -> Result<Output> {
    let (stdin, text) = match input {
        Input::Text("") => (Stdio::null(), ""),
        Input::Text(text) => (Stdio::piped(), text),
        Input::File(file) => (file.into(), ""),
    };
    let program = command.get_program().to_owned();
    let arguments: Vec<_> = command
        .get_args()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let mut child = tokio::process::Command::from(command)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let stdin = child.stdin.take();
    let write = async move {
        if let Some(mut stdin) = stdin {
            // The status reports an early end of the command.
            let _ = stdin.write_all(text.as_bytes()).await;
        }
    };
    let run = async { tokio::join!(write, child.wait_with_output()).1 };
    let output = tokio::time::timeout(COMMAND_LIMIT, run)
        .await
        .with_context(|| {
            format!(
                "{} {} has not ended within {COMMAND_LIMIT:?}",
                program.display(),
                arguments.join(" ")
            )
        })??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Output {
        status: output.status,
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    })
}

impl Output {
    /// Returns the stdout of a command that succeeded. The name of the command is for the error.
    ///
    /// # Errors
    /// It failed: the error holds its stderr and its stdout.
    pub(crate) fn success(self, name: &str) -> Result<String> {
        if !self.status.success() {
            bail!(
                "{name}: {}: {}{}",
                self.status,
                self.stderr.trim_end(),
                self.stdout.trim_end()
            );
        }
        Ok(self.stdout)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    // The paused clock of tokio advances to the next timer when nothing else is left to do.
    #[tokio::test(start_paused = true)]
    async fn a_command_that_never_ends_is_named() {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let error = output(command, Input::Text("")).await.unwrap_err();
        let error = error.to_string();
        assert_eq!(error, "sleep 1000 has not ended within 240s");
    }
}
