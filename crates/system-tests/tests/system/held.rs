//! Drift that stays because the resource asks for that: `driftPolicy: Report`, and the pause
//! annotation.

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, process::Command};
use weft_plan::{PAUSE_ANNOTATION, kinds};
use weft_testenv::AuditEvent;

use crate::system::{deletion::gone, harness::*};

const RESOURCE: &str = "
apiVersion: networkaddonsoperator.network.kubevirt.io/v1
kind: NetworkAddonsConfig
metadata: {name: cluster}
spec: {multus: {}, linuxBridge: {}, kubevirtIpamController: {}, driftPolicy: Report}
";
const INVENTORY: &str = "weft-inventory-networkaddonsconfig-cluster";

#[tokio::test]
async fn under_report_drift_is_left_and_told_and_what_is_asked_for_anew_is_done() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    cluster.apply(RESOURCE).await;
    cluster.wait_available().await;
    let before = cluster.snapshot().await;

    // Changed, added, and without the label by which Weft watches.
    cluster
        .patch(
            kinds::DAEMON_SET,
            NAMESPACE,
            "multus",
            json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 11}}}}),
        )
        .await;
    cluster
        .patch(
            kinds::CONFIG_MAP,
            NAMESPACE,
            "multus-daemon-config",
            json!({"data": {"theirs": "x"}}),
        )
        .await;
    cluster
        .patch(
            kinds::DAEMON_SET,
            NAMESPACE,
            "bridge-marker",
            json!({"metadata": {"labels": {"weft.network/owner": null}}}),
        )
        .await;
    let status = wait_drift(
        &cluster,
        &[
            "ConfigMap multus-daemon-config Changed",
            "DaemonSet bridge-marker Changed",
            "DaemonSet multus Changed",
        ],
    )
    .await;
    assert_eq!(
        field(&status, "multus"),
        json!({
            "path": "spec.template.spec.terminationGracePeriodSeconds", "desired": "10",
            "actual": "11"
        }),
        "{status:#}"
    );
    let added = field(&status, "multus-daemon-config");
    assert_eq!(
        (&added["addedBy"], &added["actual"], &added["desired"]),
        (&"somebody".into(), &"\"x\"".into(), &Value::Null)
    );
    cluster.wait_available_and(&["Drifted"]).await;
    let live = cluster
        .get(kinds::DAEMON_SET, NAMESPACE, "multus")
        .await
        .unwrap();
    assert_eq!(
        live["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 11,
        "it is left: {live:#}"
    );
    operator.wait_metric("weft_drifted_objects", 3.0).await;
    let plan = weft(&cluster, &["plan", "-f", "-"], RESOURCE).await;
    assert!(
        plan.contains(
            "? DaemonSet cluster-network-addons/multus: left as it is: driftPolicy is Report"
        ),
        "{plan}"
    );
    assert!(plan.contains("nothing would change"), "{plan}");
    let shown = weft(&cluster, &["status"], "").await;
    assert!(
        shown.contains("spec.template.spec.terminationGracePeriodSeconds is 11, should be 10"),
        "{shown}"
    );
    wait_until("an event tells of it", async || {
        if events(&cluster, "Drifted").await.is_empty() {
            Err("no".into())
        } else {
            Ok(())
        }
    })
    .await;

    // A reconcile finds nothing to do, and sends no needless request.
    // The events of the last status may come after it.
    let seen = cluster.audit().len();
    a_pass(&cluster, &operator).await;
    let mut written = cluster.audit().split_off(seen);
    written.retain(|event| {
        event.is_write() && !["leases", "events"].contains(&event.resource.as_str())
    });
    assert!(written.is_empty(), "{written:#?}");
    assert_eq!(
        events(&cluster, "Drifted").await.len(),
        1,
        "said once, though three things were done"
    );

    // Deleted.
    cluster.delete(kinds::CLUSTER_ROLE, "", "multus").await;
    let status = cluster
        .wait_condition(
            "Degraded",
            "True",
            "ObjectsMissing",
            "ClusterRole multus (missing)",
        )
        .await;
    assert_eq!(condition(&status, "Available")["status"], "False");
    let multus = status["components"]
        .as_array()
        .unwrap()
        .iter()
        .find(|component| component["name"] == "multus")
        .unwrap();
    assert_eq!(multus["state"], "Degraded", "{multus:#}");

    // A certificate that is of no use is recreated all the same.
    cluster
        .patch(
            kinds::SECRET,
            NAMESPACE,
            "webhook-server-cert",
            json!({"data": {"tls.crt": ""}}),
        )
        .await;
    wait_until("the certificate is whole again", async || {
        let secret = cluster
            .get(kinds::SECRET, NAMESPACE, "webhook-server-cert")
            .await
            .ok_or("it is gone")?;
        if secret["data"]["tls.crt"] == "" {
            Err("it is empty".to_owned())
        } else {
            Ok(())
        }
    })
    .await;

    // A new wish is carried out where it concerns something, also by an operator that has just
    // started.
    operator.terminate().await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .patch_resource(json!({"spec": {"imagePullPolicy": "Never"}}))
        .await;
    wait_drift(
        &cluster,
        &[
            "ClusterRole multus Missing",
            "ConfigMap multus-daemon-config Changed",
        ],
    )
    .await;
    let live = cluster
        .get(kinds::DAEMON_SET, NAMESPACE, "multus")
        .await
        .unwrap();
    let pod = &live["spec"]["template"]["spec"];
    assert_eq!(
        (
            &pod["containers"][0]["imagePullPolicy"],
            &pod["terminationGracePeriodSeconds"]
        ),
        (&"Never".into(), &10.into())
    );
    assert_eq!(cluster.get(kinds::CLUSTER_ROLE, "", "multus").await, None);

    // Back to Repair: all of it at once.
    cluster
        .patch_resource(json!({"spec": {"imagePullPolicy": null, "driftPolicy": "Repair"}}))
        .await;
    let resource = cluster.wait_available().await;
    assert_eq!(resource["status"]["drift"], Value::Null);
    operator.wait_metric("weft_drifted_objects", 0.0).await;
    let inventory = cluster
        .get(kinds::CONFIG_MAP, NAMESPACE, INVENTORY)
        .await
        .unwrap();
    assert_eq!(
        inventory["data"]["applied"],
        Value::Null,
        "digests are kept only where they are needed"
    );
    let mut before = before;
    // As they were but for the pull policy, which is kept once it was set, and what was decided.
    before
        .objects
        .retain(|name, _| name.contains("multus") && !name.contains("DaemonSet"));
    cluster
        .wait_same(&before, "after the return to Repair")
        .await;
}

