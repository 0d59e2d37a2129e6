//! Never fight: what is another user's stays as it is, and status says what to do.

use serde_json::{Value, json};
use weft_plan::{OWNER_LABEL, kinds};
use weft_testenv::proxy::{Match, Proxy};

use weft_system_tests::*;

const EQUAL: &str = "ovs-cni-marker-cr";
const NAD: &str = "network-attachment-definitions.k8s.cni.cncf.io";

#[tokio::test]
async fn somebody_elses_objects_are_left_until_their_owner_agrees() {
    let cluster = Cluster::start_default().await;
    // Installed by another user, before Weft.
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "multus", "labels": {"app": "theirs"}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    cluster.apply(&role.to_string()).await;
    // This one happens to be what Weft would make: it is another user's all the same.
    let mut equal = render("network-addons-config.yaml")
        .into_iter()
        .find(|object| object["metadata"]["name"] == EQUAL)
        .unwrap();
    equal["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .retain(|label, _| !label.starts_with("networkaddonsoperator."));
    cluster.apply(&equal.to_string()).await;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": NAD},
    "spec": {"group": "k8s.cni.cncf.io", "scope": "Namespaced", "names": {
        "plural": "network-attachment-definitions", "kind": "NetworkAttachmentDefinition"
    },
        "versions": [
            {
                "name": "v1", "served": true, "storage": true,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true
                    }
                }
            }
        ]}});
    cluster.apply(&definition.to_string()).await;
    // Whole, managedFields and resourceVersion too, but the API server reports on definitions.
    let theirs = || async {
        [
            cluster
                .get(kinds::CLUSTER_ROLE, "", "multus")
                .await
                .unwrap(),
            cluster.get(kinds::CLUSTER_ROLE, "", EQUAL).await.unwrap(),
            untimed(
                cluster
                    .get(kinds::CUSTOM_RESOURCE_DEFINITION, "", NAD)
                    .await
                    .unwrap(),
            ),
        ]
    };
    let before = theirs().await;

    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster.play_kubemacpool().await;
    cluster.apply(&example("network-addons-config.yaml")).await;
    let way_out = |name: &str| {
        format!(
            "kubectl annotate clusterroles.rbac.authorization.k8s.io/{name} weft.network/adopt=true"
        )
    };
    let status = wait_until("status says the way out for both roles", async || {
        let status = cluster.status().await;
        let degraded = condition(&status, "Degraded");
        let message = degraded["message"].as_str().unwrap_or_default();
        let says_both = ["multus", EQUAL]
            .into_iter()
            .all(|name| message.contains(&way_out(name)));
        if says_both && degraded["status"] == "True" && degraded["reason"] == "FailedToApply" {
            Ok(status)
        } else {
            Err(format!("{status:#}"))
        }
    })
    .await;
    assert_eq!(condition_status(&status, "Available"), "False");
    // Two components are held up, the others are not.
    let states = wait_until("the other components are Available", async || {
        let status = cluster.status().await;
        let states = states(&status);
        let others = [
            "linuxBridge",
            "kubeMacPool",
            "network-policy",
            "network-attachment-definition",
        ];
        if others
            .iter()
            .all(|name| states[*name]["state"] == "Available")
        {
            Ok(states)
        } else {
            Err(format!("{states:#?}"))
        }
    })
    .await;
    assert_eq!(
        (&states["multus"]["state"], &states["ovs"]["state"]),
        (&json!("Degraded"), &json!("Degraded"))
    );
    let notice = states["network-attachment-definition"]["message"]
        .as_str()
        .unwrap_or_default();
    assert!(
        notice.contains("exists already") && notice.contains("left as it is"),
        "{notice}"
    );
    for workload in ["multus", "ovs-cni-amd64"] {
        assert_eq!(
            cluster.get(kinds::DAEMON_SET, NAMESPACE, workload).await,
            None,
            "no workload without its permissions"
        );
    }

    // They are watched by name meanwhile, so their owner need not wait for the next attempt, 30 s
    // later at worst.
    let watches = || {
        ["multus", EQUAL].map(|name| {
            proxy.open_watches(
                &Match::any()
                    .verb("watch")
                    .resource("clusterroles")
                    .name(name),
            )
        })
    };
    wait_until("the roles are watched", async || {
        (watches() == [1, 1])
            .then_some(())
            .ok_or("they are not".into())
    })
    .await;
    assert_eq!(theirs().await, before, "nothing was written to them");

    // Their owner agrees, and Weft goes on by itself.
    for name in ["multus", EQUAL] {
        cluster
            .kubectl(&[
                "annotate",
                &format!("clusterroles.rbac.authorization.k8s.io/{name}"),
                "weft.network/adopt=true",
            ])
            .await;
    }
    cluster.wait_available().await;
    wait_until("the watches end", async || {
        (watches() == [0, 0])
            .then_some(())
            .ok_or("they are open".into())
    })
    .await;
    let [role, equal, definition] = theirs().await;
    assert_eq!(
        equal["metadata"]["labels"][OWNER_LABEL],
        "networkaddonsconfig.cluster"
    );
    assert_eq!(
        equal["metadata"]["ownerReferences"][0]["kind"],
        "NetworkAddonsConfig"
    );
    assert_eq!(
        role["metadata"]["labels"][OWNER_LABEL],
        "networkaddonsconfig.cluster"
    );
    assert!(
        role["rules"]
            .to_string()
            .contains("network-attachment-definitions"),
        "{role:#}"
    );
    assert_eq!(
        role["metadata"]["labels"]["app"], "theirs",
        "their labels stay theirs"
    );
    assert_eq!(definition, before[2], "the definition is theirs for ever");
}

