//! Writes that an agent may make, by its token. Here RBAC lets agents write everything of
//! nmstate.io, so what is refused is refused by the policy.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weft_testenv::{ControlPlane, Lent};

use super::cluster::{ADMISSION, apply, deploy, read, refused_in_time, with_definitions};

const NAMESPACE: &str = "somewhere";

/// Two nodes with what the operator makes for each, the agents' account in a namespace of any name,
/// and a pod of it on node-a.
async fn two_nodes() -> Lent {
    let cluster = with_definitions().await;
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    let enactment = |node: &str| {
        json!({
            "apiVersion": "nmstate.io/v1beta1",
            "kind": "NodeNetworkConfigurationEnactment",
            "metadata": {
                "name": format!("{node}.br1"),
                "labels": {"nmstate.io/node": node, "nmstate.io/policy": "br1"}
            },
            "spec": {
                "policy": "br1", "nodeName": node,
                "wanted": {"generation": 1, "decision": "Pending"}
            },
        })
    };
    // As kubernetes-nmstate makes it: labels, and no specification.
    let mut old = enactment("node-a");
    old["metadata"]["name"] = json!("node-a.old");
    old["metadata"]["labels"]["nmstate.io/policy"] = json!("old");
    old.as_object_mut().unwrap().remove("spec");
    // Nobody makes such a one: what names two nodes belongs to no agent.
    let mut torn = enactment("node-a");
    torn["metadata"]["name"] = json!("node-a.torn");
    torn["spec"]["nodeName"] = json!("node-b");
    let account = json!({"name": "nmstate-handler", "namespace": NAMESPACE});
    let made = json!({"apiVersion": "v1", "kind": "List", "items": [
        node("node-a"),
        node("node-b"),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "other", "namespace": NAMESPACE}
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "everything"},
            "rules": [{"apiGroups": ["nmstate.io"], "resources": ["*"], "verbs": ["*"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "everything"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "everything"
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": "nmstate-handler", "namespace": NAMESPACE},
                {"kind": "ServiceAccount", "name": "other", "namespace": NAMESPACE},
            ],
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "agent", "namespace": NAMESPACE},
            "spec": {
                "serviceAccountName": "nmstate-handler", "nodeName": "node-a",
                "containers": [{"name": "agent", "image": "agent"}]
            },
        },
        enactment("node-a"), enactment("node-b"), old, torn,
    ]});
    cluster
        .kubectl_with_input(&["create", "-f", "-"], &made.to_string())
        .await
        .unwrap();
    apply(&cluster, &deploy(ADMISSION)).await;
    // Once this is refused, the policy is in force.
    let unbound = cluster
        .service_account_kubeconfig(NAMESPACE, "nmstate-handler")
        .await
        .unwrap();
    refused_in_time(
        async || write(&cluster, &unbound, &create(&state("node-a"))).await,
        "a token that is bound to its node",
    )
    .await;
    cluster
}

/// A write: arguments of kubectl and its input.
struct Write {
    args: Vec<String>,
    input: String,
}

fn create(object: &Value) -> Write {
    Write {
        args: ["create", "--dry-run=server", "-f", "-"]
            .map(str::to_owned)
            .to_vec(),
        input: object.to_string(),
    }
}

fn patch(resource: &str, name: &str, subresource: Option<&str>, patch: &Value) -> Write {
    let mut args = ["patch", resource, name, "--type=merge", "-p"]
        .map(str::to_owned)
        .to_vec();
    args.push(patch.to_string());
    args.extend(subresource.map(|subresource| format!("--subresource={subresource}")));
    Write {
        args,
        input: String::new(),
    }
}

fn delete(resource: &str, name: &str) -> Write {
    Write {
        args: ["delete", "--dry-run=server", resource, name]
            .map(str::to_owned)
            .to_vec(),
        input: String::new(),
    }
}

async fn write(cluster: &ControlPlane, as_: &Path, write: &Write) -> Result<String, String> {
    let args: Vec<_> = write.args.iter().map(String::as_str).collect();
    cluster
        .kubectl_as(as_, &args, &write.input)
        .await
        .map_err(|error| error.to_string())
}

fn state(name: &str) -> Value {
    json!({
        "apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkState", "metadata": {"name": name}
    })
}

/// Both tokens that an agent of node-a may have: its pod's, and one bound to the node itself.
async fn tokens(cluster: &ControlPlane) -> [PathBuf; 2] {
    let of_pod = cluster.pod_kubeconfig(NAMESPACE, "agent").await.unwrap();
    let of_node = cluster
        .node_kubeconfig_via(cluster.url(), NAMESPACE, "nmstate-handler", "node-a")
        .await
        .unwrap();
    [of_pod, of_node]
}

