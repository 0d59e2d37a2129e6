//! `weft uninstall`: nothing is left, with the operator and without, also after an interruption.

mod terminal;
mod unreachable;

use serde_json::{Value, json};
use weft_api::node_network::NODE_CONDITION;
use weft_plan::kinds;

use crate::commands::{harness::*, user::*};

const DEFINITION: &str = "networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io";
/// Other people's objects may live in them, and the last two are KubeVirt's.
const STAY: [&str; 4] = [
    "ipamclaims.k8s.cni.cncf.io",
    "network-attachment-definitions.k8s.cni.cncf.io",
    "virtualmachineinstances.kubevirt.io",
    "virtualmachines.kubevirt.io",
];

#[tokio::test]
async fn an_operator_at_work_takes_its_components_down() {
    // In life the operator's pod goes with its Deployment. Here it goes on without its rights.
    let cluster = Cluster::start(ClusterOptions {
        may_be_forbidden: true,
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_lasting(&cluster).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    let unasked = weft(&cluster, &["uninstall"]).await.ended(2);
    assert!(unasked.stderr.contains("--yes"), "{}", unasked.stderr);
    let refused = weft(&cluster, &["uninstall", "-o", "json"]).await.ended(2);
    let document = refused.json();
    assert_eq!(document["verdict"], "Refused");
    assert!(
        document["error"].as_str().unwrap().contains("--yes"),
        "{document:#}"
    );
    let all = cluster.snapshot().await;
    let preview = weft(&cluster, &["uninstall", "--dry-run"]).await.ended(0);
    assert!(
        preview
            .stdout
            .contains("- NetworkAddonsConfig cluster and all of its components"),
        "{}",
        preview.stdout
    );
    let document = weft(&cluster, &["uninstall", "--dry-run", "-o", "json"])
        .await
        .ended(0)
        .json();
    assert_eq!(
        (&document["verdict"], &document["domains"]),
        (&json!("Unchanged"), &json!(["addons"]))
    );
    assert_eq!(
        step(&document, "NetworkAddonsConfig", "cluster"),
        &json!({
            "action": "delete", "done": false, "kind": "NetworkAddonsConfig", "name": "cluster",
            "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1"
        })
    );
    assert_eq!(
        step(&document, "CustomResourceDefinition", DEFINITION)["action"],
        "stay"
    );
    assert_same(
        &all,
        &cluster.snapshot().await,
        "neither asking nor a dry run",
    );

    let run = weft(&cluster, &["uninstall", "--yes"]).await.ended(0);
    assert!(
        !run.stdout.contains("no operator is at work"),
        "{}",
        run.stdout
    );
    let teardown = cluster
        .audit()
        .iter()
        .filter(|event| event.verb == "delete" && event.code < 300)
        .count();
    assert!(teardown > 20, "the operator did it: {teardown} deletions");
    // An operator that is still ending would make its lease anew, and it would hold the namespace.
    let events = cluster.control_plane.audit_events().unwrap();
    let deleted = |part: &str| {
        events
            .iter()
            .rposition(|event| event.verb == "delete" && event.uri.contains(part))
            .unwrap()
    };
    assert!(
        deleted("/leases/weft-addons") > deleted("/rolebindings/"),
        "the lease goes when nobody may write it any more"
    );
    nothing_is_left(&cluster, &[DEFINITION]).await;
    // The definition that stays is no installation with a missing part.
    let installation = ["status", "--installation"];
    let gone = weft(&cluster, &installation).await.ended(1);
    assert_eq!(
        gone.stdout,
        "Weft is not installed\ndefinitions are kept for addons; remove them: weft uninstall --crds\n"
    );
    let named = [&installation[..], &["--domains", "addons"]].concat();
    weft(&cluster, &named).await.ended(3);
    let again = weft(&cluster, &["uninstall", "--yes"]).await.ended(0);
    assert!(
        again.stdout.contains("Nothing of Weft is installed"),
        "{}",
        again.stdout
    );
    let document = weft(&cluster, &["uninstall", "--yes", "-o", "json"])
        .await
        .ended(0)
        .json();
    assert_eq!(document["verdict"], "Nothing");
}

/// Returns the step about this object in a document of `-o json`.
#[track_caller]
fn step<'a>(document: &'a Value, kind: &str, name: &str) -> &'a Value {
    let mut steps = document["objects"].as_array().unwrap().iter();
    steps
        .find(|step| step["kind"] == kind && step["name"] == name)
        .unwrap_or_else(|| panic!("{kind} {name}: {document:#}"))
}

