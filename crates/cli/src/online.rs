//! Common parts of all commands that use a cluster: the choice of the cluster, and Weft's
//! installation in it.

use std::{ffi::OsString, future::Future, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result, anyhow};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use serde_json::Value;
use weft_operator::{Opened, Served};
use weft_plan::{Domain, Inventory, OWNER_LABEL, ObjectSet, Owner, kinds, report::FailureClass};
use weft_runtime::{
    api_server::cluster::{self, Cluster},
    inspect::{
        presence::{self, Leader, Operator},
        reader::Reader,
    },
    metrics::Metrics,
    reconcile::{objects::Objects, set::SetObjects, stored::StoredError},
};

use crate::domains::{Entry, Environment};

/// How to install Weft for this domain.
pub fn how_to_install(domain: &str) -> String {
    format!(
        "install it: weft manifests --domains {domain} | kubectl apply -f - (name the domains that Weft serves already, too)"
    )
}

/// Which cluster.
#[derive(clap::Args)]
pub struct ClusterArgs {
    /// A kubeconfig file. By default $KUBECONFIG, ~/.kube/config or, in a pod, its service account
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context in the kubeconfig to use [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// The operator's namespace, where no Deployment of it shows it [default: where its inventory
    /// is, else as OPERATOR_NAMESPACE says, else the usual one]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

impl ClusterArgs {
    /// Returns the flags that choose the same cluster for another command.
    pub fn flags(&self) -> Vec<OsString> {
        let kubeconfig = self.kubeconfig.as_ref().map(|path| path.clone().into());
        [
            ("--kubeconfig", kubeconfig),
            ("--context", self.context.as_ref().map(OsString::from)),
            ("--namespace", self.namespace.as_ref().map(OsString::from)),
        ]
        .into_iter()
        .filter_map(|(flag, value)| Some([OsString::from(flag), value?]))
        .flatten()
        .collect()
    }

    /// Connects. No request is made yet.
    ///
    /// # Errors
    /// No cluster is configured, or not in a usable way.
    pub async fn connect(&self) -> Result<Online> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path)
                    .with_context(|| format!("the kubeconfig {} cannot be used", path.display()))?;
                Config::from_custom_kubeconfig(file, &options)
                    .await
                    .map_err(unusable)?
            }
            None if self.context.is_some() => {
                Config::from_kubeconfig(&options).await.map_err(unusable)?
            }
            None => Config::infer().await.map_err(|error| {
                anyhow!(
                    "no cluster is configured: set KUBECONFIG, or give --kubeconfig ({})",
                    first_line(&error.to_string())
                )
            })?,
        };
        config.default_retry = false;
        // Well below the time that people wait before they think that it hangs.
        config.connect_timeout = Some(Duration::from_secs(10));
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config)
            .map_err(|error| anyhow!("the kubeconfig cannot be used: {error}"))?;
        Ok(Online {
            cluster: Cluster::new(client).patient(),
            server,
            namespace: self.namespace.clone(),
            metrics: Metrics::default(),
        })
    }
}

fn unusable(error: KubeconfigError) -> anyhow::Error {
    anyhow!("the kubeconfig cannot be used: {error}. Its contexts: kubectl config get-contexts")
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
}

impl Online {
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
        let mut sites = Vec::new();
        for entry in entries {
            sites.push(self.site(entry, &operators).await?);
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
            sites.push(self.site(entry, &[]).await?);
        }
        Ok(sites)
    }

    async fn site(&self, entry: &'static Entry, operators: &[Operator]) -> Result<Site> {
        let operator = operators
            .iter()
            .find(|operator| operator.domains.iter().any(|domain| domain == entry.name))
            .cloned();
        let environment = match (&operator, &self.namespace) {
            (Some(operator), _) => Environment::of_operator(operator.environment.clone()),
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
        })
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

    /// The Lease's holder, if it has not run out.
    ///
    /// # Errors
    /// The API server refuses a request.
    pub async fn leader(&self, site: &Site) -> Result<Option<Leader>> {
        let leader = presence::leader(&self.cluster, &site.namespace, &*site.domain)
            .await
            .map_err(|error| self.explain(error))?;
        Ok(leader.filter(|leader| leader.is_alive(jiff::Timestamp::now())))
    }
}

impl Site {
    /// Returns an error that the cluster does not know the kind, with the way out.
    pub fn not_installed(&self) -> anyhow::Error {
        let kind = self.entry.resource;
        anyhow!(
            "Weft is not installed for {}: the cluster does not know {} ({}); {}",
            self.entry.name,
            kind.kind,
            kind.api_version(),
            how_to_install(self.entry.name)
        )
    }
}