#[tokio::test]
async fn an_agent_writes_what_is_its_nodes_and_nothing_else() {
    let cluster = two_nodes().await;
    let status = json!({"status": {"observedGeneration": 1}});
    let own = "may write the NodeNetworkState of that node only";
    let theirs = "may write the status of enactments of that node only";
    for node in ["node-a", "node-b"] {
        let mut wanted = state(node);
        wanted["spec"] = json!({"desiredState": {"interfaces": [{"name": "eth1"}]}});
        cluster
            .kubectl_with_input(&["create", "-f", "-"], &wanted.to_string())
            .await
            .unwrap();
    }
    let mut with_wishes = state("node-c");
    with_wishes["spec"] = json!({"managed": false});
    for token in tokens(&cluster).await {
        let allowed = [
            patch("nns", "node-a", Some("status"), &status),
            patch(
                "nns",
                "node-a",
                None,
                &json!({"metadata": {"labels": {"a": "b"}}}),
            ),
            delete("nns", "node-a"),
            patch("nnce", "node-a.br1", Some("status"), &status),
            patch("nnce", "node-a.old", Some("status"), &status),
        ];
        for allowed in allowed {
            let result = write(&cluster, &token, &allowed).await;
            assert!(result.is_ok(), "{:?}: {result:?}", allowed.args);
        }
        let refused = [
            (patch("nns", "node-b", Some("status"), &status), own),
            (
                patch(
                    "nns",
                    "node-b",
                    None,
                    &json!({"metadata": {"labels": {"a": "b"}}}),
                ),
                own,
            ),
            (delete("nns", "node-b"), own),
            (create(&state("node-c")), own),
            (create(&with_wishes), own),
            (
                patch("nns", "node-a", None, &json!({"spec": {"managed": false}})),
                "written by people",
            ),
            (
                patch("nns", "node-a", None, &json!({"spec": null})),
                "written by people",
            ),
            (patch("nnce", "node-b.br1", Some("status"), &status), theirs),
            (
                patch("nnce", "node-a.torn", Some("status"), &status),
                theirs,
            ),
            (
                patch(
                    "nnce",
                    "node-a.br1",
                    None,
                    &json!({"spec": {"wanted": {"decision": "Granted"}}}),
                ),
                "the operator makes and deletes them",
            ),
            (
                patch(
                    "nnce",
                    "node-a.br1",
                    None,
                    &json!({"metadata": {"labels": {"nmstate.io/node": "node-b"}}}),
                ),
                "the operator makes",
            ),
            (
                delete("nnce", "node-a.br1"),
                "the operator makes and deletes them",
            ),
        ];
        for (refused, words) in refused {
            let error = write(&cluster, &token, &refused).await.unwrap_err();
            assert!(error.contains(words), "{:?}: {error}", refused.args);
        }
    }
    let read = read(&cluster, "nnce", "node-b.br1").await;
    assert_eq!(read.get("status"), None, "{read}");
}

/// The agent makes the report of its own node, empty of wishes.
#[tokio::test]
async fn an_agent_makes_the_report_of_its_node() {
    let cluster = two_nodes().await;
    let mut empty = state("node-a");
    empty["spec"] = json!({});
    let mut with_wishes = state("node-a");
    with_wishes["spec"] = json!({"managed": false});
    for token in tokens(&cluster).await {
        for report in [&state("node-a"), &empty] {
            write(&cluster, &token, &create(report)).await.unwrap();
        }
        let error = write(&cluster, &token, &create(&with_wishes))
            .await
            .unwrap_err();
        assert!(error.contains("written by people"), "{error}");
    }
}

/// Others are bound by RBAC alone: the operator, people, another account in the agents' namespace.
#[tokio::test]
async fn nobody_else_is_concerned() {
    let cluster = two_nodes().await;
    let other = cluster
        .service_account_kubeconfig(NAMESPACE, "other")
        .await
        .unwrap();
    for node in ["node-a", "node-b"] {
        let mut state = state(node);
        state["spec"] = json!({"managed": false});
        for as_ in [other.as_path(), cluster.kubeconfig()] {
            write(&cluster, as_, &create(&state)).await.unwrap();
            write(
                &cluster,
                as_,
                &patch(
                    "nnce",
                    &format!("{node}.br1"),
                    None,
                    &json!({"spec": {"wanted": {"decision": "Granted"}}}),
                ),
            )
            .await
            .unwrap();
            write(&cluster, as_, &delete("nnce", &format!("{node}.br1")))
                .await
                .unwrap();
        }
    }
}
