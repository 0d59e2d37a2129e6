//! Troubles that last until they are lifted.

use serde_json::json;
use weft_plan::{ObjectKey, kinds};
use weft_system_tests::{Cluster, NAMESPACE, OPERATOR, wait_until};
use weft_testenv::Stuck;

use crate::system::resistance::MIRROR;

use super::{
    deeds::{PULL_POLICIES, patch_if_there},
    world::{ADD_ONS, World},
};

/// Images whose pods do not become Ready, by the beginning of their name.
pub const STUCK: [(&str, Stuck); 3] = [
    ("observer.test/missing", Stuck::ImagePullBackOff),
    ("observer.test/crashing", Stuck::CrashLoopBackOff),
    ("observer.test/unready", Stuck::Unready),
];
/// Pods with this label, and the value `true`, are not Ready.
pub const NOT_READY: &str = "observer.test/not-ready";
/// The finalizer that holds an object.
const HOLD: &str = "observer.test/hold";
/// The DaemonSet whose image a policy changes.
pub const MARKER: &str = "bridge-marker";
/// The DaemonSet that a policy refuses.
const DENIED: &str = "multus";

/// A trouble that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A MutatingAdmissionPolicy gives the bridge marker the same image from another registry.
    Mirror,
    /// It gives the bridge marker another image.
    OtherImage,
    /// A ValidatingAdmissionPolicy refuses to create the DaemonSet of Multus, which is deleted.
    Denied,
    /// A finalizer of another controller holds an object that is deleted. With the index of its resource.
    Held(usize, ObjectKey),
    /// The pods of a workload are not Ready.
    NotReady(ObjectKey),
    /// The operator that Weft replaces runs.
    OtherOperator,
}

impl Trouble {
    /// The index of the resource that Weft cannot keep in order meanwhile.
    pub fn hinders(&self) -> Option<usize> {
        match self {
            Self::Mirror | Self::OtherImage | Self::Denied | Self::OtherOperator => Some(ADD_ONS),
            Self::Held(of, _) => Some(*of),
            Self::NotReady(_) => None,
        }
    }

    /// The object that Weft waits for before it applies the objects that come after it.
    pub fn obstacle(&self) -> Option<&str> {
        match self {
            Self::Held(_, key) => Some(&key.name),
            Self::Denied => Some(DENIED),
            _ => None,
        }
    }

    /// The text for the list of what happened.
    pub fn text(&self) -> String {
        match self {
            Self::Held(_, key) => format!("Held {}", key.human()),
            Self::NotReady(key) => format!("NotReady {}", key.human()),
            other => format!("{other:?}"),
        }
    }

    /// Makes it.
    pub async fn begin(&self, world: &World) {
        let cluster = &world.cluster;
        match self {
            Self::Mirror | Self::OtherImage => {
                let image = match self {
                    Self::Mirror => MIRROR,
                    _ => "\"other.example/other:v9\"",
                };
                enforce(cluster, &mutating(image, &world.user), MARKER).await;
                // Weft repairs this, and meets the policy.
                let edit =
                    json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 41}}}});
                patch_if_there(cluster, &daemon_set(MARKER), &edit).await;
            }
            Self::Denied => {
                enforce(cluster, &validating(&world.user), DENIED).await;
                delete_if_there(cluster, &daemon_set(DENIED)).await;
            }
            Self::Held(_, key) => {
                let hold = json!({"metadata": {"finalizers": [HOLD]}});
                patch_if_there(cluster, key, &hold).await;
                delete_if_there(cluster, key).await;
            }
            Self::NotReady(key) => {
                let label = json!({"metadata": {"labels": {NOT_READY: "true"}}});
                for pod in pods(cluster, key).await {
                    patch_if_there(cluster, &pod, &label).await;
                }
            }
            Self::OtherOperator => {
                let image = "quay.io/kubevirt/cluster-network-addons-operator:v0.102.0";
                let other = json!({"apiVersion": "apps/v1", "kind": "Deployment",
                    "metadata": {"name": OPERATOR, "namespace": NAMESPACE},
                    "spec": {"selector": {"matchLabels": {"name": OPERATOR}}, "template": {
                        "metadata": {"labels": {"name": OPERATOR}},
                        "spec": {"containers": [{"name": OPERATOR, "image": image}]}}}});
                cluster.apply(&other.to_string()).await;
            }
        }
    }

    /// Ends it. Where Weft tries again only after pauses of up to five minutes, the user changes the
    /// resource, because Weft carries out a change at once.
    pub async fn lift(&self, world: &World) {
        let cluster = &world.cluster;
        match self {
            Self::Mirror | Self::OtherImage => {
                let policies = "mutatingadmissionpolicybinding,mutatingadmissionpolicy";
                cluster.kubectl(&["delete", policies, NAME]).await;
                until_probe(cluster, MARKER, Probed::Unchanged).await;
                touch(world).await;
            }
            Self::Denied => {
                let policies = "validatingadmissionpolicybinding,validatingadmissionpolicy";
                cluster.kubectl(&["delete", policies, NAME]).await;
                until_probe(cluster, DENIED, Probed::Unchanged).await;
                touch(world).await;
            }
            Self::Held(_, key) => {
                patch_if_there(cluster, key, &json!({"metadata": {"finalizers": null}})).await;
            }
            Self::NotReady(_) => {
                let (those, none) = (format!("{NOT_READY}=true"), format!("{NOT_READY}-"));
                cluster
                    .kubectl(&["label", "pods", "--all-namespaces", "-l", &those, &none])
                    .await;
            }
            Self::OtherOperator => {
                cluster
                    .kubectl(&["-n", NAMESPACE, "delete", "deployment", OPERATOR])
                    .await;
            }
        }
    }
}