#[tokio::test]
async fn it_does_the_same_when_the_operator_is_gone() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    operator.kill();
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "deployment", OPERATOR])
        .await;
    // Its Lease has expired.
    let expired = json!({"spec": {"renewTime": "2020-01-01T00:00:00.000000Z"}});
    cluster
        .patch(kinds::LEASE, NAMESPACE, "weft-addons", expired)
        .await;
    // Another controller's finalizer holds a component: the run gives up, names the finalizer, and
    // leaves later objects alone.
    cluster
        .patch(
            kinds::DAEMON_SET,
            NAMESPACE,
            "multus",
            json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        )
        .await;
    let held = weft(
        &cluster,
        &[
            "uninstall",
            "--yes",
            "--crds",
            "--timeout",
            "6s",
            "-o",
            "json",
        ],
    )
    .await
    .ended(2);
    assert!(
        held.stderr
            .contains("DaemonSet cluster-network-addons/multus")
            && held.stderr.contains("example.com/hold"),
        "{}",
        held.stderr
    );
    let document = held.json();
    assert_eq!(document["verdict"], "Waiting");
    let cause = document["waitsFor"].as_str().unwrap();
    assert!(cause.contains("example.com/hold"), "{document:#}");
    assert_eq!(
        step(&document, "NetworkAddonsConfig", "cluster")["done"],
        false
    );
    let notes = document["notes"].to_string();
    assert!(notes.contains("no operator is at work"), "{document:#}");
    assert!(
        cluster
            .get(kinds::CLUSTER_ROLE, "", "multus")
            .await
            .is_some(),
        "its permissions go after it"
    );
    cluster
        .patch(
            kinds::DAEMON_SET,
            NAMESPACE,
            "multus",
            json!({"metadata": {"finalizers": null}}),
        )
        .await;

    // Nobody waits for a Lease that another user has written, and it goes, too.
    cluster.apply(&ghost_lease()).await;
    let run = weft(&cluster, &["uninstall", "--yes", "--crds"])
        .await
        .ended(0);
    let held = held_by_ghost();
    for note in [
        "no operator is at work; its components are taken down from here",
        held.as_str(),
    ] {
        assert!(run.stdout.contains(note), "{}", run.stdout);
    }
    assert!(
        run.stdout.contains(
            "CustomResourceDefinition network-attachment-definitions.k8s.cni.cncf.io: stays"
        ),
        "{}",
        run.stdout
    );
    nothing_is_left(&cluster, &[]).await;
}

#[tokio::test]
async fn a_single_operator_for_all_domains_goes_too() {
    let cluster = Cluster::start(ClusterOptions {
        manifests: &["--domains", "addons"],
        may_be_forbidden: true,
        ..Default::default()
    })
    .await;
    assert_eq!(
        cluster.operator.human(),
        "Deployment weft-system/weft-operator"
    );
    let operator = Operator::start_lasting(&cluster).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    let run = weft(&cluster, &["uninstall", "--yes", "-o", "json"])
        .await
        .ended(0);
    let document = run.json();
    assert_eq!(
        (&document["verdict"], &document["notes"]),
        (&json!("Removed"), &json!([]))
    );
    let steps = document["objects"].as_array().unwrap();
    let is_left = |step: &&Value| step["action"] != "stay" && step["done"] != true;
    assert_eq!(steps.iter().find(is_left), None, "{document:#}");
    assert_eq!(step(&document, "Namespace", NAMESPACE)["action"], "delete");
    nothing_is_left(&cluster, &[DEFINITION]).await;
    operator.kill();

    // Uninstalls without a process, and without the Deployment that shows where the operator was
    // and what it did.
    cluster.apply_manifests(&["--domains", "addons"]).await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    operator.kill();
    cluster
        .delete(kinds::DEPLOYMENT, "weft-system", "weft-operator")
        .await;
    let run = weft(&cluster, &["uninstall", "--yes"]).await.ended(0);
    assert!(
        run.stdout.contains("no operator is at work"),
        "{}",
        run.stdout
    );
    nothing_is_left(&cluster, &[DEFINITION]).await;
}

/// Without a process, so that only the command can do it.
#[tokio::test]
async fn nodes_do_not_keep_a_condition_of_an_operator_that_is_gone() {
    let cluster = Cluster::start(ClusterOptions {
        manifests: &["--split", "--domains", "node-network"],
        resource: (kinds::NMSTATE, "nmstate"),
        ..Default::default()
    })
    .await;
    let operator = Operator::start_default(&cluster).await;
    cluster.apply(&example("node-network/nmstate.yaml")).await;
    let said = async |node: &str| {
        let node = cluster.get(kinds::NODE, "", node).await.unwrap();
        condition(&node["status"], NODE_CONDITION)
    };
    for node in ["node-1", "node-2"] {
        wait_until("the node says that it is ready", async || {
            let said = said(node).await;
            (said["status"] == "True")
                .then_some(())
                .ok_or(said.to_string())
        })
        .await;
    }
    operator.kill();
    let preview = weft(&cluster, &["uninstall", "--dry-run"]).await.ended(0);
    assert!(
        !preview.stdout.contains("Node node-1"),
        "{}",
        preview.stdout
    );
    let run = weft(&cluster, &["uninstall", "--yes"]).await.ended(0);
    assert!(
        run.stdout.contains("released Node node-1"),
        "{}",
        run.stdout
    );
    for node in ["node-1", "node-2"] {
        assert_eq!(said(node).await, Value::Null);
    }
}

