//! `weft status --watch`: the requests that it makes where definitions are missing, and its end.

use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};
use weft_testenv::{
    AuditEvent, ControlPlane,
    proxy::{Fault, Match, Proxy},
};

use crate::harness::*;

const USER: &str = "system:serviceaccount:default:watcher";

/// The watch of a kind that the cluster does not serve fails again and again. Such a failure makes
/// no further look at the whole cluster.
#[tokio::test]
async fn a_watch_without_definitions_looks_only_after_changes() {
    let control_plane = ControlPlane::builder()
        .api_only()
        .audit(true)
        .start()
        .await
        .unwrap();
    for arguments in [
        &["create", "serviceaccount", "watcher"][..],
        &[
            "create",
            "clusterrolebinding",
            "watcher",
            "--clusterrole=cluster-admin",
            "--serviceaccount=default:watcher",
        ],
    ] {
        control_plane.kubectl(arguments).await.unwrap();
    }
    let kubeconfig = control_plane
        .service_account_kubeconfig("default", "watcher")
        .await
        .unwrap();
    let mut watch = start(&kubeconfig, &["status", "--watch"]);
    let (looks, all) = wait_until("the watch of a missing kind has failed again", async || {
        let events = control_plane.audit_events_of(USER).unwrap();
        let is_watch = |event: &&AuditEvent| event.uri.contains("limit=");
        let failed = |event: &&AuditEvent| event.code == 404 && event.resource == "networkconfigs";
        let failures = events.iter().filter(failed).filter(is_watch).count();
        // A look lists the operators of Weft once.
        let is_look = |event: &&AuditEvent| {
            event.resource == "deployments"
                && ["weft.network%2Fcomponent", "weft.network/component"]
                    .iter()
                    .any(|label| event.uri.contains(label))
        };
        let looks = events.iter().filter(is_look).count();
        if failures >= 4 && looks >= 1 {
            Ok((looks, events.len()))
        } else {
            Err(format!("{failures} failures, {looks} looks"))
        }
    })
    .await;
    assert_eq!(looks, 1, "nothing has changed");
    assert!(all <= 60, "{all} requests");

    // It still notices a definition that comes.
    let definition = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../deploy/crds/networkconfigs.networkoperator.openshift.io.yaml"),
    )
    .unwrap();
    control_plane
        .kubectl_with_input(&["apply", "-f", "-"], &definition)
        .await
        .unwrap();
    wait_shown(&mut watch, "there is no NetworkConfig").await;
    watch.kill().await.unwrap();
}

/// Also where a shell has started it with the signal ignored, as scripts do in the background.
#[tokio::test]
async fn ctrl_c_ends_it_at_any_moment() {
    let control_plane = ControlPlane::builder().api_only().start().await.unwrap();
    let proxy = Proxy::start(&control_plane).await.unwrap();

    // While it lists.
    let held = proxy.inject(Match::any().resource("deployments"), Fault::Hold);
    let lists = start(proxy.kubeconfig(), &["status", "--watch"]);
    held.wait_hits(1, PATIENCE).await.unwrap();
    assert_eq!(interrupted(lists).await.code(), Some(0));
    held.remove();

    // While it waits, which is no success.
    proxy.clear();
    let mut waits = start(proxy.kubeconfig(), &["status", "--watch"]);
    wait_shown(&mut waits, "Weft is not installed").await;
    assert_eq!(interrupted(waits).await.code(), Some(0));
    let held = proxy.inject(Match::any().resource("deployments"), Fault::Hold);
    let waits = start(proxy.kubeconfig(), &["status", "--wait"]);
    held.wait_hits(1, PATIENCE).await.unwrap();
    assert_eq!(interrupted(waits).await.code(), Some(130));
    held.remove();

    // While the API server is away, which does not end it by itself.
    let mut away = start(proxy.kubeconfig(), &["status", "--watch"]);
    wait_shown(&mut away, "Weft is not installed").await;
    let cut = proxy.inject(Match::any(), Fault::CutBefore);
    proxy.close_watches(&Match::any());
    cut.wait_hits(3, PATIENCE).await.unwrap();
    assert_eq!(interrupted(away).await.code(), Some(0));
    cut.remove();

    // On a terminal, which `script` of util-linux lends.
    let typescript = control_plane.dir().join("typescript");
    let weft = weft_binary();
    let shell = format!(
        "stty rows 40 cols 200; exec {} status --watch",
        weft.display()
    );
    let mut terminal = Command::new("script")
        .args(["-qefc", &shell])
        .arg(&typescript)
        .env("KUBECONFIG", proxy.kubeconfig())
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("script of util-linux is there");
    wait_until(
        "the first tree is drawn",
        async || match std::fs::read_to_string(&typescript).unwrap_or_default() {
            shown if shown.contains("Weft is not installed") => Ok(()),
            shown => Err(shown),
        },
    )
    .await;
    let mut keys = terminal.stdin.take().unwrap();
    keys.write_all(b"\x03").await.unwrap();
    keys.flush().await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, terminal.wait()).await;
    assert_eq!(ended.expect("it ends").unwrap().code(), Some(0));
}

/// `weft`, with SIGINT ignored when it starts.
fn start(kubeconfig: &std::path::Path, arguments: &[&str]) -> Child {
    Command::new("sh")
        .args(["-c", "trap '' INT; exec \"$0\" \"$@\""])
        .arg(weft_binary())
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn wait_shown(watch: &mut Child, text: &str) {
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    loop {
        let line = tokio::time::timeout(PATIENCE, lines.next_line())
            .await
            .unwrap_or_else(|_| panic!("{text:?} is not shown"));
        if line.unwrap().expect("it goes on").contains(text) {
            // Later lines have a reader, too.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return;
        }
    }
}

/// Sends the signal of Ctrl-C and waits for the end.
async fn interrupted(mut watch: Child) -> ExitStatus {
    let pid = Pid::from_raw(watch.id().unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let ended = tokio::time::timeout(PATIENCE, watch.wait()).await;
    ended.expect("Ctrl-C ends it").unwrap()
}
