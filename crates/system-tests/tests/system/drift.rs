//! The operator repairs deleted, edited and wrongly added objects, by watch. Fields of others stay
//! theirs.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_plan::{Inventory, Kind, ObjectKey, kinds};

use weft_system_tests::*;

#[tokio::test]
async fn every_single_object_that_is_deleted_comes_back_as_it_was() {
    let cluster = Cluster::start_default().await;
    let _operator = Operator::start_default(&cluster).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    let before = cluster.snapshot().await;
    let mut objects: Vec<_> = inventory(&cluster).await.objects.into_keys().collect();
    // Without their namespace, the operator's own account and lease are gone as well.
    objects.retain(|key| key.kind != kinds::NAMESPACE);
    assert!(objects.len() > 20, "{objects:?}");
    // Weft's own notes too.
    objects.extend(
        [
            "weft-inventory-networkaddonsconfig-cluster",
            "cluster-networks-addons-operator-applied-cluster",
        ]
        .map(|name| ObjectKey::new(kinds::CONFIG_MAP, NAMESPACE, name)),
    );
    for key in objects {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let old =
            cluster.get(key.kind, namespace, &key.name).await.unwrap()["metadata"]["uid"].clone();
        cluster.delete(key.kind, namespace, &key.name).await;
        wait_until(&format!("{} is back", key.human()), async || {
            let live = cluster
                .get(key.kind, namespace, &key.name)
                .await
                .ok_or("it is gone")?;
            if live["metadata"]["uid"] != old && live["metadata"]["deletionTimestamp"].is_null() {
                Ok(())
            } else {
                Err("it is the old one".to_owned())
            }
        })
        .await;
    }
    cluster
        .wait_same(&before, "after everything was deleted once")
        .await;
    cluster.wait_available().await;
}

#[tokio::test]
async fn changed_and_added_fields_are_repaired_and_fields_of_others_stay() {
    let cluster = Cluster::start_default().await;
    let _operator = Operator::start_default(&cluster).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    // Before the autoscaler: while that scales, status says that pods roll out.
    let mut before = cluster.snapshot().await;
    before.objects.retain(|name, _| !name.contains(AUTOSCALED));
    // Its controller looks at it after 15 s, while the edits below are made.
    cluster.apply(AUTOSCALER).await;
    for (what, kind, name, edit) in edits() {
        let version = do_edit(&cluster, kind, name, &edit).await;
        wait_until(&format!("{what} is put right"), async || {
            let live = cluster
                .get(kind, NAMESPACE, name)
                .await
                .ok_or("it is gone")?;
            if live["metadata"]["resourceVersion"] == *version {
                return Err("untouched".to_owned());
            }
            let now = Snapshot::of(live);
            let differences = before.only(&now).diff(&now);
            if differences.is_empty() {
                Ok(())
            } else {
                Err(format!("{differences:#?}"))
            }
        })
        .await;
    }
    cluster.wait_same(&before, "after all these edits").await;

    // Nobody but an autoscaler decides on replicas.
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "scale",
            "deployment",
            "kubemacpool-cert-manager",
            "--replicas=0",
        ])
        .await;
    wait_until("the replicas are put right", async || {
        let live = cluster
            .get(kinds::DEPLOYMENT, NAMESPACE, "kubemacpool-cert-manager")
            .await
            .ok_or("it is gone")?;
        if live["spec"]["replicas"] == 1 {
            Ok(())
        } else {
            Err(live["spec"]["replicas"].to_string())
        }
    })
    .await;
    an_autoscaler_is_left_alone(&cluster).await;

    others_is_kept(&cluster).await;
}

const AUTOSCALED: &str = "kubemacpool-mac-controller-manager";

/// Without metrics the autoscaler only sees to the least number of replicas.
const AUTOSCALER: &str = "
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: autoscaler, namespace: cluster-network-addons}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: kubemacpool-mac-controller-manager}
  minReplicas: 2
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
";

