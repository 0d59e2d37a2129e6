//! A cluster with Weft installed as a user installs it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::AtomicUsize,
    time::{Duration, Instant},
};

use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use weft_plan::{Kind, ObjectKey, kinds};
use weft_testenv::{AuditEvent, ControlPlane, Lent, Stage, played};

use super::{
    PATIENCE, health, program, reasons,
    snapshot::{self, Snapshot},
    wait_until, wait_within,
};

/// The namespace of the operands and, with `--split`, of the operator, as shipped.
pub const NAMESPACE: &str = "cluster-network-addons";
/// The name of the operator's Deployment and ServiceAccount, as shipped with `--split`.
pub const OPERATOR: &str = "cluster-network-addons-operator";
/// User name of the operator, as the API server sees it.
pub const OPERATOR_USER: &str =
    "system:serviceaccount:cluster-network-addons:cluster-network-addons-operator";

/// The API server looks for a minute if objects of a definition are left, and then begins again.
const DEFINITION_GONE: Duration = Duration::from_secs(180);
/// Longer than the API server takes to remove a definition without objects.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// Properties of a [`Cluster`].
pub struct ClusterOptions {
    /// kwok nodes, `node-1` and so on.
    pub nodes: usize,
    /// Stages that replace "Ready at once" for some pods.
    pub stages: Vec<Stage>,
    /// Arguments of `weft manifests`.
    pub manifests: &'static [&'static str],
    /// Kind and name of the operator's resource. NetworkAddonsConfig `cluster` by default.
    pub resource: (Kind, &'static str),
    /// The namespace of that, where its kind has namespaces.
    pub resource_namespace: &'static str,
    /// The test takes permissions away. Otherwise every 403 that the operator ever gets fails the
    /// test: a rule is missing then.
    pub may_be_forbidden: bool,
    /// The cluster serves the kinds of KubeVirt, without which two add-ons wait.
    pub kubevirt: bool,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        let resource = (kinds::NETWORK_ADDONS_CONFIG, "cluster");
        Self {
            nodes: 2,
            stages: Vec::new(),
            manifests: &["--split", "--domains", "addons"],
            resource,
            resource_namespace: "",
            may_be_forbidden: false,
            kubevirt: true,
        }
    }
}

/// A running control plane with the output of `weft manifests` applied. The operator itself is
/// started by [`Operator::start`](super::Operator::start): kwok runs no containers.
pub struct Cluster {
    /// The control plane.
    pub control_plane: Lent,
    /// The operator's Deployment or DaemonSet. Its ServiceAccount has the same name.
    pub operator: ObjectKey,
    resource: (Kind, &'static str),
    resource_namespace: &'static str,
    /// Arguments of the operator's container, as shipped.
    pub(super) operator_args: Vec<String>,
    /// Its environment, as shipped and as the kubelet fills it in.
    pub(super) operator_env: BTreeMap<String, String>,
    pub(super) operators_started: AtomicUsize,
    /// Uids of the objects before any NetworkAddonsConfig.
    pub(super) before: snapshot::Uids,
    may_be_forbidden: bool,
}

impl Cluster {
    /// Borrows a control plane and installs Weft in it by `weft manifests | kubectl apply -f -`,
    /// with the namespaces that it asks for.
    pub async fn start(options: ClusterOptions) -> Self {
        let mut builder = ControlPlane::builder().nodes(options.nodes);
        for stage in &options.stages {
            builder = builder.stage(stage.clone());
        }
        let control_plane = builder.lend().await.expect("the control plane starts");
        Self::install_on(control_plane, &manifests(options.manifests), &options).await
    }

