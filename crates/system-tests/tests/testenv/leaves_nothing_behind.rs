//! However the owner ends, no process of a control plane stays.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weft_testenv::ControlPlane;

/// Processes whose command line names this folder: each program of a control plane does.
fn processes_in(folder: &Path) -> Vec<String> {
    let needle = folder.display().to_string();
    let command = |pid: &Path| {
        let line = fs::read(pid.join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(&needle).then_some(line)
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .parse::<u32>()
            .is_ok_and(|pid| pid != std::process::id())
    })
    .filter_map(|entry| command(&entry.path()))
    .collect()
}

fn wait_until_none(folder: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !processes_in(folder).is_empty() {
        assert!(
            Instant::now() < deadline,
            "left behind: {:#?}",
            processes_in(folder)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[tokio::test]
async fn dropped() {
    let control_plane = ControlPlane::builder().start().await.unwrap();
    let folder = control_plane.dir().to_owned();
    assert_eq!(
        processes_in(&folder).len(),
        5,
        "{:#?}",
        processes_in(&folder)
    );
    drop(control_plane);
    assert!(processes_in(&folder).is_empty());
    assert!(!folder.exists(), "its folder goes with it");
}

#[test]
fn panicked() {
    let (sender, receiver) = std::sync::mpsc::channel();
    // A thread of its own, as each test has: its end must not matter before the panic, and its
    // unwinding must end all.
    let test = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let control_plane = ControlPlane::builder().api_only().start().await.unwrap();
            sender.send(control_plane.dir().to_owned()).unwrap();
            panic!("on purpose: the test fails");
        });
    });
    assert!(test.join().is_err());
    let folder = receiver.recv().unwrap();
    assert!(processes_in(&folder).is_empty());
    assert!(
        folder.join("kube-apiserver.log").exists(),
        "the logs are kept on failure"
    );
    fs::remove_dir_all(folder).unwrap();
}

/// Runs `weft-testenv up` in the foreground until it is up, ends it by a signal, and looks for
/// leftovers.
fn killed_by(signal: Signal) {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("cluster");
    let mut up = Command::new(weft_system_tests::program("weft-testenv"))
        .arg("up")
        .arg("--dir")
        .arg(&folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(up.stdout.take().unwrap()).lines();
    let last = lines
        .find(|line| line.as_ref().is_ok_and(|line| line.starts_with("Ctrl-C")))
        .expect("it is up");
    assert!(last.is_ok());
    assert_eq!(
        processes_in(&folder).len(),
        6,
        "five programs and their parent"
    );
    kill_process(Pid::from_child(&up), signal).unwrap();
    let status = up.wait().unwrap();
    wait_until_none(&folder);
    if signal != Signal::KILL {
        assert!(status.success(), "{status}");
        assert!(!folder.exists());
    }
}

#[test]
fn interrupted() {
    killed_by(Signal::INT);
}

#[test]
fn killed() {
    killed_by(Signal::KILL);
}

#[test]
fn detached_and_taken_down() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("cluster");
    let run = |args: &[&str]| {
        let output = Command::new(weft_system_tests::program("weft-testenv"))
            .args(args)
            .arg("--dir")
            .arg(&folder)
            .output()
            .unwrap();
        let (out, err) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        (output.status.success(), out, err)
    };
    let (ok, out, err) = run(&["up", "--detach", "--api-only"]);
    assert!(ok, "{err}");
    assert!(out.contains("weft-testenv down --dir"), "{out}");
    assert_eq!(
        processes_in(&folder).len(),
        3,
        "etcd, kube-apiserver and their parent"
    );

    let (ok, out, _) = run(&["status"]);
    assert!(
        ok && out.contains("kube-apiserver") && out.contains("running"),
        "{out}"
    );
    let (_, environment, _) = run(&["env"]);
    let shell = format!("{environment}kubectl get --raw /readyz");
    let output = Command::new("sh").args(["-c", &shell]).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "ok",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (ok, _, err) = run(&["up", "--detach"]);
    assert!(
        !ok && err.contains("runs in") && err.contains("weft-testenv down"),
        "{err}"
    );

    let (ok, _, err) = run(&["down"]);
    assert!(ok, "{err}");
    assert!(processes_in(&folder).is_empty() && !folder.exists());
    let (ok, _, err) = run(&["status"]);
    assert!(!ok && err.contains("no control plane runs"), "{err}");
    assert!(run(&["down"]).0, "nothing to do is fine");
}
