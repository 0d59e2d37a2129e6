//! The start: from a choice to running programs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, atomic::AtomicBool};

use anyhow::Result;

use crate::{
    audit,
    client::client_from,
    control_plane::{ADMIN, ControlPlane, Etcd, token_of, wait_ready},
    host_lab,
    lab::site::{Site, addresses},
    nodes,
    pki::{self, Authority},
    process::{Process, free_port},
    programs::Programs,
    stages::Stage,
    stored::{self, StoredKind},
    workdir::WorkDir,
};

const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
const KWOK: &str = "kwok";

/// Chooses what a [`ControlPlane`] consists of.
#[derive(Clone, Debug)]
pub struct Builder {
    api_only: bool,
    nodes: usize,
    prefix: &'static str,
    audit: bool,
    garbage_collector: bool,
    stages: Vec<Stage>,
    stored: Vec<StoredKind>,
    dir: Option<PathBuf>,
    site: Option<Site>,
}

impl Builder {
    fn new() -> Self {
        Self {
            api_only: false,
            nodes: 1,
            prefix: "node-",
            audit: false,
            garbage_collector: true,
            stages: vec![],
            stored: vec![],
            dir: None,
            site: None,
        }
    }

    /// Only etcd and kube-apiserver: enough for schema, admission, apply and RBAC. Nothing is
    /// garbage collected and no workload gets pods. Sets the nodes to 0.
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