    /// Installs these manifests in a control plane that runs, by `kubectl apply -f -`.
    pub async fn install_on(
        control_plane: impl Into<Lent>,
        manifests: &str,
        options: &ClusterOptions,
    ) -> Self {
        let control_plane = control_plane.into();
        let mut all = manifests.to_owned();
        if options.kubevirt && options.resource.0 == kinds::NETWORK_ADDONS_CONFIG {
            all = format!("{all}\n---\n{}", played::KUBEVIRT);
        }
        control_plane
            .kubectl_with_input(&["apply", "-f", "-"], &all)
            .await
            .expect("the shipped manifests apply");
        let mut cluster = Self {
            control_plane,
            operator: operator(manifests),
            resource: options.resource,
            resource_namespace: options.resource_namespace,
            operator_args: Vec::new(),
            operator_env: BTreeMap::new(),
            operators_started: AtomicUsize::new(0),
            before: snapshot::Uids::default(),
            may_be_forbidden: options.may_be_forbidden,
        };
        cluster.read_operator().await;
        cluster.before = snapshot::uids(&cluster).await;
        cluster
    }

    /// Reads arguments and environment of the operator that is installed now, with which
    /// [`Operator::start`](super::Operator::start) starts it.
    pub async fn read_operator(&mut self) {
        let workload = self
            .get(
                self.operator.kind,
                self.operator_namespace(),
                &self.operator.name,
            )
            .await;
        let container = &workload.expect("the operator's workload")["spec"]["template"]["spec"]["containers"]
            [0];
        self.operator_args = serde_json::from_value(container["args"].clone()).unwrap();
        self.operator_env = environment(container, &self.operator);
    }

    /// With two nodes and nothing unusual.
    pub async fn start_default() -> Self {
        Self::start(ClusterOptions::default()).await
    }

    /// `weft manifests ARGUMENTS | kubectl apply -f -`
    pub async fn apply_manifests(&self, arguments: &[&str]) {
        self.apply(&manifests(arguments)).await;
    }

    /// Where the operator is installed.
    pub fn operator_namespace(&self) -> &str {
        self.operator.namespace.as_deref().unwrap()
    }

    /// Runs kubectl as admin and returns what it prints. Fails the test if kubectl fails.
    pub async fn kubectl(&self, args: &[&str]) -> String {
        self.control_plane.kubectl(args).await.unwrap()
    }

    /// `kubectl apply -f -`
    pub async fn apply(&self, yaml: &str) -> String {
        self.control_plane
            .kubectl_with_input(&["apply", "-f", "-"], yaml)
            .await
            .unwrap()
    }

    /// Installs the definitions of these names, the real ones, and waits until the API server
    /// serves them.
    pub async fn define(&self, definitions: &[&str]) {
        for name in definitions {
            self.apply(&weft_testenv::definition(name).unwrap()).await;
        }
        for name in definitions {
            self.wait_established(name).await;
        }
    }

    /// Waits until the API server serves a definition. (`kubectl wait` fails where it meets one
    /// whose conditions are not there yet.)
    pub async fn wait_established(&self, definition: &str) {
        wait_until(&format!("{definition} is established"), async || {
            let live = self
                .get(kinds::CUSTOM_RESOURCE_DEFINITION, "", definition)
                .await
                .ok_or("it is not there")?;
            if condition(&live["status"], "Established")["status"] == "True" {
                Ok(())
            } else {
                Err(format!("{:#}", live["status"]))
            }
        })
        .await;
    }