#[tokio::test]
async fn during_a_pause_nothing_is_written_but_status() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .apply(&RESOURCE.replace(", driftPolicy: Report", ""))
        .await;
    cluster.wait_available().await;
    let mut before = cluster.snapshot().await;
    // We write into this one below.
    before
        .objects
        .retain(|name, _| !name.starts_with("NetworkAddonsConfig"));

    annotate(&cluster, json!("true")).await;
    cluster.wait_available_and(&["Paused"]).await;
    let since = cluster.audit().len();
    cluster
        .patch(
            kinds::DAEMON_SET,
            NAMESPACE,
            "multus",
            json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 11}}}}),
        )
        .await;
    wait_drift(&cluster, &["DaemonSet multus Changed"]).await;
    cluster.wait_available_and(&["Paused", "Drifted"]).await;

    // Something else is asked for, another operator begins, and a certificate is lost.
    cluster
        .patch_resource(json!({"spec": {"ovs": {}, "linuxBridge": null}}))
        .await;
    let status = cluster
        .wait_condition("Available", "False", "ResourcePaused", "")
        .await;
    assert_eq!(
        condition(&status, "Degraded")["status"],
        "False",
        "it is not there yet, which is no failure: {status:#}"
    );
    operator.terminate().await;
    cluster
        .delete(kinds::SECRET, NAMESPACE, "webhook-server-cert")
        .await;
    let operator = Operator::start_default(&cluster).await;
    wait_until("the lost certificate is told", async || {
        let status = cluster.status().await;
        if condition(&status, "Drifted")["message"]
            .to_string()
            .contains("webhook-server-cert (missing)")
        {
            Ok(())
        } else {
            Err(format!("{status:#}"))
        }
    })
    .await;
    let plan = weft(
        &cluster,
        &["plan", "-f", "-"],
        &RESOURCE
            .replace("linuxBridge", "ovs")
            .replace(", driftPolicy: Report", ""),
    )
    .await;
    assert!(
        plan.contains("paused: the annotation weft.network/pause is \"true\"")
            && plan.contains("+ DaemonSet"),
        "{plan}"
    );
    a_pass(&cluster, &operator).await;
    let written: Vec<_> = cluster
        .audit()
        .split_off(since)
        .into_iter()
        .filter(is_work)
        .collect();
    assert!(written.is_empty(), "{written:#?}");
    assert!(
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "bridge-marker")
            .await
            .is_some()
    );

    // The end of the pause: all of it at once.
    cluster
        .patch_resource(json!({"spec": {"ovs": null, "linuxBridge": {}}}))
        .await;
    annotate(&cluster, Value::Null).await;
    cluster.wait_available().await;
    cluster.wait_same(&before, "after the pause").await;

    // A deletion waits, too. The value `yes` pauses, too.
    annotate(&cluster, json!("yes")).await;
    cluster
        .wait_condition(
            "Paused",
            "True",
            "Annotated",
            "is \"yes\", which counts as true",
        )
        .await;
    let since = cluster.audit().len();
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--wait=false"])
        .await;
    let status = cluster
        .wait_condition("Available", "False", "Removing", "")
        .await;
    assert_eq!(
        condition(&status, "Progressing")["reason"],
        "ResourcePaused",
        "{status:#}"
    );
    let written: Vec<_> = cluster
        .audit()
        .split_off(since)
        .into_iter()
        .filter(is_work)
        .collect();
    assert!(written.is_empty(), "{written:#?}");
    annotate(&cluster, json!("false")).await;
    gone(&cluster).await;
}