#[tokio::test]
async fn nothing_is_written_while_the_original_operator_is_there() {
    let cluster = Cluster::start_default().await;
    cluster.kubectl(&["create", "namespace", "cnao"]).await;
    cluster
        .kubectl(&[
            "-n",
            "cnao",
            "create",
            "deployment",
            OPERATOR,
            "--image=quay.io/kubevirt/cluster-network-addons-operator:v0.102.0",
        ])
        .await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster.play_kubemacpool().await;
    cluster.apply(&example("network-addons-config.yaml")).await;
    let command = "kubectl -n cnao delete deployment cluster-network-addons-operator";
    let status = cluster
        .wait_condition("Blocked", "True", "OtherOperatorRunning", command)
        .await;
    let types: Vec<_> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        types,
        ["Blocked", "Ready", "Stalled"],
        "the conditions of the other operator are its own: {status:#}"
    );
    let written: Vec<_> = proxy
        .writes()
        .into_iter()
        .filter(|write| {
            Match::any().writes().selects(&write.info) && write.info.subresource != "status"
        })
        .map(|write| write.info.path)
        .collect();
    assert!(written.is_empty(), "{written:?}");

    // A user does what the message says.
    cluster
        .kubectl(&["-n", "cnao", "delete", "deployment", OPERATOR])
        .await;
    cluster.wait_available().await;

    // It comes back: nothing is repaired any more, so that the two do not fight.
    cluster
        .kubectl(&[
            "-n",
            "cnao",
            "create",
            "deployment",
            OPERATOR,
            "--image=quay.io/kubevirt/cluster-network-addons-operator:v0.102.0",
        ])
        .await;
    cluster
        .wait_condition("Blocked", "True", "OtherOperatorRunning", command)
        .await;
    proxy.clear();
    cluster
        .delete(kinds::DAEMON_SET, NAMESPACE, "bridge-marker")
        .await;
    // The operator has seen the deletion once it has seen what came after it.
    cluster
        .patch_resource(json!({"spec": {"imagePullPolicy": "IfNotPresent"}}))
        .await;
    cluster.wait_observed().await;
    let written: Vec<_> = proxy
        .writes()
        .into_iter()
        .filter(|write| {
            Match::any().writes().selects(&write.info) && write.info.subresource != "status"
        })
        .map(|write| write.info.path)
        .collect();
    assert!(written.is_empty(), "{written:?}");
    cluster
        .kubectl(&["-n", "cnao", "delete", "deployment", OPERATOR])
        .await;
    cluster.wait_available().await;
    assert!(
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "bridge-marker")
            .await
            .is_some()
    );
}

fn untimed(mut object: Value) -> Value {
    // The API server's own controllers report on definitions, and garbage collection looks at
    // nothing of ours.
    object.as_object_mut().unwrap().remove("status");
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|key, _| !matches!(key.as_str(), "managedFields" | "resourceVersion"));
    object
}

fn condition_status(status: &Value, name: &str) -> Value {
    status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == name)
        .map(|condition| condition["status"].clone())
        .unwrap_or_default()
}

fn states(status: &Value) -> Value {
    status["components"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|component| {
            (
                component["name"].as_str().unwrap().to_owned(),
                component.clone(),
            )
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}
