//! The operator then does exactly what `weft plan` prints.

use std::collections::BTreeSet;

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use weft_plan::{Kind, ObjectKey, kinds};
use weft_testenv::{ADMIN, AuditEvent};

use crate::commands::{harness::*, user::*};

/// The effects on objects, each as `create DaemonSet.apps/ns/name`.
pub type Writes = BTreeSet<String>;

/// Fixed, so that a failure can be repeated.
const SEED: u64 = 20_261_123;
const EDITS: usize = 15;

#[tokio::test]
async fn the_operator_does_what_the_plan_prints() {
    let cluster = Cluster::start_default().await;
    let _operator = Operator::start_default(&cluster).await;
    cluster.play_kubemacpool().await;
    let mut random = StdRng::seed_from_u64(SEED);
    let mut spec = json!({"multus": {}});
    let mut kinds_of_change = BTreeSet::new();
    for round in 0..EDITS {
        let edit = if round == 0 {
            "first"
        } else {
            edit(&mut random, &mut spec)
        };
        let file = file(&spec);
        let plan = weft_reading(&cluster, &["plan", "-f", "-", "-o", "json"], &file)
            .await
            .ended(1)
            .json();
        let planned = planned(&plan);
        let before = cluster.audit().len();
        cluster.apply(&file).await;
        cluster.wait_available().await;
        let done = done(&cluster, before);
        assert_eq!(planned, done, "round {round}, {edit}: {spec}");
        kinds_of_change.extend(
            done.iter()
                .filter_map(|write| write.split(' ').next().map(str::to_owned)),
        );
        let after = weft_reading(&cluster, &["plan", "-f", "-"], &file)
            .await
            .ended(0);
        assert!(
            after.stdout.contains("nothing would change"),
            "{}",
            after.stdout
        );
    }
    assert_eq!(
        kinds_of_change,
        ["change", "create", "delete"].map(str::to_owned).into(),
        "the edits lead to every sort of change"
    );

    let plan = weft_reading(
        &cluster,
        &["plan", "--delete", "-f", "-", "-o", "json"],
        &file(&spec),
    )
    .await
    .ended(1)
    .json();
    assert_eq!(plan["resources"][0]["effect"], "delete");
    let of_all = weft_reading(&cluster, &["plan", "--delete", "-o", "json"], "")
        .await
        .ended(1)
        .json();
    assert_eq!(
        planned(&of_all),
        planned(&plan),
        "without a file, of all there are"
    );
    let before = cluster.audit().len();
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster"])
        .await;
    assert_eq!(planned(&plan), done(&cluster, before), "the deletion");
    let gone = weft_reading(&cluster, &["plan", "--delete", "-f", "-"], &file(&spec))
        .await
        .ended(0);
    assert!(
        gone.stdout.contains("nothing would change"),
        "{}",
        gone.stdout
    );
    let none = weft_reading(&cluster, &["plan", "--delete"], "")
        .await
        .ended(2);
    assert!(
        none.stderr.contains("no resource that could be deleted"),
        "{}",
        none.stderr
    );
}

/// One random change to the specification. Another one than nothing.
fn edit(random: &mut StdRng, spec: &mut Value) -> &'static str {
    let before = spec.clone();
    loop {
        let name = [
            "component",
            "component",
            "range",
            "placement",
            "pull policy",
        ]
        .choose(random)
        .unwrap();
        match *name {
            "component" => {
                let field = *[
                    "multus",
                    "linuxBridge",
                    "ovs",
                    "kubeMacPool",
                    "macvtap",
                    "kubeSecondaryDNS",
                ]
                .choose(random)
                .unwrap();
                let fields = spec.as_object_mut().unwrap();
                if fields.remove(field).is_none() {
                    fields.insert(field.to_owned(), json!({}));
                }
            }
            "range" => {
                let octet = random.random_range(0x10..0x80_u8);
                spec["kubeMacPool"] = json!({
                    "rangeStart": format!("02:{octet:02x}:00:00:00:00"),
                    "rangeEnd": format!("02:{octet:02x}:00:ff:ff:ff")
                });
            }
            "placement" => {
                let key = *["a", "b", "c"].choose(random).unwrap();
                let part = *["workloads", "infra"].choose(random).unwrap();
                spec["placementConfiguration"] =
                    json!({part: {"tolerations": [{"key": key, "operator": "Exists"}]}});
            }
            _ => {
                spec["imagePullPolicy"] =
                    json!(["Always", "IfNotPresent", "Never"].choose(random).unwrap())
            }
        }
        if *spec != before {
            return name;
        }
    }
}

