//! Others change what Weft applies: an admission policy, or a client that writes a field again each
//! time. Weft says who, and does not write for ever.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use weft_plan::{Kind, kinds};
use weft_testenv::skips;

use crate::system::harness::*;

pub(super) const MARKER: &str = "bridge-marker";

/// The kinds of [`policy`] and [`WEBHOOK`].
const ADMISSION: &str =
    "mutatingwebhookconfiguration,mutatingadmissionpolicybinding,mutatingadmissionpolicy";

/// A webhook for the same objects. Nobody serves it, and the API server goes on without it.
const WEBHOOK: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: images}
webhooks:
- name: images.mesh.example
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  timeoutSeconds: 1
  clientConfig: {url: "https://127.0.0.1:1/images"}
  rules:
  - {apiGroups: [apps], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"]}
"#;

/// Reports whether the API server serves such policies, as it does by default since Kubernetes 1.36.
/// Else `test` leaves out what needs them, and must be listed in `testenv/skips-versions`. Fails if a
/// version from then on does not serve them: the test would leave out what it is there for.
pub async fn serves_policies(cluster: &Cluster, test: &str) -> bool {
    let group = "--api-group=admissionregistration.k8s.io";
    let names = cluster
        .kubectl(&["api-resources", group, "-o", "name"])
        .await;
    let is_served = names.contains("mutatingadmissionpolicies.");
    let version = cluster.kubectl(&["version", "-o", "json"]).await;
    let version: Value = serde_json::from_str(&version).unwrap();
    let minor = version["serverVersion"]["minor"].as_str();
    let minor: u32 = minor.and_then(|minor| minor.parse().ok()).unwrap();
    assert_eq!(is_served, minor >= 36, "Kubernetes 1.{minor}: {names}");
    if !is_served {
        skips::skip_on_version(test, minor, "serves no MutatingAdmissionPolicies");
    }
    is_served
}

/// A policy that gives the containers of all DaemonSets an image.
pub(super) fn policy(image: &str) -> String {
    policy_about(kinds::DAEMON_SET, image)
}

/// The same for another kind of workload.
pub(super) fn policy_about(kind: Kind, image: &str) -> String {
    let resource = kind.plural;
    format!(
        r#"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: images}}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [{resource}]}}
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        [JSONPatch{{op: "replace", path: "/spec/template/spec/containers/0/image", value: {image}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: images}}
spec: {{policyName: images}}
"#
    )
}

/// The image of the same name in a registry that is a mirror, in CEL.
pub const MIRROR: &str = r#""mirror.example/" + object.spec.template.spec.containers[0].image.split("/")[object.spec.template.spec.containers[0].image.split("/").size() - 1]"#;

pub(super) async fn enforce(cluster: &Cluster, policy: &str) {
    enforce_about(kinds::DAEMON_SET, cluster, policy).await;
}

/// The same for a policy about another kind of workload.
pub(super) async fn enforce_about(kind: Kind, cluster: &Cluster, policy: &str) {
    cluster.apply(policy).await;
    wait_until("the policy works", async || {
        let probe = json!({
            "apiVersion": "apps/v1", "kind": kind.kind, "metadata": {"name": "probe", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "r/before:v1"}]}},
            },
        });
        let file = cluster.control_plane.dir().join("probe.json");
        std::fs::write(&file, probe.to_string()).unwrap();
        let arguments = ["apply", "--dry-run=server", "-o", "jsonpath={.spec.template.spec.containers[0].image}", "-f", file.to_str().unwrap()];
        let image = cluster.kubectl(&arguments).await;
        if image == "r/before:v1" { Err(image) } else { Ok(()) }
    })
    .await;
}

async fn image(cluster: &Cluster) -> String {
    let marker = cluster.get(kinds::DAEMON_SET, NAMESPACE, MARKER).await;
    let marker = marker.unwrap_or_default();
    let image = &marker["spec"]["template"]["spec"]["containers"][0]["image"];
    image.as_str().unwrap_or_default().to_owned()
}

/// The writes of the operator on the marker.
fn writes(cluster: &Cluster) -> usize {
    write_times(cluster).len()
}

fn write_times(cluster: &Cluster) -> Vec<Timestamp> {
    let is_write = |event: &weft_testenv::AuditEvent| {
        event.user == OPERATOR_USER
            && event.name == MARKER
            && event.resource == "daemonsets"
            && matches!(&*event.verb, "patch" | "update" | "create")
    };
    let audit = cluster.audit();
    let writes = audit.iter().filter(|event| is_write(event));
    writes.map(|event| event.received).collect()
}

