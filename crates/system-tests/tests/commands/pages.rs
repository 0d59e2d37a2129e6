//! The commands of the migration pages, as a user runs them: before, switch, what you will see, way
//! back.

use std::{os::unix::fs::symlink, pin::pin};

use futures::StreamExt;
use kube::{
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::json;
use weft_plan::{ObjectKey, kinds};
use weft_testenv::Programs;

use weft_system_tests::*;

/// A page, and the commands in its sections.
struct Page {
    text: String,
    folder: tempfile::TempDir,
}

impl Page {
    fn read(file: &str) -> Self {
        let path = format!("{}/../../docs/{file}", env!("CARGO_MANIFEST_DIR"));
        let page = Self {
            text: std::fs::read_to_string(path).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        };
        symlink(weft_binary(), page.folder.path().join("weft")).unwrap();
        symlink(
            Programs::find().unwrap().get("kubectl").unwrap(),
            page.folder.path().join("kubectl"),
        )
        .unwrap();
        page
    }

    /// Runs all commands of a section, each by a shell of its own.
    async fn run(&self, cluster: &Cluster, section: &str) {
        let (_, rest) = self
            .text
            .split_once(&format!("# {section}\n"))
            .unwrap_or_else(|| panic!("no section {section}"));
        let section_text = rest.split("\n##").next().unwrap();
        let blocks: Vec<&str> = section_text
            .split("```console\n")
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap())
            .collect();
        assert!(!blocks.is_empty(), "{section} has commands");
        for command in blocks
            .iter()
            .flat_map(|block| block.lines())
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let path = format!(
                "{}:{}",
                self.folder.path().display(),
                std::env::var("PATH").unwrap()
            );
            let mut shell = tokio::process::Command::new("sh");
            shell
                .args(["-c", command])
                .current_dir(self.folder.path())
                .env("PATH", path);
            let output = shell
                .env("KUBECONFIG", cluster.control_plane.kubeconfig())
                .output()
                .await
                .unwrap();
            // 1: something would change.
            let only_looks = command.contains("weft plan") || command.contains("weft migrate");
            let is_well = output.status.success() || only_looks && output.status.code() == Some(1);
            let told = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(is_well, "{section}: {command}: {}\n{told}", output.status);
        }
    }
}

#[tokio::test]
async fn from_cluster_network_addons_operator() {
    let page = Page::read("migrate-from-cnao.md");
    let mut cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    // In the place of Weft's Deployment.
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "deployment", OPERATOR, "--wait"])
        .await;
    let container = json!({
        "name": "cnao", "image": "quay.io/kubevirt/cluster-network-addons-operator:v0.102.0",
        "env": [{"name": "MULTUS_IMAGE", "value": "registry.example/multus:1"}]
    });
    let original = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
        "namespace": NAMESPACE, "name": OPERATOR
    }, "spec": {
        "strategy": {"type": "Recreate"}, "selector": {"matchLabels": {"name": OPERATOR}},
        "template": {
            "metadata": {"labels": {"name": OPERATOR}}, "spec": {"containers": [container]}
        }}});
    cluster.apply(&original.to_string()).await;
    let api = "networkaddonsoperator.network.kubevirt.io/v1alpha1";
    let spec =
        json!({"multus": {}, "linuxBridge": {}, "kubeMacPool": {}, "imagePullPolicy": "Always"});
    let resource = json!({
        "apiVersion": api, "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
        "spec": spec
    });
    cluster.apply(&resource.to_string()).await;

    page.run(&cluster, "Before").await;
    page.run(&cluster, "In the place of CNAO").await;
    cluster.read_operator().await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "create",
            "secret",
            "generic",
            "kubemacpool-service",
        ])
        .await;
    page.run(&cluster, "What you will see").await;
    has_image_of_cnao(&cluster).await;
    operator.terminate().await;
    page.run(&cluster, "Way back").await;
    assert_eq!(
        cluster.resource().await.unwrap()["metadata"].get("finalizers"),
        None
    );

    cluster.apply(&original.to_string()).await;
    page.run(&cluster, "One operator for several APIs").await;
    cluster.operator = ObjectKey::new(kinds::DEPLOYMENT, "weft-system", "weft-operator");
    cluster.read_operator().await;
    let operator = Operator::start_default(&cluster).await;
    page.run(&cluster, "What you will see").await;
    has_image_of_cnao(&cluster).await;
    operator.terminate().await;
    page.run(&cluster, "Back from one operator for several APIs")
        .await;
    assert_eq!(
        cluster.resource().await.unwrap()["metadata"].get("finalizers"),
        None
    );
}