    /// Sets the prefix of the names of kwok nodes, before their number: `node-` by default.
    #[must_use]
    pub(crate) fn node_prefix(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    /// Has the API server write an audit log, see [`ControlPlane::audit_events`]. Off by default.
    #[must_use]
    pub fn audit(mut self, audit: bool) -> Self {
        self.audit = audit;
        self
    }

    /// Sets whether the controller manager removes objects that have lost their owner. It does by
    /// default. Its metadata informers begin to watch every kind at a time that nobody can choose,
    /// so a test that counts requests at the API server switches it off.
    #[must_use]
    pub fn garbage_collector(mut self, runs: bool) -> Self {
        self.garbage_collector = runs;
        self
    }

    /// Adds a stage: what some pods do instead of becoming Ready at once.
    #[must_use]
    pub fn stage(mut self, stage: Stage) -> Self {
        self.stages.push(stage);
        self
    }

    /// Has the cluster begin with these objects, as [`ControlPlane::stored`] returns them: with
    /// their uids, status, managedFields and generations. Leave out what the API server and the
    /// controllers make by themselves. Nodes among them are kwok's, like those of
    /// [`nodes`](Self::nodes).
    #[must_use]
    pub fn stored(mut self, objects: Vec<StoredKind>) -> Self {
        self.stored = objects;
        self
    }

    /// Keeps everything in this folder instead of a temporary one. It is made if need be and
    /// removed at the end.
    #[must_use]
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// For real nodes: in a network namespace, and without kwok.
    pub(crate) fn site(mut self, site: Site) -> Self {
        self.site = Some(site);
        self
    }

    /// The parts that can differ among control planes of the pool: whether it is
    /// [`api_only`](Self::api_only), the names of its nodes, and the stages.
    pub(crate) fn lendable(self) -> (bool, Vec<String>, Vec<Stage>) {
        let nodes = (1..=self.nodes).map(|index| format!("{}{index}", self.prefix));
        (self.api_only, nodes.collect(), self.stages)
    }

    /// Starts the programs, building them first if they are not there (see [`Programs::find`]).
    /// Returns when the API server is ready and, unless [`api_only`](Self::api_only), all nodes are
    /// Ready and pods can be created.
    ///
    /// # Errors
    /// A program is missing, ended or is not ready within two minutes. The error shows the end of
    /// its log.
    pub async fn start(self) -> Result<ControlPlane> {
        let programs = tokio::task::spawn_blocking(Programs::find).await??;
        let mut attempts = 3;
        loop {
            attempts -= 1;
            match self.start_once(&programs).await {
                Ok(control_plane) => return Ok(control_plane),
                // Another user took one of the free ports first.
                Err(error)
                    if attempts > 0 && format!("{error:#}").contains("address already in use") => {}
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
        let mut control_plane = ControlPlane::start_api_server(programs.clone(), dir, self).await?;
        if !self.api_only {
            control_plane.start_controllers(self).await?;
            for index in 1..=self.nodes {
                nodes::create(
                    &control_plane.client,
                    &format!("{}{index}", self.prefix),
                    &[],
                )
                .await?;
            }
            control_plane.wait_until_usable().await?;
        }
        control_plane.dir.keep = kept;
        Ok(control_plane)
    }
}

impl ControlPlane {
    /// With everything and one node, unless chosen otherwise.
    pub fn builder() -> Builder {
        Builder::new()
    }

    async fn start_api_server(programs: Programs, dir: WorkDir, choice: &Builder) -> Result<Self> {
        let site = choice.site.as_ref();
        let path = dir.path().to_owned();
        let authority = Authority::new()?;
        let serving = authority.serving(
            &[addresses::API_SERVER, host_lab::addresses::API_SERVER]
                .map(|address| address.to_string()),
        )?;
        dir.write("ca.crt", &authority.pem())?;
        dir.write("apiserver.crt", &serving.certificate)?;
        dir.write("apiserver.key", &serving.key)?;
        let (private, public) = pki::service_account_keys()?;
        dir.write("service-account.key", &private)?;
        dir.write("service-account.pub", &public)?;
        dir.write("audit-policy.yaml", audit::POLICY)?;
        let tokens: BTreeMap<_, _> = [ADMIN, CONTROLLER_MANAGER, SCHEDULER, KWOK]
            .map(|user| (pki::token(), user))
            .into();
        let lines = tokens
            .iter()
            .map(|(token, user)| format!("{token},{user},{user},\"system:masters\"\n"));
        dir.write("tokens.csv", &lines.collect::<String>())?;

        let network = site.map(|site| site.network.as_path());
        let start =
            |program: &str, args| Process::start(&programs.get(program)?, args, network, &path);
        let (etcd_port, peer_port) = (free_port()?, free_port()?);
        let (etcd_url, peer_url) = (
            format!("http://127.0.0.1:{etcd_port}"),
            format!("http://127.0.0.1:{peer_port}"),
        );
        let (port, url) = match site {
            Some(site) => (addresses::API_SERVER_PORT, site.url.clone()),
            None => {
                let port = free_port()?;
                (port, format!("https://127.0.0.1:{port}"))
            }
        };
        let file = |name: &str| path.join(name).display().to_string();
        let mut etcd = start(
            "etcd",
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
        )?;
        etcd.wait_listening(etcd_port).await?;
        stored::write(etcd_port, &choice.stored).await?;

        let mut args = vec![
            format!("--etcd-servers={etcd_url}"),
            format!("--secure-port={port}"),
            format!("--tls-cert-file={}", file("apiserver.crt")),
            format!("--tls-private-key-file={}", file("apiserver.key")),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-key-file={}", file("service-account.pub")),
            format!(
                "--service-account-signing-key-file={}",
                file("service-account.key")
            ),
            format!("--token-auth-file={}", file("tokens.csv")),
            // Network add-ons are privileged DaemonSets.
            "--allow-privileged=true".into(),
            // By default goodbyes take up to a minute. Nobody waits for ours.
            "--shutdown-delay-duration=0s".into(),
        ];
        match site {
            Some(site) => args.extend(site.api_server_args(&dir, &authority)?),
            None => args.extend([
                "--bind-address=127.0.0.1".into(),
                "--advertise-address=127.0.0.1".into(),
                // A loopback address is refused as an endpoint of the Service `kubernetes`.
                "--endpoint-reconciler-type=none".into(),
                "--service-cluster-ip-range=10.96.0.0/16".into(),
                "--authorization-mode=RBAC".into(),
            ]),
        }
        if choice.audit {
            args.push(format!("--audit-policy-file={}", file("audit-policy.yaml")));
            args.push(format!("--audit-log-path={}", file("audit.log")));
            args.push("--audit-log-maxsize=10000".into());
        }
        let mut server = start("kube-apiserver", args)?;
        server.wait_listening(port).await?;

        let admin = token_of(&tokens, ADMIN)?;
        let kubeconfig = dir.write(
            "kubeconfig",
            &pki::kubeconfig(&url, &authority.pem(), ADMIN, admin),
        )?;
        let client = client_from(&kubeconfig).await?;
        wait_ready(&client, &mut server).await?;
        Ok(Self {
            client,
            url,
            kubeconfig,
            authority: Arc::new(authority),
            tokens,
            programs,
            kwok: Mutex::default(),
            restart: tokio::sync::Mutex::default(),
            audited: Mutex::default(),
            is_altered: AtomicBool::new(false),
            processes: Mutex::new(vec![etcd, server]),
            etcd: site.is_none().then_some(Etcd {
                port: etcd_port,
                peer_url,
                api_server_port: port,
            }),
            dir,
        })
    }

    async fn start_controllers(&self, choice: &Builder) -> Result<()> {
        let site = choice.site.as_ref();
        let url = site.map_or_else(|| self.url.clone(), |_| Site::inner_url());
        let path = self.dir.path().to_owned();
        let file = |name: &str| path.join(name).display().to_string();
        let kwok = site.is_none().then_some((KWOK, "kwok"));
        for (user, name) in [
            (CONTROLLER_MANAGER, "controller-manager"),
            (SCHEDULER, "scheduler"),
        ]
        .into_iter()
        .chain(kwok)
        {
            let content = pki::kubeconfig(
                &url,
                &self.authority.pem(),
                user,
                token_of(&self.tokens, user)?,
            );
            self.dir.write(&format!("{name}.kubeconfig"), &content)?;
        }
        let mut manager = vec![
            format!("--kubeconfig={}", file("controller-manager.kubeconfig")),
            // No port: nobody asks them for metrics or health.
            "--secure-port=0".into(),
            "--leader-elect=false".into(),
            format!(
                "--service-account-private-key-file={}",
                file("service-account.key")
            ),
            format!("--root-ca-file={}", file("ca.crt")),
            "--use-service-account-credentials=false".into(),
            // The default is 20 requests a second. The controller manager would work through the
            // objects of the last test for a minute, and the next test would wait for it.
            "--kube-api-qps=1000".into(),
            "--kube-api-burst=1000".into(),
            if choice.garbage_collector {
                "--controllers=*".into()
            } else {
                "--controllers=*,-garbage-collector-controller".into()
            },
        ];
        manager.extend(site.iter().flat_map(|site| site.controller_manager_args()));
        if site.is_none() {
            // kwok 0.8 may lose a node from the queue of its Leases: the deletion of the node that an
            // earlier test had under this name takes the new one out. Without a renewal, a node is not
            // Ready after this time, 50 s by default, and no more are its pods. Few tests take longer.
            manager.push("--node-monitor-grace-period=90s".into());
        }
        let scheduler = vec![
            format!("--kubeconfig={}", file("scheduler.kubeconfig")),
            "--secure-port=0".into(),
            "--leader-elect=false".into(),
        ];
        for (program, args) in [
            ("kube-controller-manager", manager),
            ("kube-scheduler", scheduler),
        ] {
            let program = self.programs.get(program)?;
            let network = site.map(|site| site.network.as_path());
            let process = Process::start(&program, args, network, &path)?;
            self.lock_processes().push(process);
        }
        if site.is_some() {
            Ok(())
        } else {
            self.set_stages(&choice.stages).await
        }
    }
}