    /// The API of a kind, as admin. `namespace` is ignored for kinds without namespaces.
    pub fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(kind.group, kind.version, kind.kind),
            kind.plural,
        );
        let client = self.control_plane.client();
        if kind.namespaced {
            Api::namespaced_with(client, namespace, &resource)
        } else {
            Api::all_with(client, &resource)
        }
    }

    /// An object as it is, or `None`.
    pub async fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Value> {
        let api = self.api(kind, namespace);
        let found = match api.get_opt(name).await {
            // The API server closes a connection that was idle for 90 s, maybe just when we use it
            // again.
            Err(kube::Error::Service(_)) => api.get_opt(name).await,
            other => other,
        };
        match found {
            // Not even the kind is there.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            found => found
                .unwrap()
                .map(|object| serde_json::to_value(object).unwrap()),
        }
    }

    /// Changes an object by a JSON merge patch (RFC 7386), as somebody called `somebody`.
    pub async fn patch(&self, kind: Kind, namespace: &str, name: &str, patch: Value) -> Value {
        let params = PatchParams {
            field_manager: Some("somebody".to_owned()),
            ..Default::default()
        };
        let patched = self
            .api(kind, namespace)
            .patch(name, &params, &Patch::Merge(&patch))
            .await;
        serde_json::to_value(
            patched
                .unwrap_or_else(|error| panic!("patch {kind} {namespace}/{name} {patch}: {error}")),
        )
        .unwrap()
    }

    /// Deletes an object, and does not wait until it is gone.
    pub async fn delete(&self, kind: Kind, namespace: &str, name: &str) {
        if kind == kinds::CUSTOM_RESOURCE_DEFINITION {
            self.wait_listable(name).await;
        }
        self.api(kind, namespace)
            .delete(name, &Default::default())
            .await
            .unwrap_or_else(|error| panic!("delete {kind} {namespace}/{name}: {error}"));
    }

    /// Waits until the object with this uid, which the test deleted, is gone. Another object may have
    /// its name by then.
    ///
    /// The API server can forget a definition that it is about to remove: if its second try meets a
    /// conflict, it waits for a change of the definition, and takes no notice of changes of the
    /// condition Terminating (`crd_finalizer.go` of apiextensions-apiserver 0.37, `sync` and
    /// `updateCustomResourceDefinition`). The tests met this with a definition that was seconds
    /// old. A new annotation makes the API server try again.
    pub async fn wait_gone(&self, kind: Kind, namespace: &str, name: &str, uid: &Value) {
        let is_definition = kind == kinds::CUSTOM_RESOURCE_DEFINITION;
        let limit = if is_definition {
            DEFINITION_GONE
        } else {
            PATIENCE
        };
        let (mut next, mut tries) = (Instant::now() + TRY_AGAIN, 0);
        wait_within(limit, &format!("{kind} {name} is gone"), async || {
            let now = match self.get(kind, namespace, name).await {
                Some(now) if now["metadata"]["uid"] == *uid => now,
                _ => return Ok(()),
            };
            if is_definition && Instant::now() >= next {
                (next, tries) = (Instant::now() + TRY_AGAIN, tries + 1);
                self.annotate_again(kind, name, uid, tries).await;
            }
            Err(format!("{:#}\n{:#}", now["metadata"], now["status"]))
        })
        .await;
    }

    /// Changes an annotation of the object with this uid, if it is still there.
    async fn annotate_again(&self, kind: Kind, name: &str, uid: &Value, tries: usize) {
        let again = json!({"metadata": {
            "uid": uid,
            "annotations": {"tests.weft.network/try-again": tries.to_string()},
        }});
        let patched = self
            .api(kind, "")
            .patch(name, &PatchParams::default(), &Patch::Merge(&again))
            .await;
        match patched {
            // It is gone, or another object has its name.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            patched => drop(patched.unwrap_or_else(|error| panic!("patch {kind} {name}: {error}"))),
        }
    }

    /// Waits until the API server lists the objects of a definition. As long as it answers 429, its
    /// own finalizer cannot list them either. It then may lose its next try, and leaves a deleted
    /// definition as it is for five minutes (`crd_finalizer.go` of Kubernetes 1.37: an update that
    /// meets a conflict is not tried again, and the resync takes so long).
    async fn wait_listable(&self, definition: &str) {
        self.wait_established(definition).await;
        let live = self
            .get(kinds::CUSTOM_RESOURCE_DEFINITION, "", definition)
            .await
            .expect("a definition that was there");
        let spec = &live["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let stored = spec["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|version| version["storage"] == true)
            .expect("a version that is stored");
        let resource = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(
                &text(&spec["group"]),
                &text(&stored["name"]),
                &text(&spec["names"]["kind"]),
            ),
            &text(&spec["names"]["plural"]),
        );
        let objects: Api<DynamicObject> = Api::all_with(self.control_plane.client(), &resource);
        wait_until(&format!("objects of {definition} are listed"), async || {
            // A list with a limit would come from etcd, and show nothing.
            match objects.list(&ListParams::default()).await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 429 | 503) => {
                    Err(status.message.clone())
                }
                // As in `get`, the API server may have closed an idle connection.
                Err(kube::Error::Service(error)) => Err(error.to_string()),
                Err(error) => panic!("list the objects of {definition}: {error}"),
            }
        })
        .await;
    }

    /// Waits until a pod whose name begins like this is in `ContainerCreating`, and returns it.
    pub async fn wait_creating(&self, namespace: &str, prefix: &str) -> Value {
        wait_until(&format!("{prefix} in ContainerCreating"), async || {
            let pods = self
                .kubectl(&["-n", namespace, "get", "pods", "-o", "json"])
                .await;
            let pods: Value = serde_json::from_str(&pods).unwrap();
            let is_creating = |pod: &&Value| {
                let metadata = &pod["metadata"];
                let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
                metadata["name"].as_str().unwrap().starts_with(prefix)
                    && metadata["deletionTimestamp"].is_null()
                    && waiting["reason"] == "ContainerCreating"
            };
            let found = pods["items"].as_array().unwrap().iter().find(is_creating);
            found.cloned().ok_or_else(|| format!("{pods:#}"))
        })
        .await
    }

    /// Writes a warning about a pod, as the kubelet does. `last` is the time of its last event.
    pub async fn kubelet_warns(&self, pod: &Value, reason: &str, message: &str, last: &str) {
        let metadata = &pod["metadata"];
        let (namespace, name) = (&metadata["namespace"], metadata["name"].as_str().unwrap());
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"generateName": format!("{name}-"), "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "name": name, "namespace": namespace,
                "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]
            },
            "type": "Warning", "reason": reason, "message": message, "count": 5,
            "source": {"component": "kubelet", "host": pod["spec"]["nodeName"]},
            "reportingComponent": "kubelet", "reportingInstance": pod["spec"]["nodeName"],
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": last
        });
        self.control_plane
            .kubectl_with_input(&["create", "-f", "-"], &event.to_string())
            .await
            .unwrap();
    }

    /// The resource that the operator serves, or `None`.
    pub async fn resource(&self) -> Option<Value> {
        self.get(self.resource.0, self.resource_namespace, self.resource.1)
            .await
    }

    /// Its status. Null if there is none.
    pub async fn status(&self) -> Value {
        self.resource()
            .await
            .map(|resource| resource["status"].clone())
            .unwrap_or_default()
    }

    /// Changes that resource by a JSON merge patch.
    pub async fn patch_resource(&self, patch: Value) -> Value {
        self.patch(
            self.resource.0,
            self.resource_namespace,
            self.resource.1,
            patch,
        )
        .await
    }

    /// Waits until status says, about the latest generation, that all is well.
    pub async fn wait_available(&self) -> Value {
        self.wait_available_and(&[]).await
    }

    /// Waits until status says, about the latest generation, that all is well, and that just these
    /// other conditions hold.
    pub async fn wait_available_and(&self, others: &[&str]) -> Value {
        wait_until("the resource is Available", async || {
            let resource = self.resource().await.ok_or("there is none")?;
            let mut conditions = conditions(&resource["status"]);
            conditions.retain(|condition| condition != "Upgradeable=True");
            let known =
                resource["status"]["observedGeneration"] == resource["metadata"]["generation"];
            let well = [
                "Available=True",
                "Progressing=False",
                "Degraded=False",
                "Ready=True",
            ]
            .map(str::to_owned);
            let mut wanted = well
                .into_iter()
                .chain(others.iter().map(|other| format!("{other}=True")));
            if known
                && conditions.len() == 4 + others.len()
                && wanted.all(|wanted| conditions.contains(&wanted))
            {
                return Ok(resource);
            }
            Err(format!(
                "generation {}, status {:#}",
                resource["metadata"]["generation"], resource["status"]
            ))
        })
        .await
    }

    /// Waits until a condition has this status and reason (no reason: any) and a message that
    /// contains this text. Returns the status.
    pub async fn wait_condition(
        &self,
        name: &str,
        status: &str,
        reason: &str,
        message: &str,
    ) -> Value {
        wait_until(
            &format!("condition {name}={status} {reason} {message:?}"),
            async || {
                let all = self.status().await;
                let found = condition(&all, name);
                let right = found["status"] == status
                    && (reason.is_empty() || found["reason"] == reason)
                    && found["message"]
                        .as_str()
                        .unwrap_or_default()
                        .contains(message);
                if right {
                    Ok(all)
                } else {
                    Err(format!("{all:#}"))
                }
            },
        )
        .await
    }

    /// Waits until status is about the latest generation, whatever it says.
    pub async fn wait_observed(&self) -> Value {
        wait_until("status is about the latest generation", async || {
            let resource = self.resource().await.ok_or("there is none")?;
            let generation = &resource["metadata"]["generation"];
            let seen = resource["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|condition| condition["observedGeneration"] == *generation);
            if seen {
                Ok(resource)
            } else {
                Err(format!(
                    "generation {generation}, status {:#}",
                    resource["status"]
                ))
            }
        })
        .await
    }

    /// Applies an example and waits until it is Available, with what KubeMacPool does in life.
    pub async fn install(&self, yaml: &str) -> Value {
        self.play_kubemacpool().await;
        self.apply(yaml).await;
        self.wait_available().await
    }

    /// Plays KubeMacPool's certificate manager: it writes the Secret that the manager's pods mount.
    /// kwok runs no containers, so without this the operator rightly says that KubeMacPool waits
    /// for the Secret.
    pub async fn play_kubemacpool(&self) {
        self.play_certificate("kubemacpool-service").await;
    }

    /// The Secret of a server's certificate, as whoever makes it in life.
    pub async fn play_certificate(&self, name: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
            "name": name, "namespace": NAMESPACE
        }, "type": "kubernetes.io/tls",
            "data": {"tls.crt": "", "tls.key": ""}});
        let params = PatchParams::apply("kubemacpool").force();
        self.api(kinds::SECRET, NAMESPACE)
            .patch(name, &params, &Patch::Apply(&secret))
            .await
            .unwrap();
    }

    /// Waits until the operator lets the agent of a node begin with a policy, and returns the
    /// enactment.
    pub async fn wait_granted(&self, node: &str, policy: &str) -> Value {
        let name = format!("{node}.{policy}");
        wait_until(&format!("{name} is granted"), async || {
            let kind = kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT;
            match self.get(kind, "", &name).await {
                Some(found) if found["spec"]["granted"].is_object() => Ok(found),
                found => Err(format!("{found:?}")),
            }
        })
        .await
    }

    /// Everything that Weft has made, as it is now. See [`Snapshot`].
    pub async fn snapshot(&self) -> Snapshot {
        snapshot::take(self).await
    }

    /// Waits until everything that is in this snapshot is as it was then. Omitted fields may have
    /// any value.
    pub async fn wait_same(&self, before: &Snapshot, when: &str) {
        wait_until(&format!("all is as before, {when}"), async || {
            let differences = before.diff(&snapshot::take_again(self, before).await);
            if differences.is_empty() {
                Ok(())
            } else {
                Err(format!("{differences:#?}"))
            }
        })
        .await;
    }

    /// One object as it is in a [`Snapshot`], or `None`.
    pub async fn masked(&self, kind: Kind, namespace: &str, name: &str) -> Option<Snapshot> {
        let object = self.get(kind, namespace, name).await?;
        Some(Snapshot::of(object))
    }

    /// Returns the objects that did not exist before the first NetworkAddonsConfig, except those of
    /// the cluster's own controllers. A set: the kinds come in another order each time.
    pub async fn leftovers(&self) -> BTreeSet<String> {
        snapshot::leftovers(self).await
    }

    /// Every request of the operator so far, by the API server's audit log.
    pub fn audit(&self) -> Vec<AuditEvent> {
        self.control_plane
            .audit_events_of(&self.operator_user())
            .unwrap()
    }

    /// The user name of the operator.
    pub fn operator_user(&self) -> String {
        format!(
            "system:serviceaccount:{}:{}",
            self.operator_namespace(),
            self.operator.name
        )
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // Some tests play the agents, or another operator, and write what a test needs.
        let statuses = self
            .control_plane
            .written_statuses(&self.operator_user())
            .expect("the audit log can be read");
        reasons::assert_explained(&statuses);
        health::assert_tools_agree(statuses);
        if self.may_be_forbidden {
            return;
        }
        // The API server refuses a create in a namespace that is being deleted, and of a kind whose
        // definition is.
        let goes = [
            "because it is being terminated",
            "while custom resource definition is terminating",
        ];
        let is_refused = |event: &AuditEvent| {
            event.code == 403 && !goes.iter().any(|reason| event.message.contains(reason))
        };
        let refused: Vec<_> = self
            .audit()
            .into_iter()
            .filter(is_refused)
            .map(|event| format!("{} {}", event.verb, event.uri))
            .collect();
        assert!(
            refused.is_empty(),
            "the shipped roles do not permit what the operator does: {refused:#?}"
        );
    }
}