async fn has_image_of_cnao(cluster: &Cluster) {
    let multus = cluster
        .get(kinds::DAEMON_SET, NAMESPACE, "multus")
        .await
        .unwrap();
    let container = &multus["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example/multus:1");
}

#[tokio::test]
async fn from_kubernetes_nmstate() {
    let page = Page::read("migrate-from-kubernetes-nmstate.md");
    let options = ClusterOptions {
        nodes: 1,
        manifests: &["--split", "--domains", "node-network"],
        resource: (kinds::NMSTATE, "nmstate"),
        ..Default::default()
    };
    let cluster = Cluster::start(options).await;
    let (namespace, name) = ("nmstate", "nmstate-operator");
    cluster
        .kubectl(&["-n", namespace, "delete", "deployment", name, "--wait"])
        .await;
    let labels = json!({"name": "kubernetes-nmstate-operator"});
    let container =
        json!({"name": name, "image": "quay.io/nmstate/kubernetes-nmstate-operator:v0.85.0"});
    let original = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
        "namespace": namespace, "name": name
    }, "spec": {
        "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [container]}
        }}});
    cluster.apply(&original.to_string()).await;
    cluster.apply(&example("node-network/nmstate.yaml")).await;
    let policy = json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": "br1"}, "spec": {"desiredState": {}}
    });
    cluster.apply(&policy.to_string()).await;
    cluster.apply(r#"{"apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkState", "metadata": {"name": "node-1"}}"#).await;
    cluster
        .kubectl(&[
            "patch",
            "nns",
            "node-1",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status": {"currentState": {"interfaces": []}}}"#,
        ])
        .await;

    page.run(&cluster, "Before").await;
    page.run(&cluster, "Switch").await;
    let operator = Operator::start_default(&cluster).await;
    tokio::select! {
        () = page.run(&cluster, "What you will see") => {}
        () = play_agent(&cluster) => {}
    }
    cluster
        .kubectl(&["-n", namespace, "scale", "deployment", name, "--replicas=0"])
        .await;
    operator.terminate().await;
    page.run(&cluster, "Way back").await;
    assert_eq!(
        cluster.resource().await.unwrap()["metadata"].get("finalizers"),
        None
    );
}

/// Plays the agent, for ever: it carries out each change at once that the operator grants.
async fn play_agent(cluster: &Cluster) {
    let enactments = cluster.api(kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT, "");
    let watch = watcher(enactments.clone(), watcher::Config::default())
        .default_backoff()
        .applied_objects();
    let mut watch = pin!(watch);
    while let Some(enactment) = watch.next().await {
        // The watch begins again by itself after an error.
        let Ok(enactment) = enactment else { continue };
        let generation = enactment.metadata.generation;
        if enactment.data["status"]["observedGeneration"].as_i64() == generation {
            continue;
        }
        let status = json!({"status": {
            "observedGeneration": generation,
            "policyGeneration": enactment.data["spec"]["wanted"]["generation"],
            "conditions": [{
                "type": "Available", "status": "True", "reason": "SuccessfullyConfigured",
                "message": "successfully reconciled", "observedGeneration": generation
            }]
        }});
        let name = enactment.metadata.name.unwrap();
        let patch = Patch::Merge(status);
        // The operator may have deleted it meanwhile.
        let _ = enactments
            .patch_status(&name, &PatchParams::default(), &patch)
            .await;
    }
}

