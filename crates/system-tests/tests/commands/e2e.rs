//! The suite refuses what it must not touch, and says why and what to do. kwok plays the nodes, on
//! which nothing runs, so no run here gets beyond the checks.

use std::path::Path;

use weft_system_tests::suite::{Run, run, suite};
use weft_testenv::ControlPlane;

const IMAGES: [&str; 4] = [
    "--image",
    "registry.example/weft:1",
    "--agent-image",
    "registry.example/weft-agent:1",
];

/// Runs the suite with both images and these arguments against a cluster.
async fn refused(cluster: &ControlPlane, kubeconfig: &Path, arguments: &[&str]) -> String {
    let kubectl = cluster.programs().get("kubectl").unwrap();
    let arguments = [&IMAGES, arguments].concat();
    let mut command = suite(kubectl.as_ref(), &arguments);
    command.env("KUBECONFIG", kubeconfig);
    let Run {
        code,
        stdout,
        stderr,
    } = run(command).await;
    assert_eq!(code, Some(2), "{stdout}{stderr}");
    let first = stdout.lines().next().unwrap_or_default();
    assert!(
        first.contains("context '") && first.contains(cluster.url()),
        "{first}"
    );
    // Nothing is written before the checks are over.
    let marked = cluster
        .kubectl(&["get", "namespaces", "-o", "name"])
        .await
        .unwrap();
    assert!(!marked.contains("weft"), "{marked}");
    stderr
}

#[track_caller]
fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
}

#[tokio::test]
async fn wrong_command_lines_are_refused_with_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("kubeconfig");
    let cluster = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: a, user: {token: a}}]\n";
    std::fs::write(&nowhere, cluster).unwrap();
    let nowhere = nowhere.to_str().unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let several = format!("{nowhere}:{nowhere}");
    let programs = weft_testenv::Programs::find().unwrap();
    let kubectl = programs.get("kubectl").unwrap();
    for (arguments, words) in [
        (
            vec![],
            vec!["KUBECONFIG is not set", "no default", "KUBECONFIG=$HOME"],
        ),
        (
            vec!["--kubeconfig", "/nowhere/at/all"],
            vec!["/nowhere/at/all", "cannot be read", "Name a kubeconfig"],
        ),
        (
            vec!["--kubeconfig", &several],
            vec!["several files", "Name one file"],
        ),
        (
            vec!["--kubeconfig", empty.to_str().unwrap()],
            vec!["no kubeconfig with a current context", "use-context"],
        ),
        (
            vec!["--kubeconfig", nowhere],
            vec!["IMAGE is not set", "make images"],
        ),
        (
            vec![
                "--kubeconfig",
                nowhere,
                "--image",
                "registry.example/weft:1",
            ],
            vec!["AGENT_IMAGE is not set", "DOMAINS=addons"],
        ),
        (
            vec![
                "--kubeconfig",
                nowhere,
                "--image",
                "Not An Image",
                "--domains",
                "addons",
            ],
            vec!["Not An Image"],
        ),
        (
            vec!["--kubeconfig", nowhere, "--installed"],
            vec!["--installed", "DOMAINS=addons"],
        ),
        (
            vec![
                "--kubeconfig",
                nowhere,
                "--installed",
                "--domains",
                "addons",
            ],
            vec!["does not answer", "127.0.0.1:1"],
        ),
        (
            vec!["--kubeconfig", nowhere, "--domains", "storage"],
            vec!["storage", "addons", "node-network"],
        ),
        (
            vec!["--kubeconfig", nowhere, "--domains", "placement"],
            vec!["MariaDB", "make test-placement"],
        ),
        (
            vec!["--kubeconfig", nowhere, "--domains", "cluster-network"],
            vec!["without a network", "make test-nodes"],
        ),
        (
            vec![
                "--kubeconfig",
                nowhere,
                "--domains",
                "addons",
                "--image",
                "registry.example/weft:1",
                "--component-images",
                "multus",
            ],
            vec!["COMPONENT_IMAGES", "NAME=IMAGE", "multus="],
        ),
        (
            vec![
                "--kubeconfig",
                nowhere,
                "--domains",
                "addons",
                "--image",
                "registry.example/weft:1",
            ],
            vec!["does not answer", "127.0.0.1:1", "Check the server"],
        ),
    ] {
        let ended = run(suite(kubectl.as_ref(), &arguments)).await;
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert_says(&ended.stderr, &words);
    }
}