#[tokio::test]
async fn objects_of_others_stay() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    operator.kill();
    // The resource is gone, its finalizer taken off by hand. Only the inventory knows what there
    // was.
    cluster
        .patch_resource(json!({"metadata": {"finalizers": null}}))
        .await;
    cluster
        .kubectl(&[
            "delete",
            "networkaddonsconfig",
            "cluster",
            "--cascade=orphan",
        ])
        .await;
    cluster
        .kubectl(&["-n", NAMESPACE, "create", "configmap", "mine"])
        .await;
    let run = weft(&cluster, &["uninstall", "--yes"]).await.ended(0);
    assert!(
        run.stdout
            .contains("what NetworkAddonsConfig cluster has left"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout.contains(
            "Namespace cluster-network-addons: stays, other things are in it: ConfigMap mine"
        ),
        "{}",
        run.stdout
    );
    assert!(
        cluster
            .get(kinds::CLUSTER_ROLE, "", "multus")
            .await
            .is_none()
    );
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "configmap", "mine"])
        .await;
    weft(&cluster, &["uninstall", "--yes"]).await.ended(0);
    nothing_is_left(&cluster, &[DEFINITION]).await;
}

#[tokio::test]
async fn the_operator_that_weft_replaces_is_left_alone() {
    let cluster = Cluster::start_default().await;
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "set",
            "image",
            &format!("deployment/{OPERATOR}"),
            &format!("{OPERATOR}=quay.io/kubevirt/cluster-network-addons-operator:v0.102.0"),
        ])
        .await;
    let is_left_alone = async || {
        let run = weft(&cluster, &["uninstall", "--yes"]).await.ended(2);
        assert!(
            run.stderr.contains("is another operator") && run.stderr.contains("nothing is removed"),
            "{}",
            run.stderr
        );
        assert!(
            cluster
                .get(kinds::CLUSTER_ROLE, "", OPERATOR)
                .await
                .is_some()
        );
    };
    is_left_alone().await;
    // Also at rest: all of it has the names of Weft's.
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
    wait_until("it rests", async || {
        let live = cluster
            .get(kinds::DEPLOYMENT, NAMESPACE, OPERATOR)
            .await
            .ok_or("it is not there")?;
        if weft_plan::is_at_rest(&live) {
            Ok(())
        } else {
            Err(format!("{:#}", live["status"]))
        }
    })
    .await;
    is_left_alone().await;
}

/// The objects of `weft manifests` and of the resource are gone, except for these definitions and
/// those that stay.
async fn nothing_is_left(cluster: &Cluster, definitions: &[&str]) {
    for namespace in [NAMESPACE, cluster.operator_namespace()] {
        assert!(
            cluster.get(kinds::NAMESPACE, "", namespace).await.is_none(),
            "the namespace {namespace}"
        );
    }
    let left: Vec<_> = cluster
        .api(kinds::CUSTOM_RESOURCE_DEFINITION, "")
        .list(&Default::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .filter_map(|item| item.metadata.name)
        .collect();
    let mut wanted: Vec<_> = STAY
        .iter()
        .chain(definitions)
        .map(ToString::to_string)
        .collect();
    wanted.sort();
    assert_eq!(left, wanted);
    for kind in [
        kinds::CLUSTER_ROLE,
        kinds::CLUSTER_ROLE_BINDING,
        kinds::VALIDATING_ADMISSION_POLICY,
        kinds::VALIDATING_ADMISSION_POLICY_BINDING,
        kinds::MUTATING_WEBHOOK_CONFIGURATION,
    ] {
        let names: Vec<_> = cluster
            .api(kind, "")
            .list(&Default::default())
            .await
            .unwrap()
            .items
            .into_iter()
            .filter_map(|item| item.metadata.name)
            .collect();
        let own = |name: &&String| {
            !name.starts_with("system:")
                && !matches!(name.as_str(), "admin" | "edit" | "view" | "cluster-admin")
        };
        assert_eq!(
            names.iter().filter(own).collect::<Vec<_>>(),
            Vec::<&String>::new(),
            "{kind}"
        );
    }
    let nodes = cluster.api(kinds::NODE, "").list(&Default::default()).await;
    for node in nodes.unwrap().items {
        let conditions = node.data["status"]["conditions"].to_string();
        assert!(!conditions.contains("weft.network"), "{conditions}");
    }
    for kind in [kinds::ROLE, kinds::ROLE_BINDING] {
        assert!(
            cluster
                .api(kind, "default")
                .list(&Default::default())
                .await
                .unwrap()
                .items
                .is_empty(),
            "{kind} in default"
        );
    }
}