#[tokio::test]
async fn from_cluster_network_operator() {
    let page = Page::read("migrate-from-cno.md");
    let options = ClusterOptions {
        nodes: 1,
        manifests: &[
            "--split",
            "--domains",
            "cluster-network",
            "--components",
            "openshift-sdn",
        ],
        resource: (kinds::NETWORK_CONFIG, "default"),
        ..Default::default()
    };
    let cluster = Cluster::start(options).await;
    let (namespace, name) = (
        "openshift-cluster-network-operator",
        "cluster-network-operator",
    );
    cluster
        .kubectl(&["-n", namespace, "delete", "daemonset", name, "--wait"])
        .await;
    let labels = json!({"k8s-app": name});
    let image = "docker.io/openshift/origin-cluster-network-operator:v4.0";
    let env = json!([
        {"name": "NODE_IMAGE", "value": "registry.example/node:v4"},
        {"name": "HYPERSHIFT_IMAGE", "value": "registry.example/hypershift:v4"}
    ]);
    let container =
        json!({"name": name, "image": image, "env": env, "command": ["cluster-network-operator"]});
    let original = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {
        "namespace": namespace, "name": name
    }, "spec": {
        "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [container]}
        }}});
    cluster.apply(&original.to_string()).await;
    cluster
        .apply(&example("network-config-openshift-sdn-minimal.yaml"))
        .await;

    page.run(&cluster, "Before").await;
    page.run(&cluster, "Switch").await;
    let images = [
        ("NODE_IMAGE", "registry.example/node:v4"),
        ("HYPERSHIFT_IMAGE", "registry.example/hypershift:v4"),
    ];
    let deployed = cluster.get(kinds::DAEMON_SET, namespace, name).await;
    let container = &deployed.unwrap()["spec"]["template"]["spec"]["containers"][0];
    for (variable, image) in images {
        let taken_over = json!({"name": variable, "value": image});
        let variables = container["env"].as_array().unwrap();
        assert!(variables.contains(&taken_over), "{container:#}");
    }
    // Its arguments name a file of a node.
    let operator = Operator::start(
        &cluster,
        OperatorOptions {
            environment: &images,
            ..Default::default()
        },
    )
    .await;
    page.run(&cluster, "What you will see").await;
    let sdn = cluster.get(kinds::DAEMON_SET, "openshift-sdn", "sdn").await;
    let container = &sdn.unwrap()["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example/node:v4");
    operator.terminate().await;
    page.run(&cluster, "Way back").await;
    assert_eq!(
        cluster.resource().await.unwrap()["metadata"].get("finalizers"),
        None
    );
}

