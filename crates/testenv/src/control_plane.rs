//! A control plane while it runs, and its end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};

use crate::{
    audit::{self, AuditEvent},
    command::{Input, output},
    nodes,
    pki::{self, Authority},
    process::{GO_RUNTIME, Process},
    programs::Programs,
    stages::{self, Stage},
    wait::{START_TIMEOUT, wait_until, within},
    workdir::{WorkDir, write_private},
};

/// User of [`ControlPlane::client`] and [`ControlPlane::kubeconfig`], in the group
/// `system:masters`.
pub const ADMIN: &str = "kubernetes-admin";

/// Between two looks whether it is ready: each of them runs all the checks of a server that is busy
/// with its start.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// How etcd and its API server are reached on loopback.
#[derive(Clone, Debug)]
pub(crate) struct Etcd {
    pub(crate) port: u16,
    pub(crate) peer_url: String,
    pub(crate) api_server_port: u16,
}

/// A running control plane. Dropping it ends it.
pub struct ControlPlane {
    pub(crate) client: kube::Client,
    pub(crate) url: String,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) authority: Arc<Authority>,
    /// Bearer token to user, of the static users.
    pub(crate) tokens: BTreeMap<String, &'static str>,
    pub(crate) programs: Programs,
    pub(crate) kwok: Mutex<Option<Process>>,
    /// Held while kwok is replaced, or etcd restored.
    pub(crate) restart: tokio::sync::Mutex<()>,
    /// The part of the audit log that counts.
    pub(crate) audited: Mutex<audit::Since>,
    /// Is set once a reset cannot bring back the state of the start.
    pub(crate) is_altered: AtomicBool,
    /// In the order of their start: etcd, kube-apiserver, and the others. Ended before `dir` goes,
    /// and the last one first.
    pub(crate) processes: Mutex<Vec<Process>>,
    /// How etcd is reached. None where it is in a network namespace.
    pub(crate) etcd: Option<Etcd>,
    pub(crate) dir: WorkDir,
}

