//! Common parts of all commands that use a cluster: the choice of the cluster, and Weft's
//! installation in it.

use std::{
    collections::BTreeMap, ffi::OsString, future::Future, path::PathBuf, sync::Arc, time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use kube::{
    Client, Config,
    config::{ExecInteractiveMode, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use serde_json::Value;
use weft_operator::{Opened, Served};
use weft_plan::{
    Domain, Inventory, Live, OWNER_LABEL, ObjectKey, ObjectSet, Owner, is_object_name, kinds,
    report::FailureClass,
};
use weft_runtime::{
    api_server::{
        clock,
        cluster::{self, Cluster},
    },
    inspect::{
        presence::{self, Leader, Operator},
        reader::Reader,
    },
    metrics::Metrics,
    reconcile::{objects::Objects, set::SetObjects, stored::StoredError},
};

use crate::{
    domains::{Entry, Environment},
    reinstall::{Reinstall, how_to_install},
    suggest::did_you_mean,
};

/// How to free a Lease whose holder is a ghost.
pub fn how_to_free(lease: &ObjectKey) -> String {
    format!(
        "delete it: kubectl delete lease {} -n {}",
        lease.name,
        lease.namespace.as_deref().unwrap_or_default()
    )
}

/// Which cluster.
#[derive(Clone, clap::Args)]
pub struct ClusterChoice {
    /// A kubeconfig file. By default $KUBECONFIG, ~/.kube/config or, in a pod, its service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context in the kubeconfig to use [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Which cluster, and where Weft is in it.
#[derive(clap::Args)]
pub struct ClusterArgs {
    #[command(flatten)]
    choice: ClusterChoice,

    /// The operator's namespace, where no Deployment of it shows it [default: where its inventory
    /// is, else as OPERATOR_NAMESPACE says, else the usual one]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

impl ClusterChoice {
    /// Checks a cluster that the user names, without a request. Without a name all is well.
    ///
    /// # Errors
    /// The kubeconfig cannot be used, or it lacks the context.
    pub fn check(&self) -> Result<()> {
        if self.kubeconfig.is_some() || self.context.is_some() {
            block_on(self.config())?;
        }
        Ok(())
    }

    async fn config(&self) -> Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        match &self.kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path)
                    .with_context(|| format!("the kubeconfig {} cannot be used", path.display()))?;
                Config::from_custom_kubeconfig(file, &options)
                    .await
                    .map_err(unusable)
            }
            None if self.context.is_some() => {
                Config::from_kubeconfig(&options).await.map_err(unusable)
            }
            None => Config::infer().await.map_err(|error| {
                anyhow!(
                    "no cluster is configured: set KUBECONFIG, or give --kubeconfig ({})",
                    first_line(&error.to_string())
                )
            }),
        }
    }

    /// Connects. A program that gets the credentials may not ask the user anything. No request is
    /// made yet.
    ///
    /// # Errors
    /// No cluster is configured, or not in a usable way.
    pub async fn connect_silently(&self) -> Result<Online> {
        let mut config = self.config().await?;
        if let Some(program) = &mut config.auth_info.exec {
            program.interactive_mode = Some(ExecInteractiveMode::Never);
        }
        Online::of(config, None)
    }
}

impl ClusterArgs {
    /// This cluster, where the operator's namespace is not known.
    pub fn new(choice: ClusterChoice) -> Self {
        Self {
            choice,
            namespace: None,
        }
    }

    /// Returns the flags that choose the same cluster for another command.
    pub fn flags(&self) -> Vec<OsString> {
        let ClusterChoice {
            kubeconfig,
            context,
        } = &self.choice;
        let kubeconfig = kubeconfig.as_ref().map(|path| path.clone().into());
        [
            ("--kubeconfig", kubeconfig),
            ("--context", context.as_ref().map(OsString::from)),
            ("--namespace", self.namespace.as_ref().map(OsString::from)),
        ]
        .into_iter()
        .filter_map(|(flag, value)| Some([OsString::from(flag), value?]))
        .flatten()
        .collect()
    }

    /// Connects. Only `--namespace` is looked up.
    ///
    /// # Errors
    /// No cluster is configured, or not in a usable way, or it does not have the namespace.
    pub async fn connect(&self) -> Result<Online> {
        let online = Online::of(self.choice.config().await?, self.namespace.clone())?;
        if let Some(namespace) = &self.namespace {
            online.look_up_namespace(namespace).await?;
        }
        Ok(online)
    }
}

fn unusable(error: KubeconfigError) -> anyhow::Error {
    anyhow!("the kubeconfig cannot be used: {error}. Its contexts: kubectl config get-contexts")
}

/// Reports whether a reader that has looked for operators may read all of them.
pub fn knows_operators(reader: &Reader) -> bool {
    !(reader.is_unread(kinds::DEPLOYMENT, None) || reader.is_unread(kinds::DAEMON_SET, None))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// A cluster that can be asked.
pub struct Online {
    /// The client of its API server.
    pub cluster: Cluster,
    server: String,
    namespace: Option<String>,
    metrics: Metrics,
}

/// Known facts about a domain in a cluster.
pub struct Site {
    /// The entry of the domain.
    pub entry: &'static Entry,
    /// Its pure half, set up as the installed operator is.
    pub domain: Arc<dyn Domain>,
    /// The same, by the controller that serves its resource.
    pub served: Served,
    /// The operator's Deployment, if there is one.
    pub operator: Option<Operator>,
    /// The namespace of the operator.
    pub namespace: String,
    /// The operator's environment.
    pub environment: Environment,
    /// How to install Weft for the domain, next to what is installed, for people.
    pub how_to_install: String,
    /// The command of that, as far as the operators are known.
    pub install: Reinstall,
}

/// The state of the Lease of a domain.
pub enum Lead {
    /// An operator of Weft leads, or a pod that may be one.
    By(Leader),
    /// No operator leads. The holder of the Lease is neither an operator of Weft nor a pod. The text is
    /// the reason for people.
    Ghost(String),
    /// No operator leads. The Lease has expired, or has no holder.
    Nobody,
}

impl Online {
    fn of(mut config: Config, namespace: Option<String>) -> Result<Self> {
        config.default_retry = false;
        // Well below the time that people wait before they think that it hangs.
        config.connect_timeout = Some(Duration::from_secs(10));
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config)
            .map_err(|error| anyhow!("the kubeconfig cannot be used: {error}"))?;
        Ok(Self {
            cluster: Cluster::new(client).patient(),
            server,
            namespace,
            metrics: Metrics::default(),
        })
    }

    /// Looks for a namespace that the user names. It counts as known if the user may not read it.
    ///
    /// # Errors
    /// The cluster does not have it, or cannot be reached.
    async fn look_up_namespace(&self, name: &str) -> Result<()> {
        if is_object_name(name) {
            let key = ObjectKey::new(kinds::NAMESPACE, "", name);
            match self.cluster.get_metadata(&key).await {
                Ok(None) => {}
                Ok(Some(_)) => return Ok(()),
                Err(error) if error.class() == FailureClass::Forbidden => return Ok(()),
                Err(error) => return Err(self.explain(error)),
            }
        }
        // Not everybody may look at all of them.
        let all = self.cluster.list_metadata(kinds::NAMESPACE, None, "").await;
        let (all, _) = all.unwrap_or_default();
        let known = all.iter().map(|namespace| Live::of(namespace).name());
        match did_you_mean(name, known) {
            Some(close) => bail!("the cluster has no namespace {name:?}; did you mean {close:?}?"),
            None => bail!("the cluster has no namespace {name:?}: kubectl get namespaces"),
        }
    }

    /// Looks for the operators of these domains. Where there is none, the domain is set up by what
    /// an operator has left, flags and environment.
    ///
    /// # Errors
    /// The cluster cannot be reached or refuses a request, or the operator's settings are unusable.
    pub async fn sites(
        &self,
        entries: impl IntoIterator<Item = &'static Entry>,
    ) -> Result<Vec<Site>> {
        self.sites_as_seen(&Reader::strict(&self.cluster), entries)
            .await
    }

    /// The same, as far as the user of this reader may look.
    ///
    /// # Errors
    /// As [`Online::sites`].
    pub async fn sites_as_seen(
        &self,
        reader: &Reader,
        entries: impl IntoIterator<Item = &'static Entry>,
    ) -> Result<Vec<Site>> {
        let operators = presence::operators(reader)
            .await
            .map_err(|error| self.explain(error))?;
        let known = knows_operators(reader).then_some(&operators[..]);
        let mut sites = Vec::new();
        for entry in entries {
            sites.push(self.site(entry, known).await?);
        }
        Ok(sites)
    }

    /// The same without a look for operators, for a user who may not do that.
    ///
    /// # Errors
    /// As [`Online::sites`].
    pub async fn sites_without_operators(
        &self,
        entries: impl IntoIterator<Item = &'static Entry>,
    ) -> Result<Vec<Site>> {
        let mut sites = Vec::new();
        for entry in entries {
            sites.push(self.site(entry, None).await?);
        }
        Ok(sites)
    }

    /// `operators` is `None` if it is not known which ones there are.
    async fn site(&self, entry: &'static Entry, operators: Option<&[Operator]>) -> Result<Site> {
        let operator = operators
            .unwrap_or_default()
            .iter()
            .find(|operator| operator.domains.iter().any(|domain| domain == entry.name))
            .cloned();
        let environment = match (&operator, &self.namespace) {
            (Some(operator), _) => {
                let mut variables = operator.environment.clone();
                if entry.name == "cluster-network" && operator.reads_api_server_from_file() {
                    variables.extend(self.api_server_in_use(entry).await?);
                }
                Environment::of_operator(variables)
            }
            (None, namespace) => match (self.namespaces_by_inventory(entry).await?, namespace) {
                (Some((operator, operands)), _) => {
                    Environment::of_process().with_namespaces(&operator, &operands)
                }
                (None, Some(namespace)) => {
                    Environment::of_process().with_namespaces(namespace, namespace)
                }
                (None, None) => Environment::of_process(),
            },
        };
        let Opened {
            served, namespace, ..
        } = entry.serve(&environment)?;
        Ok(Site {
            entry,
            domain: served.domain(),
            served,
            operator,
            namespace,
            environment,
            how_to_install: how_to_install(entry.name, operators),
            install: Reinstall::adding(operators.unwrap_or_default(), entry.name),
        })
    }

    /// Returns where the pods of the cluster's network find the API server, as variables. An operator
    /// that reads this from a file of its node is no help to those who cannot read the file, but what
    /// it has deployed shows it. Empty if nothing is deployed, or may not be read.
    async fn api_server_in_use(&self, entry: &Entry) -> Result<BTreeMap<String, String>> {
        let owner = format!("{}.default", entry.resource.kind.to_lowercase());
        let owned = format!("labelSelector={OWNER_LABEL}={owner}");
        let listed = self.cluster.list(kinds::DAEMON_SET, None, &owned).await;
        let listed = match listed {
            Err(error) if error.class() == FailureClass::Forbidden => return Ok(BTreeMap::new()),
            listed => listed.map_err(|error| self.explain(error))?,
        };
        Ok(listed.iter().flat_map(presence::api_server_of).collect())
    }

    /// Returns how to install Weft for a domain, next to what is installed, for people.
    pub async fn how_to_install(&self, domain: &str) -> String {
        let reader = Reader::tolerant(&self.cluster);
        let operators = presence::operators(&reader).await.ok();
        let operators = operators.filter(|_| knows_operators(&reader));
        how_to_install(domain, operators.as_deref())
    }

    /// The namespaces of an operator and of its operands, by an inventory that it has left: in
    /// `--namespace`, else anywhere.
    async fn namespaces_by_inventory(&self, entry: &Entry) -> Result<Option<(String, String)>> {
        let maps = match self
            .cluster
            .list(
                kinds::CONFIG_MAP,
                self.namespace.as_deref(),
                &format!("labelSelector={OWNER_LABEL}"),
            )
            .await
        {
            // Not everybody may look everywhere.
            Err(error) if error.class() == FailureClass::Forbidden => return Ok(None),
            maps => maps.map_err(|error| self.explain(error))?,
        };
        let prefix = Inventory::config_map_name(entry.resource, "");
        let named = |map: &&Value| {
            map["metadata"]["name"]
                .as_str()
                .is_some_and(|name| name.starts_with(&prefix))
        };
        Ok(maps.iter().find(named).and_then(|map| {
            let operator = map["metadata"]["namespace"].as_str()?.to_owned();
            // A damaged inventory is an error later, in the steps that need it.
            let inventory = Inventory::from_data(&map["data"]).unwrap_or_default();
            let operands = inventory
                .objects
                .into_keys()
                .find(|key| key.kind == kinds::NAMESPACE)
                .map(|key| key.name);
            Some((operator.clone(), operands.unwrap_or(operator)))
        }))
    }

    /// Reads and writes on behalf of a resource.
    pub fn objects(&self, site: &Site, owner: Owner) -> Objects {
        Objects::new(
            self.cluster.clone(),
            None,
            Arc::clone(&site.domain),
            owner,
            self.metrics.clone(),
        )
    }

    /// Reads and writes on behalf of a resource that leads to a set of objects.
    pub fn set_objects(&self, site: &Site, set: &Arc<dyn ObjectSet>, owner: Owner) -> SetObjects {
        SetObjects::new(self.objects(site, owner), Arc::clone(set))
    }

    /// Takes `--namespace` for the namespace of resources. The operator's is found without it then.
    pub fn take_namespace(&mut self) -> Option<String> {
        self.namespace.take()
    }

    /// A failed request, with the way out where one is known.
    pub fn explain(&self, error: cluster::Error) -> anyhow::Error {
        match &error {
            cluster::Error::Connection(why) => anyhow!(
                "the cluster at {} cannot be reached: {why}. Is it running, and is this the right one? kubectl config current-context",
                self.server
            ),
            cluster::Error::Certificate(why) if error.is_of_unknown_authority() => anyhow!(
                "the certificate of the cluster at {} is not signed by the CA of the kubeconfig ({why}): compare certificate-authority-data (or certificate-authority) under clusters in the kubeconfig with the CA of this cluster, and check server next to it: kubectl config view --minify",
                self.server
            ),
            cluster::Error::Certificate(why) => anyhow!(
                "the certificate of the cluster at {} is not accepted: {why}. Check server and tls-server-name under clusters in the kubeconfig, and the clock of this machine: kubectl config view --minify",
                self.server
            ),
            cluster::Error::Api(status) if status.code == 401 => {
                anyhow!(
                    "the cluster at {} does not accept these credentials: log in again, or choose another --context",
                    self.server
                )
            }
            cluster::Error::Api(status) if status.code == 403 => {
                anyhow!("{error}. A user with more rights has to grant this, or run the command")
            }
            _ => error.into(),
        }
    }
}

/// Runs a command that waits for a cluster.
///
/// # Errors
/// Those of the command.
pub fn block_on<T>(command: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    runtime.block_on(command)
}

impl Online {
    /// The resources of a domain. `None` if the cluster does not serve their kind.
    ///
    /// # Errors
    /// The API server refuses a request.
    pub async fn resources(&self, site: &Site) -> Result<Option<Vec<Value>>> {
        match self.cluster.list(site.entry.resource, None, "").await {
            Ok(resources) => Ok(Some(resources)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// The same for what is stored about a resource.
    pub fn explain_stored(&self, error: StoredError) -> anyhow::Error {
        match error {
            StoredError::Request(error) => self.explain(error),
            damaged => damaged.into(),
        }
    }

    /// Looks who leads a domain.
    ///
    /// # Errors
    /// The API server refuses a request.
    pub async fn lead(&self, site: &Site) -> Result<Lead> {
        let leader = presence::leader(&self.cluster, &site.namespace, &*site.domain)
            .await
            .map_err(|error| self.explain(error))?;
        Ok(match leader {
            Some(leader) if leader.is_ghost => Lead::Ghost(leader.ghost(&site.lease())),
            Some(leader) if leader.is_alive(clock::now()) => Lead::By(leader),
            _ => Lead::Nobody,
        })
    }
}

impl Lead {
    /// Returns a note for a command that works although another holds the Lease, and that deletes
    /// the Lease.
    pub fn passed_over(&self) -> Option<String> {
        let Self::Ghost(why) = self else { return None };
        Some(format!(
            "{why}, so no operator is at work. This command deletes the Lease"
        ))
    }
}

impl Site {
    /// The Lease of the domain.
    pub fn lease(&self) -> ObjectKey {
        presence::lease_key(&self.namespace, &*self.domain)
    }

    /// Returns an error that the cluster does not know the kind, with the way out.
    pub fn not_installed(&self) -> anyhow::Error {
        let kind = self.entry.resource;
        anyhow!(
            "Weft is not installed for {}: the cluster does not know {} ({}); {}",
            self.entry.name,
            kind.kind,
            kind.api_version(),
            self.how_to_install
        )
    }
}
