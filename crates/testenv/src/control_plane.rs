//! etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok on loopback, from start to end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::io::AsyncWriteExt;

use crate::audit::{self, AuditEvent};
use crate::pki::{self, Authority};
use crate::process::{Process, free_port};
use crate::programs::Programs;
use crate::stages::{self, Stage};
use crate::workdir::{WorkDir, write_private};
use crate::nodes;

/// User of [`ControlPlane::client`] and [`ControlPlane::kubeconfig`], in the group `system:masters`.
pub const ADMIN: &str = "kubernetes-admin";
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
const KWOK: &str = "kwok";

/// A start takes 3 s on two idle cores; this is for busy ones.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Chooses what a [`ControlPlane`] consists of.
#[derive(Clone, Debug)]
pub struct Builder {
    api_only: bool,
    nodes: usize,
    audit: bool,
    stages: Vec<Stage>,
    dir: Option<PathBuf>,
}

impl Builder {
    /// Only etcd and kube-apiserver: enough for schema, admission, apply and RBAC. Nothing is garbage collected and no
    /// workload gets pods. Sets the nodes to 0.
    #[must_use]
    pub fn api_only(mut self) -> Self {
        self.api_only = true;
        self.nodes = 0;
        self
    }

    /// How many kwok nodes there are (`node-1`, `node-2` …), 1 by default.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Has the API server write an audit log, see [`ControlPlane::audit_events`]. Off by default.
    #[must_use]
    pub fn audit(mut self, audit: bool) -> Self {
        self.audit = audit;
        self
    }

    /// Adds a stage: what some pods do instead of becoming Ready at once.
    #[must_use]
    pub fn stage(mut self, stage: Stage) -> Self {
        self.stages.push(stage);
        self
    }

