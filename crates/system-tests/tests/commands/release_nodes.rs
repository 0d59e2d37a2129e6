//! `weft release node-network`: the agents go on running, and kubernetes-nmstate finds nothing that
//! is in its way.

use std::collections::BTreeMap;

use kube::api::ListParams;
use serde_json::{Value, json};
use weft_plan::{OWNER_LABEL, kinds};

use crate::commands::{harness::*, release::left_of_the_installation, user::*};

const NAMESPACE: &str = "nmstate";
const AGENT: &str = "nmstate-handler";
const MANIFESTS: [&str; 3] = ["--split", "--domains", "node-network"];

#[tokio::test]
async fn the_nodes_networks_are_given_back_and_taken_again() {
    let options = ClusterOptions {
        manifests: &MANIFESTS,
        resource: (kinds::NMSTATE, "nmstate"),
        ..Default::default()
    };
    let cluster = Cluster::start(options).await;
    let operator = Operator::start_default(&cluster).await;
    cluster.apply(&example("node-network/nmstate.yaml")).await;
    cluster.wait_available().await;
    cluster.apply("{apiVersion: nmstate.io/v1, kind: NodeNetworkConfigurationPolicy, metadata: {name: br1}, spec: {onDelete: revert, desiredState: {}}}").await;
    wait_until("nodes have the policy", async || {
        let enactments = cluster.kubectl(&["get", "nnce", "-o", "name"]).await;
        if enactments.is_empty() {
            Err("none has".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
    let finalizers = async || {
        cluster
            .kubectl(&[
                "get",
                "nncp",
                "br1",
                "-o",
                "jsonpath={.metadata.finalizers}",
            ])
            .await
    };
    assert_eq!(finalizers().await, "[\"weft.network/revert\"]");

    let refused = weft(&cluster, &["release", "node-network", "--yes"])
        .await
        .ended(2);
    assert!(
        refused
            .stderr
            .contains("kubectl -n nmstate scale deployment nmstate-operator --replicas=0"),
        "{}",
        refused.stderr
    );
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "deployment", "nmstate-operator"])
        .await;
    operator.terminate().await;

    // An agent of kubernetes-nmstate makes its enactments by itself, under the same account.
    cluster
        .kubectl(&[
            "create",
            "clusterrole",
            "theirs",
            "--verb=create,get,patch",
            "--resource=nodenetworkconfigurationenactments.nmstate.io",
        ])
        .await;
    cluster
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "theirs",
            "--clusterrole=theirs",
            &format!("--serviceaccount={NAMESPACE}:{AGENT}"),
        ])
        .await;
    let kubeconfig = cluster
        .control_plane
        .node_kubeconfig_via(cluster.control_plane.url(), NAMESPACE, AGENT, "node-1")
        .await
        .unwrap();
    let theirs = json!({
        "apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkConfigurationEnactment",
        "metadata": {
            "name": "node-1.theirs",
            "labels": {"nmstate.io/policy": "theirs", "nmstate.io/node": "node-1"}
        }
    })
    .to_string();
    let make = async || {
        let arguments = [
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
            "create",
            "-f",
            "-",
        ];
        cluster
            .control_plane
            .kubectl_with_input(&arguments, &theirs)
            .await
    };
    // Until the API server knows the role, it refuses for want of that.
    wait_until("the policy refuses it", async || {
        let refused = make().await.unwrap_err().to_string();
        if refused.contains("weft-node-network-agents") {
            Ok(())
        } else {
            Err(refused)
        }
    })
    .await;

    let (before, all) = (running(&cluster).await, cluster.snapshot().await);
    assert!(
        before.keys().any(|name| name.starts_with("Pod ")),
        "{before:#?}"
    );
    let preview = weft(&cluster, &["release", "node-network", "--dry-run"])
        .await
        .ended(0);
    for line in [
        "would give back NodeNetworkConfigurationPolicy br1\n",
        "would give back DaemonSet nmstate/nmstate-handler\n",
        "would remove ValidatingAdmissionPolicy weft-node-network-agents\n",
    ] {
        assert!(preview.stdout.contains(line), "{line}: {}", preview.stdout);
    }
    assert_same(&all, &cluster.snapshot().await, "a dry run");
    weft(&cluster, &["release", "node-network", "--yes"])
        .await
        .ended(0);

    assert_eq!(running(&cluster).await, before, "no agent is another one");
    let after = cluster.snapshot().await;
    let marked = |object: &Value| object["metadata"]["labels"].get(OWNER_LABEL).is_some();
    let left: Vec<_> = after
        .objects
        .iter()
        .filter(|(_, object)| marked(object))
        .map(|(name, _)| name)
        .collect();
    assert!(left.is_empty(), "still Weft's: {left:#?}");
    let gone: Vec<_> = all
        .objects
        .keys()
        .filter(|name| !after.objects.contains_key(*name))
        .collect();
    assert_eq!(gone, ["ConfigMap nmstate/weft-inventory-nmstate-nmstate"]);
    let resource = cluster.resource().await.unwrap();
    assert_eq!(resource["metadata"].get("finalizers"), None);
    let owner = json!([
        {
            "apiVersion": "nmstate.io/v1", "kind": "NMState", "name": "nmstate",
            "uid": resource["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true
        }
    ]);
    assert_eq!(
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, AGENT)
            .await
            .unwrap()["metadata"]["ownerReferences"],
        owner
    );
    assert_eq!(finalizers().await, "");
    wait_until("their agent may make enactments", async || {
        make().await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let again = weft(&cluster, &["release", "node-network", "--yes"])
        .await
        .ended(0);
    assert!(
        again.stdout.contains("nothing to give back"),
        "{}",
        again.stdout
    );

    assert_eq!(
        left_of_the_installation(&cluster, "nmstate-operator").await,
        ["clusterrole", "clusterrolebinding", "role", "rolebinding"]
    );

    // And back: Weft finds all as it was, and restarts nothing.
    cluster.kubectl(&["delete", "nnce", "node-1.theirs"]).await;
    cluster.apply_manifests(&MANIFESTS).await;
    let _operator = Operator::start_default(&cluster).await;
    wait_until("Weft has it again", async || {
        let has = !cluster.resource().await.unwrap()["metadata"]["finalizers"].is_null()
            && !finalizers().await.is_empty();
        if has {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    })
    .await;
    cluster.wait_available().await;
    assert_eq!(running(&cluster).await, before);
}

/// The agents: their DaemonSet by uid and generation, their pods by uid.
async fn running(cluster: &Cluster) -> BTreeMap<String, String> {
    let mut running = BTreeMap::new();
    for kind in [kinds::DAEMON_SET, kinds::POD] {
        let agents = ListParams::default().labels("component=kubernetes-nmstate-handler");
        for object in cluster.api(kind, NAMESPACE).list(&agents).await.unwrap() {
            let generation = if kind == kinds::POD {
                0
            } else {
                object.metadata.generation.unwrap()
            };
            running.insert(
                format!("{} {}", kind.kind, object.metadata.name.unwrap()),
                format!("{} {generation}", object.metadata.uid.unwrap()),
            );
        }
    }
    running
}