async fn an_autoscaler_is_left_alone(cluster: &Cluster) {
    let scaled = wait_until("the autoscaler has scaled", async || {
        let live = cluster
            .get(kinds::DEPLOYMENT, NAMESPACE, AUTOSCALED)
            .await
            .ok_or("it is gone")?;
        if live["spec"]["replicas"] == 2 {
            Ok(live)
        } else {
            Err(live["spec"]["replicas"].to_string())
        }
    })
    .await;
    // Something else of the same object is put right, and the replicas stay.
    let priority = scaled["spec"]["template"]["spec"]["priorityClassName"].clone();
    cluster
        .patch(
            kinds::DEPLOYMENT,
            NAMESPACE,
            AUTOSCALED,
            json!({"spec": {"template": {"spec": {"priorityClassName": null}}}}),
        )
        .await;
    let repaired = wait_until("the drift beside it is put right", async || {
        let live = cluster
            .get(kinds::DEPLOYMENT, NAMESPACE, AUTOSCALED)
            .await
            .ok_or("it is gone")?;
        if live["spec"]["template"]["spec"]["priorityClassName"] == priority {
            Ok(live)
        } else {
            Err(format!("{live:#}"))
        }
    })
    .await;
    assert_eq!(repaired["spec"]["replicas"], 2);
}

/// Fields of an object that belong to another user stay when the operator repairs the rest of the
/// same object.
async fn others_is_kept(cluster: &Cluster) {
    let theirs = json!({
        "metadata": {
            "labels": {"example.com/team": "network"}, "annotations": {"example.com/note": "hello"}
        }
    });
    let restarted = json!({
        "spec": {
            "template": {
                "metadata": {
                    "annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
                }
            }
        }
    });
    // Plays KubeMacPool's certificate manager.
    let bundle = "LS0tLS1CRUdJTg==";
    let mut webhook = cluster
        .get(
            kinds::MUTATING_WEBHOOK_CONFIGURATION,
            "",
            "kubemacpool-mutator",
        )
        .await
        .unwrap();
    for hook in webhook["webhooks"].as_array_mut().unwrap() {
        hook["clientConfig"]["caBundle"] = json!(bundle);
    }
    let hooks = json!({"webhooks": webhook["webhooks"]});
    let drift = json!({"spec": {"template": {"spec": {"hostNetwork": false}}}});
    for (kind, name, kept, drift, is_kept) in [
        (
            kinds::DAEMON_SET,
            "multus",
            theirs.clone(),
            drift.clone(),
            has_theirs as fn(&Value) -> bool,
        ),
        (
            kinds::CLUSTER_ROLE,
            "multus",
            theirs.clone(),
            json!({"rules": []}),
            has_theirs,
        ),
        (kinds::DAEMON_SET, "multus", restarted, drift, |live| {
            live.pointer("/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt")
                .is_some()
        }),
        (
            kinds::MUTATING_WEBHOOK_CONFIGURATION,
            "kubemacpool-mutator",
            hooks,
            json!({"webhooks": []}),
            |live| live["webhooks"][0]["clientConfig"]["caBundle"] == "LS0tLS1CRUdJTg==",
        ),
    ] {
        let before = cluster.patch(kind, NAMESPACE, name, kept).await;
        assert!(is_kept(&before), "{name}: {before:#}");
        if kind == kinds::MUTATING_WEBHOOK_CONFIGURATION {
            // Added to, not emptied: a webhook that is recreated has lost its bundle, and gets it
            // from KubeMacPool again.
            let rule = json!({
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"],
                "resources": ["pods"], "scope": "*"
            });
            let mut added = before["webhooks"].clone();
            added[0]["rules"].as_array_mut().unwrap().push(rule);
            cluster
                .patch(kind, NAMESPACE, name, json!({"webhooks": added}))
                .await;
        } else {
            cluster.patch(kind, NAMESPACE, name, drift).await;
        }
        wait_until(&format!("{name} is put right again"), async || {
            let live = cluster
                .get(kind, NAMESPACE, name)
                .await
                .ok_or("it is gone")?;
            assert!(
                is_kept(&live),
                "{name}: what is not Weft's was taken away: {live:#}"
            );
            let parts = ["/spec", "/rules", "/webhooks"];
            let mut right = parts
                .iter()
                .map(|part| (live.pointer(part), before.pointer(part)));
            if right.all(|(live, before)| live == before) {
                Ok(())
            } else {
                Err(format!("{live:#}"))
            }
        })
        .await;
    }
}

