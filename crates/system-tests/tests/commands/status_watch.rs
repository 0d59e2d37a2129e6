//! `weft status --watch`: the requests that it makes where definitions are missing, and its end.

use weft_testenv::{
    AuditEvent, ControlPlane,
    proxy::{Fault, Match, Proxy},
};

use crate::commands::{harness::*, user::*};

const USER: &str = "system:serviceaccount:default:watcher";

/// The watch of a kind that the cluster does not serve fails again and again. Such a failure makes
/// no further look at the whole cluster.
#[tokio::test]
async fn a_watch_without_definitions_looks_only_after_changes() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
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
    // The API server learns of the binding by a watch of its own.
    wait_until("the user has its rights", async || {
        let may = ["auth", "can-i", "*", "*", "--all-namespaces"];
        let answer = control_plane.kubectl_as(&kubeconfig, &may, "").await;
        answer.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let mut watch = Running::weft(&kubeconfig, &["status", "--watch"]);
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
    watch.stdout().wait("there is no NetworkConfig").await;
}

/// Also where a shell has started it with the signal ignored, as scripts do in the background.
#[tokio::test]
async fn ctrl_c_ends_it_at_any_moment() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let proxy = Proxy::start(&control_plane).await.unwrap();

    // While it lists.
    let held = proxy.inject(Match::any().resource("deployments"), Fault::Hold);
    let mut lists = Running::weft(proxy.kubeconfig(), &["status", "--watch"]);
    held.wait_hits(1, PATIENCE).await.unwrap();
    lists.interrupt();
    assert_eq!(lists.ended().await, Some(0));
    held.remove();

    // While it waits, which is no success.
    proxy.clear();
    let mut waits = Running::weft(proxy.kubeconfig(), &["status", "--watch"]);
    waits.stdout().wait("Weft is not installed").await;
    waits.interrupt();
    assert_eq!(waits.ended().await, Some(0));
    let held = proxy.inject(Match::any().resource("deployments"), Fault::Hold);
    let mut waits = Running::weft(proxy.kubeconfig(), &["status", "--wait"]);
    held.wait_hits(1, PATIENCE).await.unwrap();
    waits.interrupt();
    assert_eq!(waits.ended().await, Some(130));
    held.remove();

    // While the API server is away, which does not end it by itself.
    let mut away = Running::weft(proxy.kubeconfig(), &["status", "--watch"]);
    away.stdout().wait("Weft is not installed").await;
    let cut = proxy.inject(Match::any(), Fault::CutBefore);
    proxy.close_watches(&Match::any());
    cut.wait_hits(3, PATIENCE).await.unwrap();
    away.interrupt();
    assert_eq!(away.ended().await, Some(0));
    cut.remove();

    let mut terminal = Terminal::start(proxy.kubeconfig(), control_plane.dir(), "status --watch");
    terminal.wait("Weft is not installed").await;
    terminal.press("\x03");
    assert_eq!(terminal.ended().await, Some(0));
}