impl ControlPlane {
    pub(crate) fn lock_kwok(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.kwok.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports whether a reset brings back the state of the start: no program has been replaced or
    /// handed out.
    pub(crate) fn is_reusable(&self) -> bool {
        !self.is_altered.load(Ordering::Relaxed) && self.check_running().is_ok()
    }

    /// Reports whether it has more than etcd and the API server.
    pub(crate) fn has_controllers(&self) -> bool {
        self.lock_processes().len() > 2
    }

    /// Forgets the requests so far.
    pub(crate) fn forget_audit(&self) {
        let since = audit::Since::now(&self.audit_log());
        *self.audited.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    fn audit_log(&self) -> PathBuf {
        self.dir.path().join("audit.log")
    }

    fn audit_since(&self) -> audit::Since {
        *self.audited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the processor time that this test has used, while the programs go on.
    pub(crate) fn record_usage(&self) {
        let (mut processes, mut kwok) = (self.lock_processes(), self.lock_kwok());
        processes
            .iter_mut()
            .chain(kwok.as_mut())
            .for_each(Process::record_usage);
    }

    /// Has pods follow these stages, if they do not yet.
    pub(crate) async fn follow(&self, stages: &[Stage]) -> Result<()> {
        let builtin = std::fs::read_to_string(self.programs.get("stages.yaml")?)?;
        let config = stages::config(&builtin, stages)?;
        let now = std::fs::read_to_string(self.dir.path().join("stages.yaml"))?;
        if now == config {
            return Ok(());
        }
        self.set_stages(stages).await
    }

    /// Adds kwok nodes, and returns when they are Ready.
    pub(crate) async fn add_nodes(&self, names: &[String]) -> Result<()> {
        for name in names {
            nodes::create(&self.client, name, &[]).await?;
        }
        self.wait_until_usable().await
    }

    pub(crate) fn lock_processes(&self) -> std::sync::MutexGuard<'_, Vec<Process>> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what pods do: pods that no stage selects any more become Ready, those selected by a
    /// new one follow it.
    ///
    /// # Errors
    /// kwok cannot be restarted, or this control plane was made with [`Builder::api_only`].
    pub async fn set_stages(&self, stages: &[Stage]) -> Result<()> {
        if !self.dir.path().join("kwok.kubeconfig").exists() {
            bail!(
                "there are no kwok nodes in this control plane: it was made with api_only(), or has real nodes"
            );
        }
        let builtin = std::fs::read_to_string(self.programs.get("stages.yaml")?)?;
        let config = stages::config(&builtin, stages)?;
        let _one_at_a_time = self.restart.lock().await;
        self.dir.write("stages.yaml", &config)?;
        let old = self.lock_kwok().take();
        let again = old.is_some();
        // It must have ended before the leases go: otherwise it takes them again, and the next kwok
        // waits until they expire.
        drop(old);
        self.start_kwok(again).await
    }

    /// Starts kwok with the stages in the folder. `again`: after another kwok, which has ended.
    pub(crate) async fn start_kwok(&self, again: bool) -> Result<()> {
        if again {
            // This kwok has another identity, and would wait until the leases of the one before it
            // expire.
            let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
            leases
                .delete_collection(&DeleteParams::default(), &ListParams::default())
                .await?;
        }
        let args = vec![
            format!(
                "--kubeconfig={}",
                self.dir.path().join("kwok.kubeconfig").display()
            ),
            format!("--config={}", self.dir.path().join("stages.yaml").display()),
            "--manage-all-nodes=true".into(),
            "--node-lease-duration-seconds=40".into(),
            "--cidr=10.244.0.1/16".into(),
            "--node-ip=10.0.0.1".into(),
        ];
        *self.lock_kwok() = Some(Process::start(
            &self.programs.get("kwok")?,
            args,
            None,
            self.dir.path(),
        )?);
        if again {
            self.touch_pods().await?;
        }
        Ok(())
    }

    /// Changes an annotation of each pod once kwok holds the Leases of all nodes.
    ///
    /// kwok looks at the pods of a node only once by itself, just after it has taken the node's
    /// Lease. If its cache does not have that Lease yet, kwok passes over the pods, and looks at
    /// each of them again only when it changes (`PodController.watchResources` and `readOnly` of
    /// kwok 0.8). So without this, a pod may keep the state of the stages before for ever.
    async fn touch_pods(&self) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let nodes: Api<Node> = Api::all(self.client.clone());
        within(START_TIMEOUT, PAUSE, async || {
            let held = leases.list(&ListParams::default()).await?.items.len();
            let all = nodes.list(&ListParams::default()).await?.items.len();
            Ok((held >= all)
                .then_some(())
                .ok_or(format!("kwok holds {held} Leases of {all} nodes")))
        })
        .await?;
        let change = serde_json::json!({
            "metadata": {"annotations": {"testenv.weft.network/kwok-since": Timestamp::now().to_string()}}
        });
        let pods: Api<Pod> = Api::all(self.client.clone());
        for pod in pods.list(&ListParams::default()).await? {
            let (name, namespace) = (
                pod.metadata.name.unwrap_or_default(),
                pod.metadata.namespace.unwrap_or_default(),
            );
            let patched = Api::<Pod>::namespaced(self.client.clone(), &namespace)
                .patch(&name, &PatchParams::default(), &Patch::Merge(&change))
                .await;
            match patched {
                // It has ended meanwhile.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => {
                    other?;
                }
            }
        }
        Ok(())
    }

    /// Adds a kwok node with these labels besides the usual ones, and returns when it is Ready.
    ///
    /// # Errors
    /// The node exists, or does not become Ready.
    pub async fn add_node(&self, name: &str, labels: &[(&str, &str)]) -> Result<()> {
        nodes::create(&self.client, name, labels).await?;
        self.wait_until_usable().await
    }

    /// Waits until all nodes are Ready, and pods can be created.
    pub(crate) async fn wait_until_usable(&self) -> Result<()> {
        // Pods are refused until the controller manager has made the ServiceAccount that they run
        // as.
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), "default");
        let usable = within(START_TIMEOUT, PAUSE, async || {
            self.check_running()?;
            if accounts.get_opt("default").await?.is_none() {
                return Ok(Err("there is no ServiceAccount default".into()));
            }
            let ready = nodes::all_ready(&self.client).await?;
            Ok(ready.then_some(()).ok_or("not all nodes are Ready".into()))
        });
        usable
            .await
            .with_context(|| format!("the logs are in {}", self.dir.path().display()))
    }

    /// A client with all rights ([`ADMIN`]).
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Path of a kubeconfig with all rights ([`ADMIN`]).
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// `https://127.0.0.1:<port>` of the API server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder with logs (`<program>.log`), kubeconfigs and data.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where its programs are.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Name and pid of its processes.
    pub fn processes(&self) -> Vec<(String, u32)> {
        // The caller may stop them.
        self.is_altered.store(true, Ordering::Relaxed);
        let (processes, kwok) = (self.lock_processes(), self.lock_kwok());
        processes
            .iter()
            .chain(kwok.as_ref())
            .map(|process| (process.name().to_owned(), process.pid()))
            .collect()
    }

    /// Are all of its processes running?
    ///
    /// # Errors
    /// One has ended. The error shows the end of its log.
    pub fn check_running(&self) -> Result<()> {
        self.lock_processes()
            .iter_mut()
            .try_for_each(Process::check_running)?;
        self.lock_kwok()
            .as_mut()
            .map_or(Ok(()), Process::check_running)
    }

    /// Certificate authority of the API server's and of the proxies' certificates, PEM.
    pub(crate) fn ca_pem(&self) -> String {
        self.authority.pem()
    }

    /// Waits until kubectl finds the kinds of all definitions. Established, a kind is served a
    /// moment later, and `kubectl wait` fails where it meets a definition without conditions.
    ///
    /// # Panics
    /// Kubectl does not find them in the usual time.
    pub async fn wait_served(&self) {
        wait_until("all kinds are served", async || {
            let text = |error: anyhow::Error| error.to_string();
            let names = self.kubectl(&["get", "crd", "-o", "name"]).await;
            let names = names.map_err(text)?;
            let kinds: Vec<_> = names
                .lines()
                .filter_map(|line| Some(line.split_once('/')?.1))
                .collect();
            let got = self.kubectl(&["get", &kinds.join(","), "-A"]).await;
            got.map(drop).map_err(text)
        })
        .await;
    }

    /// Runs the real kubectl with all rights and returns its stdout.
    ///
    /// # Errors
    /// kubectl failed: the error holds its arguments and its stderr.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_as(&self.kubeconfig, args, "").await
    }

    /// The same with this text on stdin, for `apply -f -`.
    ///
    /// # Errors
    /// As [`kubectl`](Self::kubectl).
    pub async fn kubectl_with_input(&self, args: &[&str], input: &str) -> Result<String> {
        self.kubectl_as(&self.kubeconfig, args, input).await
    }

    /// The same with another kubeconfig: of a ServiceAccount, or through a proxy.
    ///
    /// # Errors
    /// As [`kubectl`](Self::kubectl).
    pub async fn kubectl_as(
        &self,
        kubeconfig: &Path,
        args: &[&str],
        input: &str,
    ) -> Result<String> {
        let mut command = Command::new(self.programs.get("kubectl")?);
        command
            .args(args)
            .envs(GO_RUNTIME)
            .env("KUBECONFIG", kubeconfig)
            .env("KUBECACHEDIR", self.dir.path().join("kubectl-cache"));
        let output = output(command, Input::Text(input)).await?;
        output.success(&format!("kubectl {}", args.join(" ")))
    }

    /// A real token of a ServiceAccount, valid for a day (by `TokenRequest`, as the kubelet gets
    /// one for a pod).
    ///
    /// # Errors
    /// The ServiceAccount does not exist.
    async fn token(
        &self,
        namespace: &str,
        name: &str,
        bound_object_ref: Option<BoundObjectReference>,
    ) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let spec = TokenRequestSpec {
            bound_object_ref,
            expiration_seconds: Some(86_400),
            ..Default::default()
        };
        let request = TokenRequest {
            spec: Some(spec),
            ..Default::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("no token for the ServiceAccount {namespace}/{name}"))?;
        answer
            .status
            .and_then(|status| status.token)
            .context("a TokenRequest was answered without a token")
    }

    /// Writes a kubeconfig with a real token of a ServiceAccount and returns its path: what runs
    /// with it has the rights that RBAC gives this ServiceAccount, no more.
    ///
    /// # Errors
    /// The ServiceAccount does not exist.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        self.service_account_kubeconfig_via(&self.url, namespace, name)
            .await
    }

    /// The same for another server: [`Proxy::url`](crate::proxy::Proxy::url).
    ///
    /// # Errors
    /// The ServiceAccount does not exist.
    pub async fn service_account_kubeconfig_via(
        &self,
        server: &str,
        namespace: &str,
        name: &str,
    ) -> Result<PathBuf> {
        let token = self.token(namespace, name, None).await?;
        let user = format!("system:serviceaccount:{namespace}:{name}");
        self.write_kubeconfig(server, &user, &token)
    }

    /// Writes a kubeconfig for a server with a token of a ServiceAccount that is bound to a node,
    /// and returns its path. The token has the claim by which the API server knows the node
    /// (`authentication.kubernetes.io/node-name`), as the kubelet's tokens for pods have.
    ///
    /// # Errors
    /// ServiceAccount or node do not exist.
    pub async fn node_kubeconfig_via(
        &self,
        server: &str,
        namespace: &str,
        name: &str,
        node: &str,
    ) -> Result<PathBuf> {
        let object = Api::<Node>::all(self.client.clone()).get(node).await?;
        let reference = BoundObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Node".into()),
            name: Some(node.to_owned()),
            uid: object.metadata.uid,
        };
        let token = self.token(namespace, name, Some(reference)).await?;
        self.write_kubeconfig(
            server,
            &format!("system:serviceaccount:{namespace}:{name}:{node}"),
            &token,
        )
    }

    /// Writes a kubeconfig with the token that the kubelet would give this pod and returns its
    /// path. It is bound to the pod: it names the pod and its node, and ends with the pod.
    ///
    /// # Errors
    /// The pod or its ServiceAccount does not exist.
    pub async fn pod_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let pod = Api::<Pod>::namespaced(self.client.clone(), namespace)
            .get(name)
            .await?;
        let account = pod
            .spec
            .and_then(|spec| spec.service_account_name)
            .context("the pod has no ServiceAccount")?;
        let reference = BoundObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Pod".into()),
            name: Some(name.to_owned()),
            uid: pod.metadata.uid,
        };
        let token = self.token(namespace, &account, Some(reference)).await?;
        self.write_kubeconfig(&self.url, &format!("pod-{namespace}-{name}"), &token)
    }

    /// Writes a kubeconfig of the admin for another server and returns its path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn admin_kubeconfig_via(&self, server: &str) -> Result<PathBuf> {
        self.write_kubeconfig(server, ADMIN, token_of(&self.tokens, ADMIN)?)
    }

    fn write_kubeconfig(&self, server: &str, user: &str, token: &str) -> Result<PathBuf> {
        let port = server.rsplit(':').next().unwrap_or_default();
        let path = self
            .dir
            .path()
            .join(format!("{}-{port}.kubeconfig", user.replace(':', "-")));
        write_private(
            &path,
            &pki::kubeconfig(server, &self.authority.pem(), user, token),
        )
    }

    /// Every request since the control plane was started, or was lent by a pool, as the API server
    /// saw it, in the order in which they ended (watches: began to be answered).
    ///
    /// # Errors
    /// It was not started with [`Builder::audit`].
    pub fn audit_events(&self) -> Result<Vec<AuditEvent>> {
        self.audited(None)
    }

    /// The same of one user, for example `system:serviceaccount:<namespace>:<name>`.
    ///
    /// # Errors
    /// As [`audit_events`](Self::audit_events).
    pub fn audit_events_of(&self, user: &str) -> Result<Vec<AuditEvent>> {
        self.audited(Some(user))
    }

    /// The objects of Weft's kinds (NetworkAddonsConfig, NetworkConfig, those of nmstate.io, and
    /// PlacementAPI), as each write of this user to their status has left them, in order.
    ///
    /// # Errors
    /// As [`audit_events`](Self::audit_events).
    pub fn written_statuses(&self, user: &str) -> Result<Vec<serde_json::Value>> {
        audit::statuses(&self.audit_log(), self.audit_since(), user)
            .context("start the control plane with .audit(true)")
    }

    fn audited(&self, user: Option<&str>) -> Result<Vec<AuditEvent>> {
        audit::read(&self.audit_log(), self.audit_since(), user)
            .context("start the control plane with .audit(true)")
    }

    /// Sets whether data and logs stay when the control plane ends.
    pub(crate) fn keep_files(&mut self, keep: bool) {
        self.dir.keep = keep;
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(crate) fn tokens(&self) -> BTreeMap<String, String> {
        self.tokens
            .iter()
            .map(|(token, user)| (token.clone(), (*user).to_owned()))
            .collect()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        drop(self.lock_kwok().take());
        // The API server before its etcd: without etcd it would go on trying.
        let mut processes = self.lock_processes();
        while let Some(process) = processes.pop() {
            drop(process);
        }
    }
}

/// Waits until the API server says that it is ready.
pub(crate) async fn wait_ready(client: &kube::Client, server: &mut Process) -> Result<()> {
    server
        .wait_ready(PAUSE, async || {
            let request = http::Request::get("/readyz").body(vec![]);
            let request = request.map_err(|error| error.to_string())?;
            match client.request_text(request).await {
                Ok(text) if text == "ok" => Ok(()),
                Ok(text) => Err(text),
                Err(error) => Err(error.to_string()),
            }
        })
        .await
}

pub(crate) fn token_of<'a>(
    tokens: &'a BTreeMap<String, &'static str>,
    user: &str,
) -> Result<&'a str> {
    let found = tokens.iter().find(|(_, name)| **name == user);
    found
        .map(|(token, _)| token.as_str())
        .with_context(|| format!("no token of {user}"))
}