fn file(spec: &Value) -> String {
    json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": spec
    })
    .to_string()
}

/// The writes that a plan announces.
pub fn planned(plan: &Value) -> Writes {
    let resource = &plan["resources"][0];
    let components = resource["components"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|component| component["objects"].as_array().unwrap());
    let objects = components.chain(resource["removals"].as_array().unwrap());
    let name = |object: &Value| {
        let kind = Kind::find(
            object["apiVersion"].as_str().unwrap(),
            object["kind"].as_str().unwrap(),
        )
        .unwrap();
        title(
            kind,
            object["namespace"].as_str().unwrap_or_default(),
            object["name"].as_str().unwrap(),
        )
    };
    objects
        .flat_map(|object| {
            let verbs: &[&str] = match object["action"].as_str().unwrap() {
                "keep" | "leave" => &[],
                "create" => &["create"],
                "change" | "take-over" | "release" | "hold" => &["change"],
                "delete" => &["delete"],
                "replace" => &["delete", "create"],
                other => panic!("{other} is not expected here: {object}"),
            };
            verbs
                .iter()
                .map(move |verb| format!("{verb} {}", name(object)))
        })
        .collect()
}

/// Returns the operator's writes by the audit log: everything but its own notes, its lease and its
/// reports.
pub fn done(cluster: &Cluster, before: usize) -> Writes {
    let notes = [
        "weft-inventory-networkaddonsconfig-cluster",
        "cluster-networks-addons-operator-applied-cluster",
    ];
    let events = cluster.audit().split_off(before);
    let writes = events.iter().filter(|event| {
        event.is_write() && event.code < 300 && !notes.contains(&event.name.as_str())
    });
    let objects = writes.filter(|event| {
        !matches!(
            event.resource.as_str(),
            "networkaddonsconfigs" | "placementapis" | "leases" | "events"
        )
    });
    objects
        .map(|event| {
            let kind = kinds::ALL
                .iter()
                .find(|kind| kind.plural == event.resource && kind.group == event.group)
                .unwrap();
            let verb = match (event.verb.as_str(), event.code) {
                ("patch", 201) => "create",
                ("patch", _) => "change",
                ("delete", _) => "delete",
                other => panic!("{other:?}: {event:?}"),
            };
            format!("{verb} {}", title(*kind, &event.namespace, &event.name))
        })
        .collect()
}

fn title(kind: Kind, namespace: &str, name: &str) -> String {
    // The audit log gives a namespace its own name as its namespace.
    ObjectKey::new(kind, namespace, name).to_string()
}