/// The condition of a type. Null if there is none.
pub fn condition(status: &Value, name: &str) -> Value {
    status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == name)
        .cloned()
        .unwrap_or_default()
}

fn conditions(status: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| format!("{}={}", text(&one["type"]), text(&one["status"])))
        .collect()
}

/// A file below `examples/`.
pub fn example(name: &str) -> String {
    let path = example_path(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn example_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
}

/// The objects that an example leads to, by `weft render`.
pub fn render(name: &str) -> Vec<Value> {
    let mut command = Command::new(weft_binary());
    let output = command
        .args(["render", "-f"])
        .arg(example_path(name))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "weft render: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(std::str::from_utf8(&output.stdout).unwrap()).unwrap();
    documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect()
}

/// The binary under test.
pub fn weft_binary() -> PathBuf {
    program("weft")
}

/// The output of `weft manifests`, after the namespaces that its note names.
fn manifests(arguments: &[&str]) -> String {
    manifests_of(&weft_binary(), arguments)
}

/// The same, by the program of another version.
pub fn manifests_of(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .arg("manifests")
        .args(arguments)
        .output()
        .unwrap();
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "weft manifests: {note}");
    let needed = note
        .split("kubectl create namespace ")
        .skip(1)
        .filter_map(|rest| rest.split([';', '\n']).next());
    let namespace =
        |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let needed: String = needed
        .map(|name| format!("{}\n---\n", namespace(name)))
        .collect();
    needed + &String::from_utf8(output.stdout).unwrap()
}