    /// Keeps everything in this folder instead of a temporary one. It is made if need be and removed at the end.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Starts the programs, building them first if they are not there (see [`Programs::find`]). Returns when the API
    /// server is ready and, unless [`api_only`](Self::api_only), all nodes are Ready and pods can be created.
    ///
    /// # Errors
    /// A program is missing, ended or is not ready within two minutes; the error shows the end of its log.
    pub async fn start(self) -> Result<ControlPlane> {
        let programs = tokio::task::spawn_blocking(Programs::find).await??;
        let mut attempts = 3;
        loop {
            attempts -= 1;
            match self.start_once(&programs).await {
                Ok(control_plane) => return Ok(control_plane),
                // Somebody else took one of the free ports first.
                Err(error) if attempts > 0 && format!("{error:#}").contains("address already in use") => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn start_once(&self, programs: &Programs) -> Result<ControlPlane> {
        let mut dir = match &self.dir {
            Some(path) => WorkDir::at(path)?,
            None => WorkDir::temporary()?,
        };
        let kept = dir.keep;
        dir.keep = true;
        let mut control_plane = ControlPlane::start_api_server(programs.clone(), dir, self.audit).await?;
        if !self.api_only {
            control_plane.start_controllers(&self.stages).await?;
            for index in 1..=self.nodes {
                nodes::create(&control_plane.client, &format!("node-{index}"), &[]).await?;
            }
            control_plane.wait_until_usable().await?;
        }
        control_plane.dir.keep = kept;
        Ok(control_plane)
    }
}

/// A running control plane. Dropping it ends it.
pub struct ControlPlane {
    client: kube::Client,
    url: String,
    kubeconfig: PathBuf,
    authority: Arc<Authority>,
    /// Bearer token to user, of the static users.
    tokens: BTreeMap<String, &'static str>,
    programs: Programs,
    kwok: Mutex<Option<Process>>,
    /// Held while kwok is replaced.
    restart: tokio::sync::Mutex<()>,
    /// In the order of their start. Ended before `dir` goes, and the last one first.
    processes: Vec<Process>,
    dir: WorkDir,
}

impl ControlPlane {
    /// With everything and one node, unless chosen otherwise.
    pub fn builder() -> Builder {
        Builder { api_only: false, nodes: 1, audit: false, stages: vec![], dir: None }
    }

    async fn start_api_server(programs: Programs, dir: WorkDir, audit: bool) -> Result<Self> {
        let deadline = Instant::now() + START_TIMEOUT;
        let path = dir.path().to_owned();
        let authority = Authority::new()?;
        let serving = authority.serving()?;
        dir.write("ca.crt", &authority.pem())?;
        dir.write("apiserver.crt", &serving.certificate)?;
        dir.write("apiserver.key", &serving.key)?;
        let (private, public) = pki::service_account_keys()?;
        dir.write("service-account.key", &private)?;
        dir.write("service-account.pub", &public)?;
        dir.write("audit-policy.yaml", audit::POLICY)?;
        let tokens: BTreeMap<_, _> = [ADMIN, CONTROLLER_MANAGER, SCHEDULER, KWOK].map(|user| (pki::token(), user)).into();
        let lines = tokens.iter().map(|(token, user)| format!("{token},{user},{user},\"system:masters\"\n"));
        dir.write("tokens.csv", &lines.collect::<String>())?;

        let (etcd_port, peer_port, port) = (free_port()?, free_port()?, free_port()?);
        let (etcd_url, peer_url) = (format!("http://127.0.0.1:{etcd_port}"), format!("http://127.0.0.1:{peer_port}"));
        let url = format!("https://127.0.0.1:{port}");
        let file = |name: &str| path.join(name).display().to_string();
        let mut etcd = Process::start(
            &programs.get("etcd")?,
            vec![
                format!("--data-dir={}", file("etcd")),
                format!("--listen-client-urls={etcd_url}"),
                format!("--advertise-client-urls={etcd_url}"),
                format!("--listen-peer-urls={peer_url}"),
                format!("--initial-advertise-peer-urls={peer_url}"),
                format!("--initial-cluster=default={peer_url}"),
                // The data need not survive a crash of the host.
                "--unsafe-no-fsync".into(),
                "--log-level=error".into(),
            ],
            &path,
        )?;
        etcd.wait_listening(etcd_port, deadline).await?;

        let mut args = vec![
            format!("--etcd-servers={etcd_url}"),
            "--bind-address=127.0.0.1".into(),
            "--advertise-address=127.0.0.1".into(),
            // A loopback address is refused as an endpoint of the Service `kubernetes`.
            "--endpoint-reconciler-type=none".into(),
            format!("--secure-port={port}"),
            format!("--tls-cert-file={}", file("apiserver.crt")),
            format!("--tls-private-key-file={}", file("apiserver.key")),
            "--service-cluster-ip-range=10.96.0.0/16".into(),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", file("service-account.pub")),
            format!("--service-account-signing-key-file={}", file("service-account.key")),
            format!("--token-auth-file={}", file("tokens.csv")),
            "--authorization-mode=RBAC".into(),
            // Network add-ons are privileged DaemonSets.
            "--allow-privileged=true".into(),
            // By default goodbyes take up to a minute; nobody waits for ours.
            "--shutdown-delay-duration=0s".into(),
        ];
        if audit {
            args.push(format!("--audit-policy-file={}", file("audit-policy.yaml")));
            args.push(format!("--audit-log-path={}", file("audit.log")));
            args.push("--audit-log-maxsize=10000".into());
        }
        let mut server = Process::start(&programs.get("kube-apiserver")?, args, &path)?;
        server.wait_listening(port, deadline).await?;

        let admin = token_of(&tokens, ADMIN)?;
        let kubeconfig = dir.write("kubeconfig", &pki::kubeconfig(&url, &authority.pem(), ADMIN, admin))?;
        let client = client_from(&kubeconfig).await?;
        while !is_ready(&client).await {
            server.check_running()?;
            if Instant::now() > deadline {
                bail!("kube-apiserver is not ready in time; its log: {}", server.log().display());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Self {
            client,
            url,
            kubeconfig,
            authority: Arc::new(authority),
            tokens,
            programs,
            kwok: Mutex::default(),
            restart: tokio::sync::Mutex::default(),
            processes: vec![etcd, server],
            dir,
        })
    }

    async fn start_controllers(&mut self, stages: &[Stage]) -> Result<()> {
        let path = self.dir.path().to_owned();
        let file = |name: &str| path.join(name).display().to_string();
        for (user, name) in [(CONTROLLER_MANAGER, "controller-manager"), (SCHEDULER, "scheduler"), (KWOK, "kwok")] {
            let content = pki::kubeconfig(&self.url, &self.authority.pem(), user, token_of(&self.tokens, user)?);
            self.dir.write(&format!("{name}.kubeconfig"), &content)?;
        }
        let manager = vec![
            format!("--kubeconfig={}", file("controller-manager.kubeconfig")),
            // No port: nobody asks them for metrics or health.
            "--secure-port=0".into(),
            "--leader-elect=false".into(),
            format!("--service-account-private-key-file={}", file("service-account.key")),
            format!("--root-ca-file={}", file("ca.crt")),
            "--use-service-account-credentials=false".into(),
            "--controllers=*".into(),
        ];
        self.processes.push(Process::start(&self.programs.get("kube-controller-manager")?, manager, &path)?);
        let scheduler = vec![
            format!("--kubeconfig={}", file("scheduler.kubeconfig")),
            "--secure-port=0".into(),
            "--leader-elect=false".into(),
        ];
        self.processes.push(Process::start(&self.programs.get("kube-scheduler")?, scheduler, &path)?);
        self.set_stages(stages).await
    }

    async fn wait_until_usable(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        // Pods are refused until the controller manager has made the ServiceAccount that they run as.
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), "default");
        while accounts.get_opt("default").await?.is_none() || !nodes::all_ready(&self.client).await? {
            self.check_running()?;
            if Instant::now() > deadline {
                bail!("nodes are not Ready in time; logs: {}", self.dir.path().display());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    fn lock_kwok(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.kwok.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what pods do: pods that no stage selects any more become Ready, those selected by a new one follow it.
    ///
    /// # Errors
    /// kwok cannot be restarted, or this control plane was made with [`Builder::api_only`].
    pub async fn set_stages(&self, stages: &[Stage]) -> Result<()> {
        if !self.dir.path().join("kwok.kubeconfig").exists() {
            bail!("there are no kwok nodes in this control plane: leave out api_only()");
        }
        let builtin = std::fs::read_to_string(self.programs.get("stages.yaml")?)?;
        let config = stages::config(&builtin, stages)?;
        let _one_at_a_time = self.restart.lock().await;
        let config = self.dir.write("stages.yaml", &config)?;
        let old = self.lock_kwok().take();
        if let Some(old) = old {
            drop(old);
            // The next kwok has another identity, and would wait until the leases of this one expire.
            let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
            leases.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        }
        let args = vec![
            format!("--kubeconfig={}", self.dir.path().join("kwok.kubeconfig").display()),
            format!("--config={}", config.display()),
            "--manage-all-nodes=true".into(),
            "--node-lease-duration-seconds=40".into(),
            "--cidr=10.244.0.1/16".into(),
            "--node-ip=10.0.0.1".into(),
        ];
        *self.lock_kwok() = Some(Process::start(&self.programs.get("kwok")?, args, self.dir.path())?);
        Ok(())
    }

    /// Adds a kwok node with these labels besides the usual ones, and returns when it is Ready.
    ///
    /// # Errors
    /// The node exists, or does not become Ready.
    pub async fn add_node(&self, name: &str, labels: &[(&str, &str)]) -> Result<()> {
        nodes::create(&self.client, name, labels).await?;
        let deadline = Instant::now() + START_TIMEOUT;
        while !nodes::all_ready(&self.client).await? {
            if Instant::now() > deadline {
                bail!("node {name} is not Ready in time; log: {}", self.dir.path().join("kwok.log").display());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
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
        let kwok = self.lock_kwok();
        self.processes.iter().chain(kwok.as_ref()).map(|process| (process.name().to_owned(), process.pid())).collect()
    }

    /// Are all of its processes running?
    ///
    /// # Errors
    /// One has ended; the error shows the end of its log.
    pub fn check_running(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(Process::check_running)?;
        self.lock_kwok().as_mut().map_or(Ok(()), Process::check_running)
    }

    /// Certificate authority of the API server's and of the proxies' certificates, PEM.
    pub fn ca_pem(&self) -> String {
        self.authority.pem()
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
    pub async fn kubectl_as(&self, kubeconfig: &Path, args: &[&str], input: &str) -> Result<String> {
        let mut child = tokio::process::Command::new(self.programs.get("kubectl")?)
            .args(args)
            .env("KUBECONFIG", kubeconfig)
            .env("KUBECACHEDIR", self.dir.path().join("kubectl-cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut stdin = child.stdin.take().context("stdin is piped")?;
        let write = async move {
            // An early end of kubectl is reported by its status.
            let _ = stdin.write_all(input.as_bytes()).await;
        };
        let ((), output) = tokio::join!(write, child.wait_with_output());
        let output = output?;
        if !output.status.success() {
            bail!("kubectl {}: {}: {}", args.join(" "), output.status, String::from_utf8_lossy(&output.stderr).trim_end());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// A real token of a ServiceAccount, valid for a day (by `TokenRequest`, as the kubelet gets one for a pod).
    ///
    /// # Errors
    /// The ServiceAccount does not exist.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let spec = TokenRequestSpec { expiration_seconds: Some(86_400), ..Default::default() };
        let request = TokenRequest { spec: Some(spec), ..Default::default() };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("no token for the ServiceAccount {namespace}/{name}"))?;
        answer.status.and_then(|status| status.token).context("a TokenRequest was answered without a token")
    }

    /// Writes a kubeconfig with a real token of a ServiceAccount and returns its path: what runs with it has the rights that RBAC
    /// gives this ServiceAccount, no more.
    ///
    /// # Errors
    /// The ServiceAccount does not exist.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        self.service_account_kubeconfig_via(&self.url, namespace, name).await
    }

    /// The same for another server: [`Proxy::url`](crate::proxy::Proxy::url).
    ///
    /// # Errors
    /// The ServiceAccount does not exist.
    pub async fn service_account_kubeconfig_via(&self, server: &str, namespace: &str, name: &str) -> Result<PathBuf> {
        let token = self.service_account_token(namespace, name).await?;
        let user = format!("system:serviceaccount:{namespace}:{name}");
        self.write_kubeconfig(server, &user, &token)
    }

    /// Writes a kubeconfig of the admin for another server and returns its path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn admin_kubeconfig_via(&self, server: &str) -> Result<PathBuf> {
        self.write_kubeconfig(server, ADMIN, token_of(&self.tokens, ADMIN)?)
    }

    fn write_kubeconfig(&self, server: &str, user: &str, token: &str) -> Result<PathBuf> {
        let port = server.rsplit(':').next().unwrap_or_default();
        let path = self.dir.path().join(format!("{}-{port}.kubeconfig", user.replace(':', "-")));
        write_private(&path, &pki::kubeconfig(server, &self.authority.pem(), user, token))
    }

    /// Every request so far, as the API server saw it, in the order in which they ended (watches: began to be answered).
    ///
    /// # Errors
    /// It was not started with [`Builder::audit`].
    pub fn audit_events(&self) -> Result<Vec<AuditEvent>> {
        audit::read(&self.dir.path().join("audit.log")).context("start the control plane with .audit(true)")
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(crate) fn tokens(&self) -> BTreeMap<String, String> {
        self.tokens.iter().map(|(token, user)| (token.clone(), (*user).to_owned())).collect()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        drop(self.lock_kwok().take());
        // The API server before its etcd: without etcd it would go on trying.
        while let Some(process) = self.processes.pop() {
            drop(process);
        }
    }
}

/// A client for a kubeconfig file.
///
/// # Errors
/// The file cannot be read or names no usable cluster.
pub async fn client_from(kubeconfig: &Path) -> Result<kube::Client> {
    // Several TLS libraries may be linked; kube takes the process-wide one. It fails if there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

async fn is_ready(client: &kube::Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(vec![]) else { return false };
    client.request_text(request).await.is_ok_and(|text| text == "ok")
}

fn token_of<'a>(tokens: &'a BTreeMap<String, &'static str>, user: &str) -> Result<&'a str> {
    let found = tokens.iter().find(|(_, name)| **name == user);
    found.map(|(token, _)| token.as_str()).with_context(|| format!("no token of {user}"))
}
