//! `weft manifests` on a real control plane: it installs with plain kubectl, the operator's pod is
//! admitted, and its permissions are enough for all that it deploys, and for little else.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use weft_system_tests::{
    command_line::{objects, printed, root, title, weft},
    wait_until,
};
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
    let cluster = ControlPlane::builder().nodes(1).lend().await.unwrap();
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

/// Installs the operator for a network that is in use, and then for add-ons alone, which
/// `weft manifests` warns about.
async fn install_the_network_and_leave_it_out(cluster: &ControlPlane) {
    let options = [
        "--api-server",
        "https://192.0.2.1:6443",
        "--operand-images",
        "FLANNEL_IMAGE=localhost/flannel:test",
    ];
    let network = ["manifests", "--domains", "cluster-network"];
    install(cluster, &[&network[..], &options].concat()).await;
    cluster.wait_served().await;
    let addons = ["manifests", "--components", "multus"];
    let offline = weft(Path::new("."), &addons);
    let kubeconfig = cluster.kubeconfig().to_str().unwrap();
    let online = [&addons[..], &["--kubeconfig", kubeconfig]].concat();
    // Nothing needs a domain without a resource.
    assert_eq!(weft(Path::new("."), &online).stderr, offline.stderr);
    let file = root().join("examples/network-config-flannel.yaml");
    cluster
        .kubectl(&["apply", "-f", file.to_str().unwrap()])
        .await
        .unwrap();
    let keeps = format!(
        "weft manifests --domains addons,cluster-network --api-server {} --components multus --operand-images {} | kubectl apply -f -",
        options[1], options[3]
    );
    // On a busy machine, the cluster may not answer in time.
    wait_until("the command warns", async || {
        let run = weft(Path::new("."), &online);
        assert_eq!((run.code, &run.stdout), (0, &offline.stdout));
        let is_warned = run.stderr.contains("NetworkConfig default") && run.stderr.contains(&keeps);
        is_warned.then_some(()).ok_or(run.stderr)
    })
    .await;
    install(cluster, &addons).await;
}

#[tokio::test]
async fn a_single_operator_runs_restricted_and_reaches_its_operands() {
    let cluster = ControlPlane::builder().nodes(1).lend().await.unwrap();
    install_the_network_and_leave_it_out(&cluster).await;
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
    let rendered = weft_system_tests::command_line::weft_with_stdin(
        Path::new("."),
        &["render", "-f", "-"],
        configuration,
    )
    .stdout;
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

    // The policy of the network is still there. It stops neither add-ons nor what comes later.
    cluster
        .kubectl(&["create", "namespace", "lab"])
        .await
        .unwrap();
    install(
        &cluster,
        &[
            "manifests",
            "--domains",
            "placement",
            "--placement-namespaces",
            "lab",
        ],
    )
    .await;
    let writes = async |namespace: &str| {
        let create = ["create", "serviceaccount", "a", "--dry-run=server"];
        let arguments = [&create[..], &["-n", namespace]].concat();
        let written = cluster.kubectl_as(&kubeconfig, &arguments, "").await;
        written.map_err(|error| format!("{error:#}"))
    };
    wait_until("the policy counts", async || {
        match writes("default").await {
            Err(error) if error.contains("in the namespaces of its networks only") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    for namespace in ["lab", "cluster-network-addons"] {
        wait_until("the operator may write", async || writes(namespace).await).await;
    }
}