#[tokio::test]
async fn it_changes_nothing_and_shows_what_everybody_asks() {
    let cluster = Cluster::start_default().await;
    let example = example("network-addons-config.yaml");
    // Except for kubectl, the admin uses only weft here.
    let requests = |cluster: &Cluster| {
        let all = cluster.control_plane.audit_events().unwrap();
        let (writes, reads): (Vec<_>, Vec<_>) = all
            .into_iter()
            .filter(|event| event.user == ADMIN && !event.user_agent.starts_with("kubectl/"))
            .partition(AuditEvent::is_write);
        (writes.len(), reads.len())
    };
    let before = requests(&cluster);

    // Drawn at random: the text must not show what is not known.
    let open = file(&json!({"kubeMacPool": {}}));
    let plan = weft_reading(&cluster, &["plan", "-f", "-"], &open)
        .await
        .ended(1);
    assert!(
        plan.stdout.contains("drawn at random when it is applied"),
        "{}",
        plan.stdout
    );
    assert!(
        !plan.stdout.contains("02:11") && !plan.stdout.contains("02:ee"),
        "{}",
        plan.stdout
    );
    assert!(
        plan.stdout.contains("no operator of Weft is at work"),
        "{}",
        plan.stdout
    );
    assert_eq!(
        weft_reading(&cluster, &["plan", "-f", "-", "-o", "json"], &open)
            .await
            .ended(1)
            .json()["resources"][0]["drawn"],
        true
    );

    // A Lease that another user has written.
    cluster.apply(&ghost_lease()).await;
    let plan = weft_reading(&cluster, &["plan", "-f", "-"], &open)
        .await
        .ended(1);
    let note = format!(
        "no operator of Weft is at work for addons: {}; delete it: kubectl delete lease weft-addons -n {NAMESPACE}",
        held_by_ghost()
    );
    assert!(plan.stdout.contains(&note), "{}", plan.stdout);

    // A conflict, and what it holds back.
    cluster
        .kubectl(&[
            "create",
            "clusterrole",
            "multus",
            "--verb=get",
            "--resource=pods",
        ])
        .await;
    let plan = weft_reading(&cluster, &["plan", "-f", "-"], &example)
        .await
        .ended(1);
    assert!(
        plan.stdout
            .contains("! ClusterRole multus: exists already and is not Weft's"),
        "{}",
        plan.stdout
    );
    assert!(
        plan.stdout
            .contains("… DaemonSet cluster-network-addons/multus: waits"),
        "{}",
        plan.stdout
    );
    assert!(
        plan.stdout
            .contains("+ DaemonSet cluster-network-addons/ovs-cni-amd64"),
        "{}",
        plan.stdout
    );
    assert!(!plan.stdout.contains('\x1b'), "no colour in a pipe");

    // The operator that Weft replaces.
    cluster.kubectl(&["create", "namespace", "old"]).await;
    cluster
        .kubectl(&[
            "-n",
            "old",
            "create",
            "deployment",
            OPERATOR,
            "--image=quay.io/kubevirt/cluster-network-addons-operator:v0.102.0",
        ])
        .await;
    let plan = weft_reading(&cluster, &["plan", "-f", "-"], &example)
        .await
        .ended(1);
    assert!(
        plan.stdout.contains(
            "blocked: Weft would write nothing now; what is planned here follows later. Deployment old/cluster-network-addons-operator"
        ),
        "{}",
        plan.stdout
    );

    // `weft plan` reports an invalid resource as `weft validate` does.
    let wrong = weft_reading(
        &cluster,
        &["plan", "-f", "-"],
        &example.replace("imagePullPolicy: Always", "imagePullPolicy: always"),
    )
    .await
    .ended(2);
    assert!(
        wrong.stderr.contains("spec.imagePullPolicy"),
        "{}",
        wrong.stderr
    );
    let after = requests(&cluster);
    assert!(
        after.1 > before.1 + 100,
        "it is seen in the audit log: {before:?}, {after:?}"
    );
    assert_eq!(after.0, before.0, "a plan writes nothing");
}

#[tokio::test]
async fn reading_is_all_that_it_needs() {
    let cluster = Cluster::start_default().await;
    let _operator = Operator::start_default(&cluster).await;
    let example = example("network-addons-config.yaml");
    cluster.install(&example).await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]});
    cluster.apply(&role.to_string()).await;
    cluster
        .kubectl(&["create", "serviceaccount", "reader"])
        .await;
    cluster
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "reader",
            "--clusterrole=reader",
            "--serviceaccount=default:reader",
        ])
        .await;
    let kubeconfig = cluster
        .control_plane
        .service_account_kubeconfig("default", "reader")
        .await
        .unwrap();
    // The API server learns of the binding by a watch of its own.
    wait_until("the user may read", async || {
        let run = run(&kubeconfig, &["plan", "-f", "-"], &example).await;
        if run.code == 0 {
            Ok(())
        } else {
            Err(format!("{run:?}"))
        }
    })
    .await;
    // A field of another user in a place that Weft owns completely.
    let added = json!({"spec": {"template": {"metadata": {"annotations": {"added": "by-hand"}}}}});
    drop(_operator);
    cluster
        .patch(kinds::DAEMON_SET, NAMESPACE, "bridge-marker", added)
        .await;
    let plan = run(&kubeconfig, &["plan", "-f", "-"], &example)
        .await
        .ended(1);
    assert!(
        plan.stdout.contains(
            "- spec.template.metadata.annotations.added: \"by-hand\" (added by somebody)"
        ),
        "{}",
        plan.stdout
    );
    run(&kubeconfig, &["plan", "--delete", "-f", "-"], &example)
        .await
        .ended(1);
    run(&kubeconfig, &["status"], "").await.ended(0);
}