#[tokio::test]
async fn a_resource_that_is_paused_from_the_start_is_not_begun() {
    let cluster = Cluster::start_default().await;
    let _operator = Operator::start_default(&cluster).await;
    let paused = RESOURCE.replace(
        "{name: cluster}",
        "{name: cluster, annotations: {weft.network/pause: 'true'}}",
    );
    cluster.apply(&paused).await;
    let status = cluster
        .wait_condition("Available", "False", "ResourcePaused", "")
        .await;
    assert!(
        condition(&status, "Drifted")["message"]
            .as_str()
            .unwrap()
            .contains("more"),
        "{status:#}"
    );
    let written: Vec<_> = cluster.audit().into_iter().filter(is_work).collect();
    assert!(written.is_empty(), "{written:#?}");
    assert_eq!(
        cluster.resource().await.unwrap()["metadata"]["finalizers"],
        Value::Null
    );
    annotate(&cluster, Value::Null).await;
    cluster.wait_available().await;
}

/// Returns true for a write other than those of status, events and leases.
fn is_work(event: &AuditEvent) -> bool {
    event.is_write()
        && event.subresource != "status"
        && !matches!(event.resource.as_str(), "leases" | "events")
}

async fn annotate(cluster: &Cluster, value: Value) {
    cluster
        .patch_resource(json!({"metadata": {"annotations": {PAUSE_ANNOTATION: value}}}))
        .await;
}

/// Makes the operator look, and waits until it has.
async fn a_pass(cluster: &Cluster, operator: &Operator) {
    operator.wait_leading().await;
    let before = operator.metric("weft_passes_total").await;
    cluster
        .patch_resource(json!({
            "metadata": {"annotations": {"example.com/note": format!("after {before} passes")}}
        }))
        .await;
    operator.wait_passes_beyond(before).await;
}

/// Waits until status lists just these objects.
async fn wait_drift(cluster: &Cluster, wanted: &[&str]) -> Value {
    wait_until(&format!("the drift is {wanted:?}"), async || {
        let status = cluster.status().await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut found: Vec<_> = (status["drift"].as_array().into_iter().flatten())
            .map(|drift| {
                format!(
                    "{} {} {}",
                    text(&drift["kind"]),
                    text(&drift["name"]),
                    text(&drift["state"])
                )
            })
            .collect();
        found.sort();
        if found == wanted {
            Ok(status)
        } else {
            Err(format!("{status:#}"))
        }
    })
    .await
}

/// The first field of an object in `status.drift`.
fn field(status: &Value, name: &str) -> Value {
    let found = status["drift"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|drift| drift["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not listed: {status:#}"))["fields"][0].clone()
}

async fn events(cluster: &Cluster, reason: &str) -> Vec<Value> {
    let text = cluster
        .kubectl(&["-n", "default", "get", "events.events.k8s.io", "-o", "json"])
        .await;
    let list: Value = serde_json::from_str(&text).unwrap();
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["reason"] == reason)
        .cloned()
        .collect()
}

async fn weft(cluster: &Cluster, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(weft_binary());
    command
        .args(arguments)
        .env("KUBECONFIG", cluster.control_plane.kubeconfig());
    for pipe in [Command::stdin, Command::stdout, Command::stderr] {
        pipe(&mut command, std::process::Stdio::piped());
    }
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .await
        .unwrap();
    let output = answer_within(COMMAND_LIMIT, "weft", child.wait_with_output())
        .await
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}