/// The object of a later release is of another group, so Weft does not know the network's objects
/// by their owner.
#[tokio::test]
async fn from_a_cluster_network_operator_that_names_it_cluster() {
    let page = Page::read("migrate-from-cno.md");
    let options = ClusterOptions {
        nodes: 1,
        manifests: &[
            "--split",
            "--domains",
            "cluster-network",
            "--components",
            "openshift-sdn",
        ],
        resource: (kinds::NETWORK_CONFIG, "default"),
        ..Default::default()
    };
    let cluster = Cluster::start(options).await;
    for namespace in ["openshift-network-operator", "openshift-sdn"] {
        cluster.kubectl(&["create", "namespace", namespace]).await;
    }
    cluster.define(&["networks.operator.openshift.io"]).await;
    let owner = json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "Network",
        "metadata": {"name": "cluster"}, "spec": {}
    });
    cluster.apply(&owner.to_string()).await;
    let uid = cluster
        .kubectl(&[
            "get",
            "networks.operator.openshift.io",
            "cluster",
            "-o",
            "jsonpath={.metadata.uid}",
        ])
        .await;
    let owners = json!([
        {
            "apiVersion": "operator.openshift.io/v1", "kind": "Network", "name": "cluster",
            "uid": uid, "controller": true, "blockOwnerDeletion": true
        }
    ]);
    let applied = r#"{"clusterNetwork":[{"cidr":"10.128.0.0/14","hostPrefix":23}],"serviceNetwork":["172.30.0.0/16"],"defaultNetwork":{"type":"OpenShiftSDN","openshiftSDNConfig":{"mode":"NetworkPolicy","vxlanPort":4789,"mtu":8950}},"disableMultiNetwork":false,"deployKubeProxy":false,"kubeProxyConfig":{"bindAddress":"0.0.0.0"},"logLevel":""}"#;
    let labels = json!({"app": "sdn"});
    let pods = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "sdn", "image": "registry.example/old:1"}]}
    });
    let role = |name: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "ownerReferences": owners}, "rules": []
        })
    };
    let binding = |name: &str| {
        let reference =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "ownerReferences": owners}, "roleRef": reference
        })
    };
    let left = [
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "namespace": "openshift-network-operator", "name": "applied-cluster",
                "ownerReferences": owners
            },
            "data": {"applied": applied}
        }),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "namespace": "openshift-sdn", "name": "sdn-config", "ownerReferences": owners
            },
            "data": {"old": "1"}
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"namespace": "openshift-sdn", "name": "sdn", "ownerReferences": owners},
            "spec": {"selector": {"matchLabels": labels}, "template": pods}
        }),
        role("openshift-sdn"),
        role("openshift-sdn-controller"),
        binding("openshift-sdn"),
        binding("openshift-sdn-controller"),
    ];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": left});
    cluster
        .control_plane
        .kubectl_with_input(&["create", "-f", "-"], &list.to_string())
        .await
        .unwrap();

    let images = [
        ("NODE_IMAGE", "registry.example/node:v4"),
        ("HYPERSHIFT_IMAGE", "registry.example/hypershift:v4"),
    ];
    let _operator = Operator::start(
        &cluster,
        OperatorOptions {
            environment: &images,
            ..Default::default()
        },
    )
    .await;
    page.run(&cluster, "Releases that name it cluster").await;

    cluster.wait_available().await;
    let record = cluster
        .get(
            kinds::CONFIG_MAP,
            "openshift-cluster-network-operator",
            "applied-default",
        )
        .await
        .unwrap();
    assert!(
        record["data"]["applied"].as_str().unwrap().contains("8950"),
        "{record:#}"
    );
    // The deletion of the object that owned it all takes nothing along.
    cluster
        .kubectl(&["delete", "networks.operator.openshift.io", "cluster"])
        .await;
    for (kind, name) in [
        (kinds::DAEMON_SET, "sdn"),
        (kinds::CONFIG_MAP, "sdn-config"),
    ] {
        let live = cluster.get(kind, "openshift-sdn", name).await.unwrap();
        assert!(
            live["metadata"]["ownerReferences"].is_null()
                && live["metadata"]["deletionTimestamp"].is_null(),
            "{live:#}"
        );
    }
}

/// As far as the PlacementAPI is Ready, the tests with a real Placement show it: nothing prepares a
/// database here.
#[tokio::test]
async fn from_placement_operator() {
    let page = Page::read("migrate-from-placement-operator.md");
    let options = ClusterOptions {
        nodes: 1,
        manifests: &["--split", "--domains", "placement"],
        resource: (kinds::PLACEMENT_API, "placement"),
        resource_namespace: "openstack",
        ..Default::default()
    };
    let cluster = Cluster::start(options).await;
    let (namespace, name) = (
        "openstack-operators",
        "placement-operator-controller-manager",
    );
    cluster.kubectl(&["create", "namespace", namespace]).await;
    let labels = json!({"openstack.org/operator-name": "placement"});
    let container = json!({
        "name": "manager", "image": "quay.io/openstack-k8s-operators/placement-operator:v0.6.0"
    });
    let original = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
        "namespace": namespace, "name": name
    }, "spec": {
        "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [container]}
        }}});
    cluster.apply(&original.to_string()).await;
    let resource = example("placement/placement.yaml");
    cluster
        .control_plane
        .kubectl_with_input(&["-n", "openstack", "apply", "-f", "-"], &resource)
        .await
        .unwrap();

    page.run(&cluster, "Before").await;
    page.run(&cluster, "Switch").await;
    let operator = Operator::start_default(&cluster).await;
    wait_until("Weft serves it", async || {
        match cluster.resource().await.unwrap()["status"]["conditions"].as_array() {
            Some(conditions) if !conditions.is_empty() => Ok(()),
            _ => Err("it has no status".to_owned()),
        }
    })
    .await;
    page.run(&cluster, "What you will see").await;
    cluster
        .kubectl(&[
            "-n",
            "weft-placement",
            "scale",
            "deployment",
            "weft-placement-operator",
            "--replicas=0",
        ])
        .await;
    operator.terminate().await;
    page.run(&cluster, "Way back").await;
}
