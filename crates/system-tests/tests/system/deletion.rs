//! The end of a NetworkAddonsConfig, in every way that kubectl knows: nothing is left but what must
//! never be deleted.

use serde_json::Value;
use weft_plan::{OWNER_LABEL, kinds};

use weft_system_tests::*;

/// Other people's objects may live in them, so definitions are never deleted.
const STAYS: [&str; 2] = [
    "CustomResourceDefinition ipamclaims.k8s.cni.cncf.io",
    "CustomResourceDefinition network-attachment-definitions.k8s.cni.cncf.io",
];

#[tokio::test]
async fn nothing_is_left_however_it_is_deleted() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    let example = example("network-addons-config.yaml");

    cluster.install(&example).await;
    assert!(
        cluster.leftovers().await.len() > 30,
        "leftovers are seen where there are some"
    );
    delete(&cluster, &[]).await;
    nothing_is_left(&cluster, "kubectl delete").await;

    cluster.install(&example).await;
    delete(&cluster, &["--cascade=foreground"]).await;
    nothing_is_left(&cluster, "kubectl delete --cascade=foreground").await;

    // Orphaned: the resource goes and the add-ons go on working, without an owner that could be
    // collected.
    let (installed, uids) = (cluster.install(&example).await, workloads(&cluster).await);
    delete(&cluster, &["--cascade=orphan"]).await;
    assert_eq!(
        workloads(&cluster).await,
        uids,
        "the add-ons stay as they are"
    );
    let owned = "jsonpath={.items[*].metadata.ownerReferences[*].kind}";
    let owners = cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "get",
            "daemonsets,deployments,configmaps,serviceaccounts,services",
            "-o",
            owned,
        ])
        .await;
    assert!(!owners.contains("NetworkAddonsConfig"), "{owners}");
    // A new resource takes them back, as they are, and takes them along when it goes.
    let again = cluster.install(&example).await;
    assert_ne!(again["metadata"]["uid"], installed["metadata"]["uid"]);
    assert_eq!(workloads(&cluster).await, uids, "nothing is made anew");

    // Deleted while no operator runs: it waits for one.
    operator.kill();
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--wait=false"])
        .await;
    let resource = cluster.resource().await.expect("the finalizer holds it");
    assert_eq!(
        resource["metadata"]["finalizers"],
        serde_json::json!(["weft.network/teardown"])
    );
    let _operator = Operator::start_default(&cluster).await;
    gone(&cluster).await;
    nothing_is_left(&cluster, "the operator was gone before the resource").await;
}

/// The original's labels are on pods that it left behind, and on Weft's.
#[tokio::test]
async fn pods_of_a_workload_that_stays_hold_up_no_deletion() {
    let cluster = Cluster::start_default().await;
    let labels =
        serde_json::json!({"app.kubernetes.io/managed-by": "cnao-operator", "app": "left-behind"});
    let workload = serde_json::json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {
        "namespace": NAMESPACE, "name": "left-behind"
    },
        "spec": {"selector": {
            "matchLabels": {"app": "left-behind"}
        }, "template": {"metadata": {"labels": labels},
            "spec": {
                "containers": [{"name": "c", "image": "example/c"}],
                "tolerations": [{"operator": "Exists"}]
            }}}});
    cluster.apply(&workload.to_string()).await;
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "rollout",
            "status",
            "daemonset",
            "left-behind",
            "--timeout=60s",
        ])
        .await;
    let _operator = Operator::start_default(&cluster).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    delete(&cluster, &[]).await;
    let pods = cluster
        .kubectl(&["-n", NAMESPACE, "get", "pods", "-o", "name"])
        .await;
    let is_of = |pod: &str, workload: &str| pod.starts_with(&format!("pod/{workload}-"));
    assert!(pods.lines().any(|pod| is_of(pod, "left-behind")), "{pods}");
    assert!(
        pods.lines()
            .all(|pod| is_of(pod, "left-behind") || is_of(pod, OPERATOR)),
        "{pods}"
    );
}

async fn delete(cluster: &Cluster, options: &[&str]) {
    let mut args = vec!["delete", "networkaddonsconfig", "cluster", "--wait=false"];
    args.extend(options);
    cluster.kubectl(&args).await;
    gone(cluster).await;
}

pub async fn gone(cluster: &Cluster) {
    wait_until("the NetworkAddonsConfig is gone", async || {
        match cluster.resource().await {
            None => Ok(()),
            Some(resource) => Err(format!(
                "finalizers {}, status {:#}",
                resource["metadata"]["finalizers"], resource["status"]
            )),
        }
    })
    .await;
}

/// Weft's objects, the pods and the Secret are gone before the resource is. Objects that the
/// cluster derives from them follow.
async fn nothing_is_left(cluster: &Cluster, after: &str) {
    let left = cluster.leftovers().await;
    let derived = [
        "ControllerRevision ",
        "ReplicaSet ",
        "EndpointSlice ",
        "Endpoints ",
        "IPAddress ",
    ];
    let ours: Vec<_> = left
        .iter()
        .filter(|title| {
            !STAYS.contains(&title.as_str()) && !derived.iter().any(|kind| title.starts_with(kind))
        })
        .collect();
    assert!(ours.is_empty(), "left after {after}: {ours:#?}");
    all_is_gone(cluster, after).await;
}

/// Waits until nothing is left. Definitions and namespace stay, and are nobody's.
pub async fn all_is_gone(cluster: &Cluster, after: &str) {
    wait_until(&format!("nothing is left after {after}"), async || {
        let left = cluster.leftovers().await;
        if left.iter().all(|title| STAYS.contains(&title.as_str())) {
            Ok(())
        } else {
            Err(format!("{left:#?}"))
        }
    })
    .await;
    for (kind, name) in [
        (
            kinds::CUSTOM_RESOURCE_DEFINITION,
            "network-attachment-definitions.k8s.cni.cncf.io",
        ),
        (kinds::NAMESPACE, NAMESPACE),
    ] {
        let kept = cluster.get(kind, "", name).await.unwrap();
        assert_eq!(
            kept["metadata"]["labels"][OWNER_LABEL],
            Value::Null,
            "{name} bears Weft's label after {after}"
        );
    }
}

/// Name and uid of the workloads of the add-ons.
async fn workloads(cluster: &Cluster) -> Vec<(String, String)> {
    let path = r#"jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}"#;
    let lines = cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "get",
            "daemonsets,deployments",
            "-l",
            OWNER_LABEL,
            "-o",
            path,
        ])
        .await;
    let mut all: Vec<_> = lines
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, uid)| (name.to_owned(), uid.to_owned()))
        .collect();
    all.sort();
    all
}
