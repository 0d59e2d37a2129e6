//! `weft release`: everything continues to run, and nothing is Weft's any more.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_plan::{OWNER_LABEL, kinds};

use crate::commands::{harness::*, user::*};

#[tokio::test]
async fn everything_continues_to_run_and_nothing_is_wefts() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;

    // The Deployment wants a replica, and an operator leads.
    let refused = weft(&cluster, &["release", "addons", "--yes", "-o", "json"])
        .await
        .ended(2);
    let document = refused.json();
    assert_eq!(
        (&document["verdict"], &document["domains"]),
        (&json!("Refused"), &json!(["addons"]))
    );
    assert!(
        document["error"]
            .as_str()
            .unwrap()
            .contains("stop it first"),
        "{document:#}"
    );
    assert!(
        refused.stderr.contains(&format!(
            "kubectl -n {NAMESPACE} scale deployment {OPERATOR} --replicas=0"
        )),
        "{}",
        refused.stderr
    );
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "scale",
            "deployment",
            OPERATOR,
            "--replicas=0",
        ])
        .await;
    let refused = weft(&cluster, &["release", "addons", "--yes"])
        .await
        .ended(2);
    assert!(
        refused.stderr.contains("leads addons still"),
        "{}",
        refused.stderr
    );
    operator.terminate().await;
    // A Lease that another user has written is no operator.
    cluster.apply(&ghost_lease()).await;
    let unasked = weft(&cluster, &["release", "addons"]).await.ended(2);
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);

    let (before, all) = (running(&cluster).await, cluster.snapshot().await);
    let preview = weft(&cluster, &["release", "addons", "--dry-run"])
        .await
        .ended(0);
    assert!(
        preview
            .stdout
            .contains("would give back DaemonSet cluster-network-addons/multus"),
        "{}",
        preview.stdout
    );
    let passed_over = format!(
        "{}, so no operator is at work. This command deletes the Lease",
        held_by_ghost()
    );
    assert!(preview.stdout.contains(&passed_over), "{}", preview.stdout);
    let document = weft(&cluster, &["release", "addons", "--dry-run", "-o", "json"])
        .await
        .ended(0)
        .json();
    let multus = json!({
        "action": "release", "apiVersion": "apps/v1", "kind": "DaemonSet",
        "namespace": NAMESPACE, "name": "multus", "done": false
    });
    assert!(steps(&document).contains(&multus), "{document:#}");
    assert_same(&all, &cluster.snapshot().await, "a dry run");
    let document = weft(&cluster, &["release", "addons", "--yes", "-o", "json"])
        .await
        .ended(0)
        .json();
    assert_eq!(document["verdict"], "Released");
    assert!(
        steps(&document).iter().all(|step| step["done"] == true),
        "{document:#}"
    );
    let notes = document["notes"].as_array().unwrap();
    assert!(
        notes[0] == passed_over
            && notes[1]
                .as_str()
                .unwrap()
                .contains("Now install the other operator"),
        "{document:#}"
    );

    assert_eq!(
        running(&cluster).await,
        before,
        "no workload and no pod is another one"
    );
    let after = cluster.snapshot().await;
    let mine = |object: &Value| object["metadata"]["labels"].get(OWNER_LABEL).is_some();
    assert!(
        !after.objects.values().any(mine),
        "{:?}",
        after
            .objects
            .iter()
            .filter(|(_, object)| mine(object))
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    );
    let gone: Vec<_> = all
        .objects
        .keys()
        .filter(|name| !after.objects.contains_key(*name))
        .collect();
    assert_eq!(
        gone,
        ["ConfigMap cluster-network-addons/weft-inventory-networkaddonsconfig-cluster"]
    );
    let resource = cluster.resource().await.unwrap();
    assert_eq!(resource["metadata"].get("finalizers"), None);
    let owner = json!([
        {
            "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
            "kind": "NetworkAddonsConfig", "name": "cluster", "uid": resource["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true
        }
    ]);
    for (kind, namespace, name) in [
        (kinds::DAEMON_SET, NAMESPACE, "multus"),
        (kinds::CLUSTER_ROLE, "", "multus"),
        (kinds::CONFIG_MAP, NAMESPACE, "multus-daemon-config"),
    ] {
        assert_eq!(
            cluster.get(kind, namespace, name).await.unwrap()["metadata"]["ownerReferences"],
            owner,
            "{kind} {name}"
        );
    }
    let definition = cluster
        .get(
            kinds::CUSTOM_RESOURCE_DEFINITION,
            "",
            "network-attachment-definitions.k8s.cni.cncf.io",
        )
        .await
        .unwrap();
    assert_eq!(definition["metadata"].get("ownerReferences"), None);
    assert!(
        cluster
            .get(kinds::LEASE, NAMESPACE, "weft-addons")
            .await
            .is_none()
    );

    let again = weft(&cluster, &["release", "addons", "--yes"])
        .await
        .ended(0);
    assert!(
        again.stdout.contains("nothing to give back"),
        "{}",
        again.stdout
    );

    assert_eq!(
        left_of_the_installation(&cluster, OPERATOR).await,
        ["clusterrole", "clusterrolebinding", "role", "rolebinding"]
    );

    // And back: Weft finds all as it was, and restarts nothing.
    cluster
        .apply_manifests(&["--split", "--domains", "addons"])
        .await;
    let _operator = Operator::start_default(&cluster).await;
    wait_until("Weft has it again", async || {
        if cluster.resource().await.unwrap()["metadata"]["finalizers"].is_array() {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    })
    .await;
    cluster.wait_available().await;
    assert_eq!(running(&cluster).await, before);
}

fn steps(document: &Value) -> &[Value] {
    document["objects"].as_array().unwrap()
}

/// The kinds of the roles and bindings of the operator's own name that are left. Fails if others
/// are, or a policy.
pub async fn left_of_the_installation(cluster: &Cluster, operator: &str) -> Vec<String> {
    let kinds = ["clusterrole", "clusterrolebinding", "role", "rolebinding"];
    let mut left = Vec::new();
    for kind in kinds {
        for name in cluster
            .kubectl(&[
                "get",
                kind,
                "-A",
                "-o",
                "jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}",
            ])
            .await
            .lines()
        {
            if name == operator {
                left.push(kind.to_owned());
            } else {
                let is_for_users = ["-view", "-edit"]
                    .iter()
                    .any(|end| name.starts_with("weft-") && name.ends_with(end));
                assert!(
                    !name.starts_with(&format!("{operator}-")) && !is_for_users,
                    "{kind} {name} is left"
                );
            }
        }
    }
    let policies = "validatingadmissionpolicies,validatingadmissionpolicybindings";
    let policies = cluster.kubectl(&["get", policies, "-o", "name"]).await;
    assert!(!policies.contains("/weft-"), "{policies}");
    left
}

/// Workloads by uid and generation, and pods by uid.
async fn running(cluster: &Cluster) -> BTreeMap<String, String> {
    let mut running = BTreeMap::new();
    for kind in [kinds::DAEMON_SET, kinds::DEPLOYMENT, kinds::POD] {
        for object in cluster
            .api(kind, NAMESPACE)
            .list(&Default::default())
            .await
            .unwrap()
        {
            let name = object.metadata.name.clone().unwrap();
            if !name.starts_with(OPERATOR) {
                let generation = if kind == kinds::POD {
                    0
                } else {
                    object.metadata.generation.unwrap()
                };
                running.insert(
                    format!("{kind} {name}"),
                    format!("{} {generation}", object.metadata.uid.unwrap()),
                );
            }
        }
    }
    running
}
