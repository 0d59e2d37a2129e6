//! `weft-agent run` as a process, on a host of its own, with an API server that is away: lock,
//! health, end.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, kill_process},
};
use weft_testenv::namespace::in_namespace;

const PATIENCE: Duration = Duration::from_secs(60);
const KUBECONFIG: &str = "apiVersion: v1
kind: Config
clusters: [{name: away, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: nobody, user: {token: none}}]
contexts: [{name: away, context: {cluster: away, user: nobody}}]
current-context: away
";

fn agent(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(weft_system_tests::program("weft-agent"));
    command
        .args(arguments)
        .env_remove("NODE_NAME")
        .env("KUBECONFIG", folder.join("kubeconfig"));
    command
        .env("WEFT_AGENT_STATE_DIR", folder.join("state"))
        .env("POD_NAME", "nmstate-handler-x");
    command.env(
        "NMSTATE_INSTANCE_NODE_LOCK_FILE",
        folder.join("lock/handler_lock"),
    );
    command
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `weft-agent health`. Returns its output and its verdict.
fn health(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let output = agent(folder, &[&["health"], arguments].concat())
        .output()
        .unwrap();
    (
        output.status.success(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

fn wait_health(folder: &Path, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, said) = health(folder, &[]);
        if said.contains(wanted) {
            return;
        }
        assert!(Instant::now() < deadline, "never {wanted:?}: {said}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn it_waits_for_its_turn_says_how_it_is_and_ends_when_told() {
    in_namespace(|| {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("kubeconfig"), KUBECONFIG).unwrap();
        fs::create_dir(folder.join("lock")).unwrap();
        let other = File::create(folder.join("lock/handler_lock")).unwrap();
        flock(&other, FlockOperation::LockExclusive).unwrap();
        assert!(!health(folder, &["--live"]).0, "there is none yet");

        let log = File::create(folder.join("log")).unwrap();
        // Without a command, as in the DaemonSet.
        let child = agent(folder, &[])
            .env("NODE_NAME", "node-1")
            .stderr(log)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut running = Running(child);
        wait_health(folder, "waiting for another agent");
        assert_eq!(
            (health(folder, &["--live"]).0, health(folder, &[]).0),
            (true, false)
        );

        drop(other);
        wait_health(folder, "ok");
        assert!(health(folder, &[]).0);

        kill_process(Pid::from_child(&running.0), Signal::TERM).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match running.0.try_wait().unwrap() {
                Some(status) => break status,
                None => assert!(Instant::now() < deadline, "it does not end"),
            }
            thread::sleep(Duration::from_millis(20));
        };
        let log = fs::read_to_string(folder.join("log")).unwrap();
        assert!(status.success(), "{status}: {log}");
        assert!(
            log.lines()
                .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()),
            "{log}"
        );
        for said in [
            "waiting: another agent holds the lock",
            "has released the lock",
            "watch failed",
            "stopping",
        ] {
            assert!(log.contains(said), "{said:?} is not in the log: {log}");
        }
        assert!(!health(folder, &["--live"]).0, "its socket is gone");
    });
}

#[test]
fn without_a_node_it_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let output = agent(folder.path(), &["run"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("NODE_NAME") && said.contains("--node-name"),
        "{said}"
    );
}

/// Runs `weft-agent once` to its end.
fn once(folder: &Path, timeout: &str) -> (Option<i32>, String, Duration) {
    let start = Instant::now();
    let child = agent(folder, &["once", "--timeout", timeout])
        .env("NODE_NAME", "node-1")
        .stderr(File::create(folder.join("log")).unwrap())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut running = Running(child);
    let status = loop {
        match running.0.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(start.elapsed() < PATIENCE, "it does not end"),
        }
        thread::sleep(Duration::from_millis(20));
    };
    let log = fs::read_to_string(folder.join("log")).unwrap();
    (status.code(), log, start.elapsed())
}

#[test]
fn once_ends_at_its_timeout_without_an_api_server() {
    in_namespace(|| {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::create_dir(folder.join("lock")).unwrap();
        // The kernel accepts connections to it, and no program answers.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = listener.local_addr().unwrap().to_string();
        for server in ["127.0.0.1:1", silent.as_str()] {
            let kubeconfig = KUBECONFIG.replace("127.0.0.1:1", server);
            fs::write(folder.join("kubeconfig"), kubeconfig).unwrap();
            let (code, log, took) = once(folder, "2s");
            assert_eq!(code, Some(1), "{log}");
            assert!(
                log.contains(&format!(
                    "the API server at https://{server}/ does not answer within 2s"
                )),
                "{log}"
            );
            assert!(took >= Duration::from_secs(2), "it has tried until the end");
        }
        // A number without a unit is in seconds.
        assert_eq!(once(folder, "1").0, Some(1));
        let (code, log, _) = once(folder, "soon");
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains("write it like 30s, 5m or 1h30m"), "{log}");
    });
}