async fn installed(cluster: &Cluster) {
    let resource = json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": {"linuxBridge": {}},
    });
    cluster.apply(&resource.to_string()).await;
}

/// Deletes another object of the same component, and waits until Weft has made it again.
async fn account_comes_back(cluster: &Cluster) {
    cluster
        .delete(kinds::SERVICE_ACCOUNT, NAMESPACE, MARKER)
        .await;
    wait_until("the account is there again", async || {
        let account = cluster.get(kinds::SERVICE_ACCOUNT, NAMESPACE, MARKER).await;
        account.map(drop).ok_or("not yet".to_owned())
    })
    .await;
}

async fn is_undisturbed(cluster: &Cluster, wanted: &str) {
    wait_until("the marker is as it should be", async || {
        let (image, status) = (image(cluster).await, cluster.status().await);
        match condition(&status, "Drifted") {
            Value::Null if image == wanted => Ok(()),
            drifted => Err(format!("{image}, {drifted}")),
        }
    })
    .await;
    cluster.wait_available().await;
}

#[tokio::test]
async fn a_policy_that_changes_what_is_applied_is_reported_and_not_fought() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let test = "a_policy_that_changes_what_is_applied_is_reported_and_not_fought";
    if !serves_policies(&cluster, test).await {
        return;
    }
    let operator = Operator::start_default(&cluster).await;
    installed(&cluster).await;
    cluster.wait_available().await;
    let wanted = image(&cluster).await;
    let (_, name) = wanted.rsplit_once('/').unwrap();

    // A mirror leaves the task as it is.
    enforce(&cluster, &policy(MIRROR)).await;
    let at_first = writes(&cluster);
    let mirrored = format!("mirror.example/{name}");
    let change = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}});
    cluster
        .patch(kinds::DAEMON_SET, NAMESPACE, MARKER, change)
        .await;
    let differs = format!("is \"{mirrored}\" instead of \"{wanted}\"");
    let says = format!("{differs}; MutatingAdmissionPolicy \"images\" may do it)");
    let status = cluster
        .wait_condition("Drifted", "True", "Altered", &says)
        .await;
    assert_eq!(status["drift"][0]["state"], "Altered", "{status:#}");
    operator.wait_metric("weft_drifted_objects", 1.0).await;
    cluster.wait_available_and(&["Drifted"]).await;
    let before = writes(&cluster);
    // Reconciles go on.
    cluster
        .patch_resource(json!({"metadata": {"annotations": {"example.com/note": "look"}}}))
        .await;
    account_comes_back(&cluster).await;
    let more = writes(&cluster) - before;
    // Those that follow the beginning of the watches.
    assert!(more <= 4, "{more} writes without a reason");

    // From now on nobody touches the resource or its objects. The operator sees that there is a
    // webhook, and names it.
    cluster.apply(WEBHOOK).await;
    let both = "MutatingAdmissionPolicy \"images\", webhook \"images.mesh.example\" of MutatingWebhookConfiguration \"images\" may do it)";
    cluster
        .wait_condition("Drifted", "True", "Altered", both)
        .await;

    // Another program does not do the task.
    enforce(&cluster, &policy("\"other.example/other:v9\"")).await;
    let status = cluster
        .wait_condition(
            "Degraded",
            "True",
            "ObjectsAltered",
            "other.example/other:v9",
        )
        .await;
    assert_eq!(
        condition(&status, "Available")["status"],
        "False",
        "{status:#}"
    );

    let components = status["components"].as_array().unwrap();
    assert!(
        components.iter().any(|one| one["state"] == "Degraded"),
        "{status:#}"
    );

    let all = writes(&cluster) - at_first;
    assert!(all <= 30, "{all} writes while others change the object");

    cluster.kubectl(&["delete", ADMISSION, "images"]).await;
    // The pause after so many writes is longer than this. Only a watch ends it.
    let soon = Duration::from_secs(30);
    wait_within(soon, "the operator puts the image right", async || {
        let image = image(&cluster).await;
        if image == wanted { Ok(()) } else { Err(image) }
    })
    .await;
    is_undisturbed(&cluster, &wanted).await;
}