/// The one Deployment or DaemonSet of an installation.
fn operator(manifests: &str) -> ObjectKey {
    let objects = serde_saphyr::from_multiple::<Value>(manifests).unwrap();
    let is_workload = |key: &ObjectKey| [kinds::DEPLOYMENT, kinds::DAEMON_SET].contains(&key.kind);
    let mut workloads = objects.iter().filter_map(ObjectKey::of).filter(is_workload);
    let operator = workloads.next().expect("a Deployment or a DaemonSet");
    assert_eq!(workloads.next(), None, "another workload");
    operator
}

/// The environment of a container, with the references that the Deployment uses filled in.
fn environment(container: &Value, workload: &ObjectKey) -> BTreeMap<String, String> {
    let value = |variable: &Value| match variable
        .pointer("/valueFrom/fieldRef/fieldPath")
        .and_then(Value::as_str)
    {
        None => variable["value"].as_str().unwrap_or_default().to_owned(),
        Some("metadata.namespace") => workload.namespace.clone().unwrap(),
        Some("metadata.name") => workload.name.clone(),
        // Each process of a test stands for a pod and has a UID of its own: see `Operator::start`.
        Some("metadata.uid") => String::new(),
        Some(other) => panic!("the kubelet's part is not played for {other}"),
    };
    container["env"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|variable| {
            (
                variable["name"].as_str().unwrap().to_owned(),
                value(variable),
            )
        })
        .collect()
}
