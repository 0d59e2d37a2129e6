//! Runs the real binary.

#![allow(dead_code, reason = "each user needs a part")]

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use weft_testenv::built;

/// The result of a run of `weft`.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// `weft` with these arguments in this folder, with nothing on stdin.
pub fn weft(folder: &Path, arguments: &[&str]) -> Run {
    run(&mut command(folder, arguments), "")
}

/// The same with this text on stdin.
pub fn weft_with_stdin(folder: &Path, arguments: &[&str], stdin: &str) -> Run {
    run(&mut command(folder, arguments), stdin)
}

/// Returns the output. Fails the test if it does not succeed.
pub fn printed(arguments: &[&str]) -> String {
    let run = weft(Path::new("."), arguments);
    assert_eq!(
        run.code, 0,
        "weft {arguments:?}: {}{}",
        run.stdout, run.stderr
    );
    run.stdout
}

/// The command, in an environment that says nothing to it.
pub fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(built("weft").unwrap());
    command.args(arguments).current_dir(folder).env_clear();
    command
}

/// Runs it to the end.
pub fn run(command: &mut Command, stdin: &str) -> Run {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end without reading all of it.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run {
        code: output.status.code().unwrap(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// The documents of a YAML stream.
pub fn objects(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple::<Value>(yaml).unwrap()
}

/// `Kind name` of an object.
pub fn title(object: &Value) -> String {
    format!(
        "{} {}",
        object["kind"].as_str().unwrap(),
        object["metadata"]["name"].as_str().unwrap()
    )
}

/// The root of the source tree.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}
