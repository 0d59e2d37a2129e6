//! Errors before the command does anything: a line or two that name the way out.

use std::path::Path;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use weft_testenv::{
    ControlPlane, Programs,
    proxy::{Fault, Match, Proxy},
};

use crate::commands::{harness::*, user::*};

#[tokio::test]
async fn without_a_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    for arguments in [
        &["status"][..],
        &["uninstall", "--yes"],
        &["release", "addons", "--yes"],
    ] {
        let nowhere = run(&missing, arguments, "").await.ended(2);
        assert!(
            nowhere
                .stderr
                .contains("no cluster is configured: set KUBECONFIG, or give --kubeconfig"),
            "{}",
            nowhere.stderr
        );
        assert_eq!(
            (nowhere.stdout.as_str(), nowhere.stderr.lines().count()),
            ("", 1),
            "{}",
            nowhere.stderr
        );
    }
    let named = run(&missing, &["status", "--kubeconfig", "/nowhere/at-all"], "")
        .await
        .ended(2);
    assert!(
        named
            .stderr
            .contains("the kubeconfig /nowhere/at-all cannot be used"),
        "{}",
        named.stderr
    );
}

#[tokio::test]
async fn with_a_cluster_that_does_not_answer_or_does_not_let_us() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let installed = run(control_plane.kubeconfig(), &["status"], "")
        .await
        .ended(1);
    assert!(
        installed
            .stdout
            .contains("Weft is not installed for addons")
            && installed
                .stdout
                .contains("weft manifests --domains addons | kubectl apply -f -"),
        "{}",
        installed.stdout
    );
    let plan = run(
        control_plane.kubeconfig(),
        &["plan", "-f", "-"],
        &example("network-addons-config.yaml"),
    )
    .await
    .ended(2);
    assert!(
        plan.stderr.contains("Weft is not installed"),
        "{}",
        plan.stderr
    );
    run(control_plane.kubeconfig(), &["uninstall", "--yes"], "")
        .await
        .ended(0);

    let context = run(
        control_plane.kubeconfig(),
        &["status", "--context", "other"],
        "",
    )
    .await
    .ended(2);
    assert!(
        context.stderr.contains("other") && context.stderr.contains("kubectl config get-contexts"),
        "{}",
        context.stderr
    );

    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("report.tar.gz");
    for arguments in [
        &["status"][..],
        &["plan", "-f", "-"],
        &["graph"],
        &["migrate", "--check"],
        &["report", "-o", archive.to_str().unwrap()],
        &["release", "addons", "--yes"],
        &["uninstall", "--yes"],
    ] {
        for (namespace, hint) in [
            ("defualt", "; did you mean \"default\"?"),
            ("no/where", ": kubectl get namespaces"),
        ] {
            let unknown = run(
                control_plane.kubeconfig(),
                &[arguments, &["-n", namespace]].concat(),
                &example("network-addons-config.yaml"),
            )
            .await
            .ended(2);
            let message = format!("the cluster has no namespace {namespace:?}{hint}");
            assert!(
                unknown.stderr.contains(&message),
                "{arguments:?}: {}",
                unknown.stderr
            );
        }
    }
    assert!(!archive.exists());

    control_plane
        .kubectl(&["create", "serviceaccount", "nobody"])
        .await
        .unwrap();
    let nobody = control_plane
        .service_account_kubeconfig("default", "nobody")
        .await
        .unwrap();
    let forbidden = run(&nobody, &["status"], "").await.ended(2);
    assert!(
        forbidden.stderr.contains("cannot list resource \"d")
            && forbidden.stderr.contains("in API group \"apps\""),
        "{}",
        forbidden.stderr
    );

    let wrong = rewritten(&nobody, "token:", "    token: wrong");
    let refused = run(&wrong, &["status"], "").await.ended(2);
    assert!(
        refused.stderr.contains("does not accept these credentials"),
        "{}",
        refused.stderr
    );

    // A user who may not read namespaces gets no further than before.
    let unreadable = run(&nobody, &["status", "-n", "nowhere"], "")
        .await
        .ended(2);
    assert!(
        unreadable.stderr.contains("cannot list resource \"d"),
        "{}",
        unreadable.stderr
    );

    let other = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
    let line = format!(
        "    certificate-authority-data: {}",
        STANDARD.encode(other.cert.pem())
    );
    let stranger = rewritten(&nobody, "certificate-authority-data:", &line);
    let stranger = run(&stranger, &["status"], "").await.ended(2);
    assert!(
        stranger
            .stderr
            .contains("is not signed by the CA of the kubeconfig (UnknownIssuer): compare certificate-authority-data"),
        "{}",
        stranger.stderr
    );

    let silent = rewritten(&nobody, "server:", "    server: https://127.0.0.1:1");
    let unreachable = run(&silent, &["status"], "").await.ended(2);
    assert!(
        unreachable
            .stderr
            .contains("the cluster at https://127.0.0.1:1/ cannot be reached"),
        "{}",
        unreachable.stderr
    );
}

/// The API server answers so while it is overloaded, and for a moment after a definition was
/// created.
#[tokio::test]
async fn a_busy_api_server_is_asked_again() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let proxy = Proxy::start(&control_plane).await.unwrap();
    let busy = proxy.inject(
        Match::any().resource("deployments").times(2),
        Fault::too_many_requests(1),
    );
    let status = run(proxy.kubeconfig(), &["status"], "").await.ended(1);
    assert!(
        status.stdout.contains("Weft is not installed for addons"),
        "{}",
        status.stdout
    );
    assert_eq!(busy.hits(), 2);
}

/// As the plugin of a real kubectl, which hands its environment on.
#[tokio::test]
async fn as_a_kubectl_plugin() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(weft_binary(), folder.path().join("kubectl-weft")).unwrap();
    let kubectl = Programs::find().unwrap().get("kubectl").unwrap();
    let mut command = tokio::process::Command::new(kubectl);
    command
        .args(["weft", "status"])
        .env_clear()
        .env("PATH", folder.path())
        .env("KUBECONFIG", control_plane.kubeconfig());
    let output = command.output().await.unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("Weft is not installed for addons"),
        "{output:?}"
    );
}

/// A copy of a kubeconfig with one line replaced.
fn rewritten(kubeconfig: &Path, field: &str, line: &str) -> std::path::PathBuf {
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    let lines: Vec<_> = text
        .lines()
        .map(|old| {
            if old.trim_start().trim_start_matches("- ").starts_with(field) {
                line
            } else {
                old
            }
        })
        .collect();
    assert_ne!(lines.join("\n"), text.trim_end(), "{field} is in {text}");
    let path = kubeconfig.with_extension(field.trim_end_matches(':'));
    std::fs::write(&path, lines.join("\n")).unwrap();
    path
}
