//! The verdicts of tools about objects: the real kstatus, that of Flux and Helm, and Argo CD's
//! interpreter of Lua.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::programs::folder_from_script;

/// The verdict of one tool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Verdict {
    /// kstatus: `Current`, `InProgress`, `Failed`, `Terminating`, `Unknown`. Argo CD: `Healthy`,
    /// `Progressing`, `Degraded`, `Suspended`.
    pub status: String,
    /// The reason, for people.
    pub message: String,
}

/// The verdicts of all tools about one object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Verdicts {
    /// kstatus of `sigs.k8s.io/cli-utils`, which kpt uses.
    pub kstatus: Verdict,
    /// kstatus of `github.com/fluxcd/cli-utils`, which Flux and `helm --wait` use.
    pub flux: Verdict,
    /// Argo CD, with the script of the object's kind. `None` if there is no script.
    pub argo: Option<Verdict>,
}

/// Judges each object. `scripts` is a folder with `GROUP/KIND/health.lua`.
///
/// # Errors
/// The program of `scripts/health` cannot be built, or a script fails.
pub fn judge(objects: &[Value], scripts: &Path) -> Result<Vec<Verdicts>> {
    let program = folder_from_script("health", &[])?.join("health");
    let mut child = Command::new(&program)
        .arg(scripts)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let mut input = child.stdin.take().context("no standard input")?;
    let lines: String = objects.iter().map(|object| format!("{object}\n")).collect();
    // Both pipes are full if nobody reads the answers meanwhile.
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    writer
        .join()
        .map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("no verdict: {line}")))
        .collect()
}
