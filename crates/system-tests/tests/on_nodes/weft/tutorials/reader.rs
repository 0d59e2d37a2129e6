//! A reader who pastes each command of a page into one shell, and looks at what it prints.

use std::{
    fmt::Write as _,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
};
use weft_testenv::{lab::Lab, wait::answer_within};

use super::page::{Step, lacks, steps};
use crate::on_nodes::weft::{site::binary, wait::wait_until};

/// How long a command may print nothing: longer than any waits by itself.
const LINE: Duration = Duration::from_secs(600);

/// The line after the output of a command.
const END: &str = "--- the command has ended: ";

/// Parts of commands, and what they say where the page describes it and shows no output.
const SAYS: [(&str, &str); 8] = [
    ("weft validate -f", ": valid"),
    (
        "rollout status deployment/weft-operator",
        "successfully rolled out",
    ),
    ("network-status", "\"interface\": \"net1\""),
    ("weft graph", "br1"),
    ("effectiveConfiguration", "\"mtu\""),
    ("-- wget ", "hello"),
    (
        "--retry-connrefused http://127.0.0.1:8778/",
        "\"max_version\"",
    ),
    ("curl -s -H ", "\"name\": \"first\""),
];

/// A command that the test does not type as the page has it.
enum Instead {
    /// The page describes another cluster or asks the reader for a value.
    Type(String),
    /// The lab has done it.
    Skip,
    /// The reader ends it when each node is there.
    Watch,
}

/// `port` is one of this machine that is free, in place of the one that the pages forward.
fn instead(command: &str, port: u16) -> Instead {
    match command {
        // The test cannot answer its question.
        "weft uninstall" => Instead::Type("weft uninstall --yes".to_owned()),
        // The nodes are as it leaves them.
        command if command.starts_with("kubeadm init ") => Instead::Skip,
        command if command.ends_with(" --watch") => Instead::Watch,
        // The address of the lab's API server for its nodes, and the free port.
        command => Instead::Type(
            command
                .replace("https://192.0.2.1:6443", "https://172.31.0.1:6443")
                .replace(
                    "placement-internal 8778",
                    &format!("placement-internal {port}:8778"),
                )
                .replace("127.0.0.1:8778", &format!("127.0.0.1:{port}")),
        ),
    }
}

/// A bash with `weft` and `kubectl` in its PATH, in the source tree.
pub struct Reader {
    _shell: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// All commands, with their output.
    transcript: String,
    nodes: Vec<String>,
    kubeconfig: PathBuf,
    programs: TempDir,
}

/// A bash of a reader with these programs.
fn bash(programs: &Path, kubeconfig: &Path) -> Command {
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("bash");
    command
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("KUBECONFIG", kubeconfig)
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    command
}

