//! `weft manifests` on a real control plane: it installs with plain kubectl, the operator's pod is
//! admitted, and its permissions are enough for all that it deploys, and for little else.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use common::{objects, printed, root, title};
use weft_testenv::ControlPlane;

async fn install(cluster: &ControlPlane, arguments: &[&str]) -> String {
    cluster
        .kubectl_with_input(&["apply", "-f", "-"], &printed(arguments))
        .await
        .unwrap()
}

/// Waits until kubectl prints this.
async fn wait_for(cluster: &ControlPlane, arguments: &[&str], expected: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let output = cluster.kubectl(arguments).await.unwrap();
        if output.trim() == expected {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "kubectl {arguments:?} prints {output:?}, not {expected:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn can(cluster: &ControlPlane, kubeconfig: &Path, arguments: &[&str]) -> bool {
    let arguments: Vec<&str> = ["auth", "can-i"].iter().chain(arguments).copied().collect();
    // kubectl says no by its exit code as well.
    cluster
        .kubectl_as(kubeconfig, &arguments, "")
        .await
        .is_ok_and(|answer| answer.trim() == "yes")
}

#[tokio::test]
async fn the_operator_can_deploy_everything_and_take_it_away_again() {
    let cluster = ControlPlane::builder().nodes(1).start().await.unwrap();
    install(&cluster, &["manifests", "--split", "--domains", "addons"]).await;
    // kubectl calls an object configured where the server leaves an empty value out. It is not
    // changed by that.
    install(&cluster, &["manifests", "--split", "--domains", "addons"]).await;
    let kinds = "crds,clusterroles,deployments,validatingadmissionpolicies,validatingadmissionpolicybindings";
    let generations = cluster
        .kubectl(&[
            "get",
            kinds,
            "-A",
            "-o",
            "jsonpath={.items[*].metadata.generation}",
        ])
        .await
        .unwrap();
    assert!(
        generations.split_whitespace().count() >= 4
            && generations
                .split_whitespace()
                .all(|generation| generation == "1"),
        "{generations}"
    );

    let namespace = "cluster-network-addons";
    wait_for(
        &cluster,
        &[
            "get",
            "deployment",
            "cluster-network-addons-operator",
            "-n",
            namespace,
            "-o",
            "jsonpath={.status.readyReplicas}",
        ],
        "1",
    )
    .await;

    let kubeconfig = cluster
        .service_account_kubeconfig(namespace, "cluster-network-addons-operator")
        .await
        .unwrap();
    let rendered = printed(&[
        "render",
        "-f",
        root().join("deploy/addons/example.yaml").to_str().unwrap(),
    ]);
    let applied = cluster
        .kubectl_as(
            &kubeconfig,
            &[
                "apply",
                "--server-side",
                "--force-conflicts",
                "--field-manager",
                "weft/addons",
                "-f",
                "-",
            ],
            &rendered,
        )
        .await
        .unwrap();
    assert_eq!(
        applied.lines().count(),
        objects(&rendered).len(),
        "{applied}"
    );

    let kept = ["Namespace", "CustomResourceDefinition"];
    let removed: Vec<_> = objects(&rendered)
        .into_iter()
        .filter(|object| !kept.contains(&object["kind"].as_str().unwrap()))
        .collect();
    for object in &removed {
        cluster
            .kubectl_as(
                &kubeconfig,
                &["delete", "--wait=false", "-f", "-"],
                &object.to_string(),
            )
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", title(object)));
    }

    for allowed in [
        &["patch", "networkaddonsconfigs", "--subresource=status"][..],
        &["update", "leases", "-n", namespace],
        &["create", "events.events.k8s.io", "-n", "default"],
    ] {
        assert!(can(&cluster, &kubeconfig, allowed).await, "{allowed:?}");
    }
    for refused in [
        &["create", "pods", "-n", "kube-system"][..],
        &["delete", "clusterrole/admin"],
        &["bind", "clusterrole/cluster-admin"],
        &["escalate", "clusterroles"],
        &[
            "delete",
            "customresourcedefinition/network-attachment-definitions.k8s.cni.cncf.io",
        ],
        &["delete", "namespace/cluster-network-addons"],
        &["patch", "deployments", "-n", "kube-system"],
        &["delete", "networkaddonsconfigs"],
    ] {
        assert!(!can(&cluster, &kubeconfig, refused).await, "{refused:?}");
    }
}

#[tokio::test]
async fn a_single_operator_runs_restricted_and_reaches_its_operands() {
    let cluster = ControlPlane::builder().nodes(1).start().await.unwrap();
    install(&cluster, &["manifests", "--components", "multus"]).await;
    wait_for(
        &cluster,
        &[
            "get",
            "deployment",
            "weft-operator",
            "-n",
            "weft-system",
            "-o",
            "jsonpath={.status.readyReplicas}",
        ],
        "1",
    )
    .await;

    let kubeconfig = cluster
        .service_account_kubeconfig("weft-system", "weft-operator")
        .await
        .unwrap();
    let configuration = "apiVersion: networkaddonsoperator.network.kubevirt.io/v1\nkind: NetworkAddonsConfig\nmetadata: {name: cluster}\nspec: {multus: {}}\n";
    let rendered =
        common::weft_with_stdin(Path::new("."), &["render", "-f", "-"], configuration).stdout;
    let applied = cluster
        .kubectl_as(
            &kubeconfig,
            &[
                "apply",
                "--server-side",
                "--force-conflicts",
                "--field-manager",
                "weft/addons",
                "-f",
                "-",
            ],
            &rendered,
        )
        .await
        .unwrap();
    assert_eq!(
        applied.lines().count(),
        objects(&rendered).len(),
        "{applied}"
    );
    // A component that was not chosen gets no rights.
    assert!(!can(&cluster, &kubeconfig, &["get", "secrets", "-A"]).await);
    assert!(
        !can(
            &cluster,
            &kubeconfig,
            &["delete", "mutatingwebhookconfiguration/kubemacpool-mutator"]
        )
        .await
    );
}