#[tokio::test]
async fn clusters_in_use_and_users_without_rights_are_refused() {
    let cluster = ControlPlane::builder().nodes(2).lend().await.unwrap();
    let admin = cluster.kubeconfig().to_owned();
    let kubectl = async |arguments: &[&str]| cluster.kubectl(arguments).await.unwrap();

    // Nobody uses it. Only its nodes are in the way.
    let said = refused(&cluster, &admin, &[]).await;
    assert_says(&said, &["none of the 2 nodes", "kubectl get nodes"]);

    // There is no operator that a run could test.
    let installed = ["--installed", "--domains", "addons"];
    let said = refused(&cluster, &admin, &installed).await;
    assert_says(&said, &["no operator of Weft", "weft manifests", "IMAGE"]);

    // A user who may only look.
    kubectl(&["create", "serviceaccount", "viewer", "-n", "kube-system"]).await;
    kubectl(&[
        "create",
        "clusterrolebinding",
        "viewer",
        "--clusterrole=view",
        "--serviceaccount=kube-system:viewer",
    ])
    .await;
    let viewer = cluster
        .service_account_kubeconfig("kube-system", "viewer")
        .await
        .unwrap();
    let said = refused(&cluster, &viewer, &[]).await;
    assert_says(
        &said,
        &[
            "create namespaces",
            "escalate clusterroles",
            "cluster-admin",
            "Nothing was written",
        ],
    );

    // Pods of others, and many nodes: --yes accepts both.
    kubectl(&["create", "namespace", "shop"]).await;
    kubectl(&[
        "create",
        "deployment",
        "web",
        "-n",
        "shop",
        "--image=registry.example/web:1",
        "--replicas=3",
    ])
    .await;
    kubectl(&[
        "wait",
        "deployment/web",
        "-n",
        "shop",
        "--for=condition=Available",
        "--timeout=60s",
    ])
    .await;
    let said = refused(&cluster, &admin, &["--max-nodes", "1"]).await;
    assert_says(
        &said,
        &[
            "3 pods in the namespace shop",
            "2 nodes, more than --max-nodes 1",
            "--yes",
        ],
    );
    let said = refused(&cluster, &admin, &["--max-nodes", "1", "--yes"]).await;
    assert_says(&said, &["none of the 2 nodes"]);

    // An operator of the originals: no option permits that.
    kubectl(&[
        "create",
        "deployment",
        "nmstate-operator",
        "-n",
        "shop",
        "--image=registry.example/x:1",
    ])
    .await;
    let said = refused(&cluster, &admin, &["--yes"]).await;
    assert_says(
        &said,
        &[
            "Deployment shop/nmstate-operator",
            "Use another cluster",
            "No option",
        ],
    );
    kubectl(&["delete", "deployment", "nmstate-operator", "-n", "shop"]).await;

    // A definition of the APIs without and with a resource.
    let crds = std::process::Command::new(weft_system_tests::suite::weft())
        .arg("crds")
        .output()
        .unwrap();
    let crds = String::from_utf8(crds.stdout).unwrap();
    cluster
        .kubectl_with_input(&["apply", "-f", "-"], &crds)
        .await
        .unwrap();
    cluster.wait_served().await;
    let said = refused(&cluster, &admin, &["--yes"]).await;
    assert_says(&said, &["the definition nmstates.nmstate.io", "Delete it"]);
    let nmstate = "apiVersion: nmstate.io/v1\nkind: NMState\nmetadata: {name: mine}\n";
    cluster
        .kubectl_with_input(&["apply", "-f", "-"], nmstate)
        .await
        .unwrap();
    let said = refused(&cluster, &admin, &["--yes"]).await;
    assert_says(&said, &["NMState mine"]);
}