/// The name of the policies.
const NAME: &str = "observer";
/// The image of a probe that no policy concerns.
const BEFORE: &str = "r/before:v1";

/// The policies concern the operator, and the probe in the namespace `default`. The observer's own
/// dry runs show what Weft wants.
fn concerned(name: &str, user: &str) -> String {
    format!(
        r#"object.metadata.name == "{name}" && (request.userInfo.username == "{user}" || object.metadata.namespace == "default")"#
    )
}

fn mutating(image: &str, user: &str) -> String {
    let concerned = concerned(MARKER, user);
    format!(
        r#"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: {NAME}}}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [daemonsets]}}
  matchConditions:
  - name: concerned
    expression: '{concerned}'
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        [JSONPatch{{op: "replace", path: "/spec/template/spec/containers/0/image", value: {image}}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: {NAME}}}
spec: {{policyName: {NAME}}}
"#
    )
}

fn validating(user: &str) -> String {
    let concerned = concerned(DENIED, user);
    format!(
        r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: {NAME}}}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [daemonsets]}}
  matchConditions:
  - name: concerned
    expression: '{concerned}'
  validations: [{{expression: "false", message: the observer permits no Multus}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: {NAME}}}
spec: {{policyName: {NAME}, validationActions: [Deny]}}
"#
    )
}

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probed {
    Unchanged,
    Changed,
}

/// Applies a policy, and waits until it is in force.
async fn enforce(cluster: &Cluster, policy: &str, name: &str) {
    cluster.apply(policy).await;
    until_probe(cluster, name, Probed::Changed).await;
}

/// Tries to create a DaemonSet of this name until the policies do this to it.
async fn until_probe(cluster: &Cluster, name: &str, wanted: Probed) {
    let probe = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "a", "image": BEFORE}]}}}})
    .to_string();
    let image = "jsonpath={.spec.template.spec.containers[0].image}";
    let arguments = ["create", "--dry-run=server", "-o", image, "-f", "-"];
    wait_until(&format!("a probe is {wanted:?}"), async || {
        let tried = cluster
            .control_plane
            .kubectl_with_input(&arguments, &probe)
            .await;
        let found = match &tried {
            Ok(image) if image == BEFORE => Probed::Unchanged,
            _ => Probed::Changed,
        };
        if found == wanted {
            Ok(())
        } else {
            Err(format!("{tried:?}"))
        }
    })
    .await;
}

/// Changes a field of the add-ons that all their workloads have, and corrects the part that may be
/// invalid.
async fn touch(world: &World) {
    let Some(live) = world.live(ADD_ONS).await else {
        return;
    };
    let now = &live["spec"]["imagePullPolicy"];
    let other = PULL_POLICIES.iter().find(|policy| *now != **policy);
    let patch = json!({"spec": {"imagePullPolicy": other, "resources": null}});
    patch_if_there(&world.cluster, &world.subjects[ADD_ONS].key(), &patch).await;
}

fn daemon_set(name: &str) -> ObjectKey {
    ObjectKey::new(kinds::DAEMON_SET, NAMESPACE, name)
}

/// The pods of a workload.
async fn pods(cluster: &Cluster, of: &ObjectKey) -> Vec<ObjectKey> {
    let namespace = of.namespace.as_deref().unwrap_or_default();
    let list = cluster
        .api(kinds::POD, namespace)
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    let names = list.items.into_iter().filter_map(|pod| pod.metadata.name);
    let prefix = format!("{}-", of.name);
    names
        .filter(|name| name.starts_with(&prefix))
        .map(|name| ObjectKey::new(kinds::POD, namespace, &name))
        .collect()
}

/// Deletes an object if it is there, and does not wait until it is gone.
pub async fn delete_if_there(cluster: &Cluster, key: &ObjectKey) {
    let api = cluster.api(key.kind, key.namespace.as_deref().unwrap_or_default());
    match api
        .delete(&key.name, &kube::api::DeleteParams::default())
        .await
    {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("delete {}: {error}", key.human()),
    }
}

/// Reports whether all that differs is the image.
pub fn is_image_only(fields: &[String]) -> bool {
    fields.iter().all(|field| {
        field
            .split(' ')
            .next()
            .is_some_and(|path| path.ends_with("/image"))
    })
}