#[tokio::test]
async fn a_client_that_writes_a_field_again_each_time_is_named_and_meets_pauses() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let operator = Operator::start_default(&cluster).await;
    installed(&cluster).await;
    cluster.wait_available().await;
    let wanted = image(&cluster).await;
    let theirs = json!({"spec": {"template": {"spec": {"containers": [{"name": MARKER, "image": "theirs.example/x:v1"}]}}}}).to_string();
    let fight = async || {
        let patch = [
            "-n",
            NAMESPACE,
            "patch",
            "daemonset",
            MARKER,
            "--field-manager=image-updater",
            "-p",
            &theirs,
        ];
        loop {
            wait_until("Weft has repaired the image", async || {
                let image = image(&cluster).await;
                if image == wanted { Ok(()) } else { Err(image) }
            })
            .await;
            cluster.kubectl(&patch).await;
        }
    };
    let before = writes(&cluster);
    let is_reported = async {
        cluster
            .wait_condition("Drifted", "True", "Contested", "by image-updater")
            .await
    };
    tokio::select! {
        () = fight() => unreachable!("the loop has no end"),
        status = is_reported => assert_eq!(condition(&status, "Available")["status"], "False", "{status:#}"),
    }
    let series = format!(
        r#"weft_contested_fields{{domain="addons",kind="DaemonSet",namespace="{NAMESPACE}",name="{MARKER}",field="spec.template.spec.containers[name={MARKER}].image",manager="image-updater"}} 1"#
    );
    let is_counted = wait_until("a metric names field and manager", async || {
        let (_, _, text) = operator.http("/metrics").await;
        text.lines()
            .any(|line| line == series)
            .then_some(())
            .ok_or(text)
    });
    tokio::select! {
        () = fight() => unreachable!("the loop has no end"),
        () = is_counted => {}
    }
    // The first five repairs follow at once. Before the sixth the operator waits at least 5 s, and
    // before the seventh 10 s.
    let seventh = wait_until("there are seven repairs", async || {
        let repairs = write_times(&cluster).split_off(before);
        match repairs.len() >= 7 {
            true => Ok(repairs),
            false => Err(format!("{repairs:?}")),
        }
    });
    let repairs = tokio::select! {
        () = fight() => unreachable!("the loop has no end"),
        repairs = seventh => repairs,
    };
    let pauses = repairs[6].duration_since(repairs[4]);
    assert!(pauses >= SignedDuration::from_secs(15), "{repairs:?}");
    wait_until("an event names the repair", async || {
        let path = r#"jsonpath={range .items[?(@.reason=="Repaired")]}{.note}{"\n"}{end}"#;
        let events = [
            "get",
            "events.v1.events.k8s.io",
            "-n",
            "default",
            "-o",
            path,
        ];
        let notes = cluster.kubectl(&events).await;
        let names = format!("DaemonSet {NAMESPACE}/{MARKER}: ");
        let is_named = notes.contains(&names) && notes.contains("written by image-updater");
        is_named.then_some(()).ok_or(notes)
    })
    .await;
    // Every other object is repaired at once.
    account_comes_back(&cluster).await;
    is_undisturbed(&cluster, &wanted).await;
    operator.wait_metric("weft_contested_fields", 0.0).await;
}

#[tokio::test]
async fn an_object_that_another_one_controls_names_it_and_the_way_out() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    installed(&cluster).await;
    cluster.wait_available().await;
    let other = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "mine", "namespace": NAMESPACE},
    });
    cluster.apply(&other.to_string()).await;
    let other = cluster.get(kinds::CONFIG_MAP, NAMESPACE, "mine").await;
    let controller = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "controller": true,
        "uid": other.unwrap()["metadata"]["uid"],
    });
    let patch = json!({"metadata": {"ownerReferences": [controller]}});
    cluster
        .patch(kinds::SERVICE_ACCOUNT, NAMESPACE, MARKER, patch)
        .await;
    let begin = "ConfigMap mine controls it (metadata.ownerReferences[0] has controller: true)";
    let status = cluster
        .wait_condition("Degraded", "True", "FailedToApply", begin)
        .await;
    let degraded = condition(&status, "Degraded");
    let message = degraded["message"].as_str().unwrap();
    let (_, command) = message.split_once("To release it: ").unwrap();
    let command = command.lines().next().unwrap();
    // Word for word, as a user would.
    let kubectl = cluster.control_plane.programs().get("kubectl").unwrap();
    let line = command.replacen("kubectl", &kubectl.display().to_string(), 1);
    let done = std::process::Command::new("sh")
        .args(["-c", &line])
        .env("KUBECONFIG", cluster.control_plane.kubeconfig())
        .output()
        .unwrap();
    assert!(done.status.success(), "{line}: {done:?}");
    cluster.wait_available().await;
}
