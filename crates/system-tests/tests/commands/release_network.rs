//! `weft release cluster-network`: the network goes on untouched, nothing is Weft's any more, and
//! Weft finds it again.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_plan::{OWNER_LABEL, kinds};

use crate::commands::{harness::*, release::left_of_the_installation, user::*};

const NAMESPACE: &str = "openshift-cluster-network-operator";
const OPERATOR: &str = "cluster-network-operator";
const INVENTORY: &str =
    "ConfigMap openshift-cluster-network-operator/weft-inventory-networkconfig-default";
const MANIFESTS: [&str; 3] = ["--split", "--domains", "cluster-network"];

#[tokio::test]
async fn flannel_with_kube_proxy_and_back() {
    there_and_back("network-config-flannel.yaml", "kube-flannel").await;
}

#[tokio::test]
async fn openshift_sdn_and_back() {
    there_and_back("network-config-openshift-sdn.yaml", "openshift-sdn").await;
}

async fn there_and_back(file: &str, namespace: &str) {
    let options = ClusterOptions {
        manifests: &MANIFESTS,
        resource: (kinds::NETWORK_CONFIG, "default"),
        ..Default::default()
    };
    let cluster = Cluster::start(options).await;
    let definition = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../components/network-attachment-definition/crd.yaml"
    );
    cluster
        .apply(&std::fs::read_to_string(definition).unwrap())
        .await;
    let operator = Operator::start_default(&cluster).await;
    cluster.apply(&example(file)).await;
    cluster.wait_available().await;
    let networks: Vec<String> = networks(&cluster).await;

    // A DaemonSet cannot be scaled to none: it has to go, and its pod to end.
    let refused = weft(&cluster, &["release", "cluster-network", "--yes"])
        .await
        .ended(2);
    assert!(
        refused.stderr.contains("leads cluster-network still"),
        "{}",
        refused.stderr
    );
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "daemonset", OPERATOR])
        .await;
    operator.terminate().await;

    let (before, all) = (running(&cluster).await, cluster.snapshot().await);
    assert!(
        before
            .keys()
            .any(|name| name.starts_with(&format!("Pod {namespace}/"))),
        "{before:#?}"
    );
    let preview = weft(&cluster, &["release", "cluster-network", "--dry-run"])
        .await
        .ended(0);
    assert!(
        preview.stdout.contains(
            "would give back ConfigMap openshift-cluster-network-operator/applied-default"
        ),
        "{}",
        preview.stdout
    );
    assert_same(&all, &cluster.snapshot().await, "a dry run");
    weft(&cluster, &["release", "cluster-network", "--yes"])
        .await
        .ended(0);

    assert_eq!(
        running(&cluster).await,
        before,
        "no workload and no pod is another one"
    );
    let after = cluster.snapshot().await;
    let marked = |object: &Value| {
        let own = |field: &str| {
            object["metadata"][field]
                .as_object()
                .into_iter()
                .flatten()
                .any(|(key, _)| key.starts_with("weft.network/"))
        };
        own("labels")
            || own("annotations")
            || object["metadata"]["labels"].get(OWNER_LABEL).is_some()
    };
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
    assert_eq!(gone, [INVENTORY]);
    assert!(
        cluster
            .get(kinds::LEASE, NAMESPACE, "weft-cluster-network")
            .await
            .is_none()
    );
    let resource = cluster.resource().await.unwrap();
    assert_eq!(resource["metadata"].get("finalizers"), None);

    // Nothing owns the objects that pods use: the other operator may come days later, and a user
    // may delete the resource meanwhile. Additional networks belong to the resource, in the form of
    // the other operator.
    let owner = json!([
        {
            "apiVersion": "networkoperator.openshift.io/v1", "kind": "NetworkConfig",
            "name": "default", "uid": resource["metadata"]["uid"], "controller": true,
            "blockOwnerDeletion": true
        }
    ]);
    for (name, object) in after
        .objects
        .iter()
        .filter(|(name, _)| all.objects.contains_key(*name))
    {
        let found = object["metadata"].get("ownerReferences");
        if name.starts_with("NetworkAttachmentDefinition ") {
            let name = object["metadata"]["name"].as_str().unwrap();
            let live = cluster
                .get(kinds::NETWORK_ATTACHMENT_DEFINITION, "default", name)
                .await
                .unwrap();
            assert_eq!(live["metadata"]["ownerReferences"], owner);
        } else {
            assert_eq!(found, None, "{name}");
        }
    }
    let again = weft(&cluster, &["release", "cluster-network", "--yes"])
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

    // And back: whatever it is, Weft knows it again by itself, and restarts nothing.
    cluster.apply_manifests(&MANIFESTS).await;
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
    // Nobody was left as a writer of this one, which has nothing but its name: then the API server
    // notes who was there before the first apply.
    let mut all = all;
    all.objects.remove("Namespace openshift-infra");
    cluster.wait_same(&all, "and back").await;
    assert_eq!(running(&cluster).await, before);
    assert_eq!(self::networks(&cluster).await, networks);
}

/// The additional networks in status, with their states.
async fn networks(cluster: &Cluster) -> Vec<String> {
    let status = cluster.status().await;
    status["additionalNetworks"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|network| format!("{} {}", network["name"], network["state"]))
        .collect()
}

/// Workloads by uid and generation, and pods by uid, of all that the network consists of.
async fn running(cluster: &Cluster) -> BTreeMap<String, String> {
    let mut running = BTreeMap::new();
    for namespace in [
        "kube-flannel",
        "openshift-kube-proxy",
        "openshift-sdn",
        "openshift-infra",
    ] {
        for kind in [kinds::DAEMON_SET, kinds::DEPLOYMENT, kinds::POD] {
            for object in cluster
                .api(kind, namespace)
                .list(&Default::default())
                .await
                .unwrap()
            {
                let generation = if kind == kinds::POD {
                    0
                } else {
                    object.metadata.generation.unwrap()
                };
                let name = format!(
                    "{} {namespace}/{}",
                    kind.kind,
                    object.metadata.name.unwrap()
                );
                running.insert(
                    name,
                    format!("{} {generation}", object.metadata.uid.unwrap()),
                );
            }
        }
    }
    running
}