impl Reader {
    pub async fn new(lab: &Lab) -> Self {
        let programs = tempfile::tempdir().unwrap();
        let kubectl = lab.control_plane().programs().get("kubectl").unwrap();
        for (name, program) in [("weft", &binary()), ("kubectl", &kubectl)] {
            std::os::unix::fs::symlink(program, programs.path().join(name)).unwrap();
        }
        let kubeconfig = lab.control_plane().kubeconfig().to_owned();
        let mut shell = bash(programs.path(), &kubeconfig)
            .args(["-o", "pipefail"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = shell.stdin.take().unwrap();
        input.write_all(b"exec 2>&1\n").await.unwrap();
        Self {
            output: BufReader::new(shell.stdout.take().unwrap()),
            _shell: shell,
            input,
            transcript: String::new(),
            nodes: lab
                .nodes()
                .iter()
                .map(|node| node.name().to_owned())
                .collect(),
            kubeconfig,
            programs,
        }
    }

    /// Runs a command, and returns its exit code and all that it has printed.
    pub async fn run(&mut self, command: &str) -> (i32, String) {
        // No command reads the next ones.
        let quoted = command.replace('\'', r"'\''");
        let line = format!("eval '{quoted}' </dev/null; printf '\\n%s%d\\n' '{END}' $?\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
        writeln!(self.transcript, "$ {command}").unwrap();
        let mut text = String::new();
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line);
            let read = answer_within(LINE, command, read).await.unwrap();
            assert_ne!(read, 0, "the shell has ended:\n{}", self.transcript);
            if let Some(code) = line.strip_prefix(END) {
                self.transcript += &text;
                return (code.trim().parse().unwrap(), text);
            }
            text += &line;
        }
    }

    /// Follows a page from its first command to its last one.
    pub async fn follow(&mut self, page: &str) {
        let steps = steps(page);
        assert!(steps.len() > 10, "these are all commands: {steps:#?}");
        let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        for step in &steps {
            match instead(&step.command, port) {
                Instead::Type(command) => self.step(&command, step).await,
                Instead::Watch => self.watch(&step.command).await,
                Instead::Skip => {}
            }
        }
    }

    async fn step(&mut self, command: &str, step: &Step) {
        if only_reads(command) {
            // A reader who looks too early looks again.
            wait_until(command, async || {
                let (code, output) = self.run(command).await;
                judge(step, code, &output)
                    .map_err(|wrong| format!("{wrong}, after this:\n{}", self.transcript))
            })
            .await;
            return;
        }
        let (code, output) = self.run(command).await;
        if let Err(wrong) = judge(step, code, &output) {
            panic!("`{command}`: {wrong}, after this:\n{}", self.transcript);
        }
    }

    /// Watches enactments until each node has finished. The page shows its first moment, which is
    /// over when a slow reader types the command.
    async fn watch(&mut self, command: &str) {
        // The process is the command itself, so it ends with this function.
        let script = format!("exec {command}");
        let mut watch = bash(self.programs.path(), &self.kubeconfig)
            .args(["-c", &script])
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let mut waiting = self.nodes.clone();
        while !waiting.is_empty() {
            let line = tokio::time::timeout(weft_testenv::wait::PATIENCE, lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("{waiting:?}: not yet\n{}", self.transcript));
            let line = line.unwrap().unwrap();
            writeln!(self.transcript, "{line}").unwrap();
            let finished = line.contains(" Available ");
            waiting.retain(|node| !(finished && line.starts_with(&format!("{node}."))));
        }
    }
}

/// Commands that write nothing.
fn only_reads(command: &str) -> bool {
    let starts = [
        "kubectl get ",
        "kubectl exec ",
        "weft status",
        "weft graph",
        "curl -s -H",
    ];
    starts.iter().any(|start| command.starts_with(start))
}

/// The exit code that the page describes for a command.
fn exit_code(step: &Step) -> i32 {
    let first = step.shown.first().map_or("", String::as_str);
    if step.command.contains("weft plan") {
        // 1: something would change. 2: the operator would refuse it.
        return if first.starts_with("error:") { 2 } else { 1 };
    }
    if step.command == "weft status --problems" {
        // 3: it shows something.
        return if first.is_empty() { 0 } else { 3 };
    }
    let finds_mistakes = step.command.contains("weft validate") && !first.ends_with("valid");
    i32::from(finds_mistakes && !first.is_empty())
}

/// Compares the end of a command with the page.
fn judge(step: &Step, code: i32, output: &str) -> Result<(), String> {
    let expected = exit_code(step);
    if code != expected {
        return Err(format!("exit code {code} instead of {expected}"));
    }
    if step.command.starts_with("weft graph ") {
        // The cards are those of the reader's hosts.
        let node = step.command.trim_start_matches("weft graph ");
        let has_node = output.contains(node) && output.contains("eth0");
        return has_node.then_some(()).ok_or(format!("no card of {node}"));
    }
    if let Some(line) = lacks(&step.shown, output) {
        return Err(format!("the page shows `{line}`"));
    }
    let said = SAYS
        .iter()
        .filter(|(part, _)| step.shown.is_empty() && step.command.contains(part));
    for (_, text) in said {
        if !output.contains(text) {
            return Err(format!("it does not say `{text}`"));
        }
    }
    Ok(())
}

#[test]
fn each_described_output_belongs_to_a_command() {
    let pages: Vec<_> = super::PAGES.iter().flat_map(|page| steps(page)).collect();
    for (part, _) in SAYS {
        let has_part = |step: &Step| step.shown.is_empty() && step.command.contains(part);
        assert!(pages.iter().any(has_part), "no page has `{part}`");
    }
}