fn has_theirs(live: &Value) -> bool {
    live["metadata"]["labels"]["example.com/team"] == "network"
        && live["metadata"]["annotations"]["example.com/note"] == "hello"
}

/// An edit by another user.
enum Edit {
    /// A JSON merge patch.
    Merge(Value),
    /// One more element, at the end of the list at this JSON pointer.
    Append(&'static str, Value),
}

/// Returns the resourceVersion that the edit led to.
async fn do_edit(cluster: &Cluster, kind: Kind, name: &str, edit: &Edit) -> String {
    let edited = match edit {
        Edit::Merge(patch) => cluster.patch(kind, NAMESPACE, name, patch.clone()).await,
        Edit::Append(list, element) => {
            let patch =
                json!([{"op": "add", "path": format!("{list}/-"), "value": element}]).to_string();
            let resource = format!("{}.{}", kind.plural, kind.group);
            let text = cluster
                .kubectl(&[
                    "-n",
                    NAMESPACE,
                    "patch",
                    resource.trim_end_matches('.'),
                    name,
                    "--type=json",
                    "-p",
                    &patch,
                    "-o",
                    "json",
                ])
                .await;
            serde_json::from_str(&text).unwrap()
        }
    };
    edited["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// One edit of each sort: changed, removed, and added where Weft answers for everything.
fn edits() -> Vec<(&'static str, Kind, &'static str, Edit)> {
    use Edit::{Append, Merge};
    const CONTAINERS: &str = "/spec/template/spec/containers";
    let rule = || json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]});
    let template = |part: Value| json!({"spec": {"template": part}});
    let container = json!({"name": "kube-multus", "image": "example.com/evil:1"});
    let webhook = json!({"name": "x.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Ignore",
    "clientConfig": {"url": "https://127.0.0.1:1/"}, "namespaceSelector": {
        "matchLabels": {"example.com/none": "x"}
    },
    "rules": [
        {
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"],
            "resources": ["pods"]
        }
    ]});
    vec![
        (
            "a changed image (and everything else of the container)",
            kinds::DAEMON_SET,
            "multus",
            Merge(template(json!({"spec": {"containers": [container]}}))),
        ),
        (
            "a changed flag",
            kinds::DAEMON_SET,
            "multus",
            Merge(template(json!({"spec": {"hostNetwork": false}}))),
        ),
        (
            "a removed toleration",
            kinds::DAEMON_SET,
            "multus",
            Merge(template(json!({"spec": {"tolerations": []}}))),
        ),
        (
            "an added annotation on a template",
            kinds::DAEMON_SET,
            "ovs-cni-amd64",
            Merge(template(
                json!({"metadata": {"annotations": {"example.com/x": "y"}}}),
            )),
        ),
        (
            "an added label on a template",
            kinds::DAEMON_SET,
            "ovs-cni-amd64",
            Merge(template(
                json!({"metadata": {"labels": {"example.com/x": "y"}}}),
            )),
        ),
        (
            "an added node selector",
            kinds::DAEMON_SET,
            "bridge-marker",
            Merge(template(
                json!({"spec": {"nodeSelector": {"example.com/x": "y"}}}),
            )),
        ),
        (
            "a lost label of ours",
            kinds::DAEMON_SET,
            "bridge-marker",
            Merge(json!({"metadata": {"labels": {"weft.network/owner": null}}})),
        ),
        (
            "a lost owner",
            kinds::SERVICE_ACCOUNT,
            "multus",
            Merge(json!({"metadata": {"ownerReferences": null}})),
        ),
        (
            "a changed value of a ConfigMap",
            kinds::CONFIG_MAP,
            "multus-daemon-config",
            Merge(json!({"data": {"daemon-config.json": "{}"}})),
        ),
        (
            "an added key of a ConfigMap",
            kinds::CONFIG_MAP,
            "multus-daemon-config",
            Merge(json!({"data": {"example": "x"}})),
        ),
        (
            "other rules",
            kinds::CLUSTER_ROLE,
            "multus",
            Merge(json!({"rules": [rule()]})),
        ),
        (
            "another subject",
            kinds::CLUSTER_ROLE_BINDING,
            "multus",
            Merge(json!({
                "subjects": [
                    {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
                ]
            })),
        ),
        (
            "another direction",
            kinds::NETWORK_POLICY,
            "cnao-allow-egress-to-cluster-dns",
            Merge(json!({"spec": {"ingress": [{}], "policyTypes": ["Ingress", "Egress"]}})),
        ),
        (
            "another port",
            kinds::SERVICE,
            "kubemacpool-service",
            Merge(json!({
                "spec": {
                    "ports": [{"name": "x", "port": 1, "protocol": "TCP", "targetPort": 1}]
                }
            })),
        ),
        (
            "no webhook any more",
            kinds::MUTATING_WEBHOOK_CONFIGURATION,
            "kubemacpool-mutator",
            Merge(json!({"webhooks": []})),
        ),
        (
            "an added container",
            kinds::DAEMON_SET,
            "multus",
            Append(CONTAINERS, json!({"name": "x", "image": "example.com/x:1"})),
        ),
        (
            "an added container",
            kinds::DEPLOYMENT,
            "kubemacpool-cert-manager",
            Append(CONTAINERS, json!({"name": "x", "image": "example.com/x:1"})),
        ),
        (
            "an added variable",
            kinds::DEPLOYMENT,
            "kubemacpool-cert-manager",
            Append(
                "/spec/template/spec/containers/0/env",
                json!({"name": "X", "value": "y"}),
            ),
        ),
        (
            "an added argument",
            kinds::DEPLOYMENT,
            "kubemacpool-cert-manager",
            Append("/spec/template/spec/containers/0/args", json!("--x")),
        ),
        (
            "an added volume",
            kinds::DAEMON_SET,
            "multus",
            Append(
                "/spec/template/spec/volumes",
                json!({"name": "x", "emptyDir": {}}),
            ),
        ),
        (
            "an added toleration",
            kinds::DAEMON_SET,
            "multus",
            Append(
                "/spec/template/spec/tolerations",
                json!({"key": "x", "operator": "Exists"}),
            ),
        ),
        (
            "an added rule",
            kinds::CLUSTER_ROLE,
            "multus",
            Append("/rules", rule()),
        ),
        (
            "an added subject",
            kinds::CLUSTER_ROLE_BINDING,
            "multus",
            Append(
                "/subjects",
                json!({"kind": "ServiceAccount", "name": "default", "namespace": "default"}),
            ),
        ),
        (
            "an added peer",
            kinds::NETWORK_POLICY,
            "cnao-allow-egress-to-cluster-dns",
            Append("/spec/egress", json!({})),
        ),
        (
            "an added webhook",
            kinds::MUTATING_WEBHOOK_CONFIGURATION,
            "kubemacpool-mutator",
            Append("/webhooks", webhook),
        ),
    ]
}

async fn inventory(cluster: &Cluster) -> Inventory {
    let map = cluster
        .get(
            kinds::CONFIG_MAP,
            NAMESPACE,
            "weft-inventory-networkaddonsconfig-cluster",
        )
        .await
        .unwrap();
    Inventory::from_data(&map["data"]).unwrap()
}

/// The messages of the events about repairs, with their counts.
async fn repairs(cluster: &Cluster) -> BTreeMap<String, i64> {
    let events = [
        "get",
        "events.v1.events.k8s.io",
        "-n",
        "default",
        "-o",
        "json",
    ];
    let events: Value = serde_json::from_str(&cluster.kubectl(&events).await).unwrap();
    let events = events["items"].as_array().unwrap().iter();
    events
        .filter(|event| event["reason"] == "Repaired")
        .map(|event| {
            assert_eq!(
                event["regarding"]["kind"], "NetworkAddonsConfig",
                "{event:#}"
            );
            let note = event["note"].as_str().unwrap().to_owned();
            (note, event["series"]["count"].as_i64().unwrap_or(1))
        })
        .collect()
}

async fn wait_repairs(cluster: &Cluster, expected: &BTreeMap<String, i64>) {
    wait_until("each repair is an event", async || {
        let found = repairs(cluster).await;
        if found == *expected {
            Ok(())
        } else {
            Err(format!("{found:#?}, expected {expected:#?}"))
        }
    })
    .await;
}

#[tokio::test]
async fn each_repair_is_an_event_and_equal_ones_are_counted() {
    const MAP: &str = "multus-daemon-config";
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    let resource = json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": {"multus": {}},
    });
    cluster.install(&resource.to_string()).await;
    // The user's own changes add objects, change others, and remove some again.
    for (bridge, pull) in [(json!({}), "Always"), (json!(null), "IfNotPresent")] {
        let wish = json!({"spec": {"linuxBridge": bridge, "imagePullPolicy": pull}});
        cluster.patch_resource(wish).await;
        cluster.wait_available().await;
    }
    let mut expected = BTreeMap::new();
    wait_repairs(&cluster, &expected).await;

    // Another client writes two fields.
    let theirs = json!({"spec": {"template": {"spec": {
        "priorityClassName": "system-node-critical", "terminationGracePeriodSeconds": 7
    }}}});
    let theirs = theirs.to_string();
    let patch = |object: [&'static str; 2]| ["-n", NAMESPACE, "patch", object[0], object[1]];
    let edit = ["--field-manager=editor", "-p", &theirs];
    cluster
        .kubectl(&[&patch(["daemonset", "multus"])[..], &edit[..]].concat())
        .await;
    let edited = wait_until("an event names both fields", async || {
        let found = repairs(&cluster).await;
        let names = |note: &&String| {
            note.starts_with(&format!("repaired DaemonSet {NAMESPACE}/multus: "))
                && note.contains("priorityClassName is \"system-node-critical\" instead of ")
                && note.contains("terminationGracePeriodSeconds is 7 instead of 10")
                && note.ends_with(", written by editor")
        };
        found
            .keys()
            .find(names)
            .cloned()
            .ok_or(format!("{found:#?}"))
    })
    .await;
    expected.insert(edited, 1);
    wait_repairs(&cluster, &expected).await;

    // Another client removes a field. The object shows no manager of it.
    let remove = r#"[{"op": "remove", "path": "/data/daemon-config.json"}]"#;
    let remove = ["--type=json", "-p", remove];
    cluster
        .kubectl(&[&patch(["configmap", MAP])[..], &remove[..]].concat())
        .await;
    let removed = wait_until("an event names the field that is gone", async || {
        let found = repairs(&cluster).await;
        let names = |note: &&String| {
            note.starts_with(&format!("repaired ConfigMap {NAMESPACE}/{MAP}: data"))
                && note.ends_with(", removed by another client")
        };
        found
            .keys()
            .find(names)
            .cloned()
            .ok_or(format!("{found:#?}"))
    })
    .await;
    assert!(removed.contains(" is missing instead of "), "{removed}");
    expected.insert(removed, 1);
    wait_repairs(&cluster, &expected).await;

    // Another client deletes an object, again and again.
    let deleted = format!("repaired ServiceAccount {NAMESPACE}/multus: deleted by another client");
    for count in [1, 2, 3] {
        cluster
            .delete(kinds::SERVICE_ACCOUNT, NAMESPACE, "multus")
            .await;
        expected.insert(deleted.clone(), count);
        wait_repairs(&cluster, &expected).await;
    }
    cluster.wait_available().await;
}

#[tokio::test]
async fn a_deleted_object_with_a_finalizer_is_not_available() {
    let cluster = Cluster::start_default().await;
    let _operator = Operator::start_default(&cluster).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    for (kind, name) in [
        (kinds::DAEMON_SET, "multus"),
        (kinds::CONFIG_MAP, "multus-daemon-config"),
    ] {
        let old = cluster
            .patch(
                kind,
                NAMESPACE,
                name,
                json!({"metadata": {"finalizers": ["example.com/hold"]}}),
            )
            .await;
        cluster.delete(kind, NAMESPACE, name).await;
        let held = format!(
            "{name}: another user has deleted it, and it waits for the controllers of its finalizers example.com/hold."
        );
        let status = cluster
            .wait_condition("Degraded", "True", "FailedToApply", &held)
            .await;
        assert_eq!(condition(&status, "Available")["status"], "False");
        cluster
            .patch(
                kind,
                NAMESPACE,
                name,
                json!({"metadata": {"finalizers": null}}),
            )
            .await;
        cluster.wait_available().await;
        assert_ne!(
            cluster.get(kind, NAMESPACE, name).await.unwrap()["metadata"]["uid"],
            old["metadata"]["uid"]
        );
    }
}
