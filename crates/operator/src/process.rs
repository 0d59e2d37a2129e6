//! The process: start, leader election, shutdown.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context;
use futures::FutureExt;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use weft_placement::domain::{KEYSTONES_VARIABLE, NAMESPACES_VARIABLE};
use weft_plan::{LogLevel, ProcessSettings, dropped::Shipped};
use weft_runtime::{
    api_server::{client, cluster::Cluster, fence::Fence},
    leader::lease::{self, LeaseConfig},
    metrics::Metrics,
    process::Wishes,
    serve::{
        metrics::{self, MetricsServer},
        probes::{self, Probes},
    },
    store::{rewind::Rewind, watch::Shared},
};

use crate::{
    connection::{self, Source},
    parts::Parts,
    registry,
};

/// How the operator runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which domains, as in [`crate::DOMAINS`].
    pub domains: Vec<String>,
    /// Returns the definitions of a domain, as this program ships them.
    pub definitions: fn(&str) -> Vec<Shipped>,
    /// Where to find the API server. Else in the usual places and, in a pod, by its service
    /// account.
    pub source: Source,
    /// How long a leader's lease lasts without renewal.
    pub lease_duration: Duration,
    /// Where `/healthz` and `/readyz` are served.
    pub probe_address: SocketAddr,
    /// Where `/metrics` is served.
    pub metrics: MetricsAddress,
    /// Name of this replica.
    pub instance: String,
    /// `metadata.uid` of the pod, if this process runs in one.
    pub pod_uid: Option<String>,
    /// The MTU of the host's network.
    pub host_mtu: HostMtu,
    /// The namespaces whose PlacementAPIs are served, separated by commas, or `*`. By default what
    /// the environment says.
    pub placement_namespaces: Option<String>,
    /// Addresses of Keystones to which the usual keys of all Secrets may be sent, separated by
    /// commas. By default what the environment says.
    pub keystone_urls: Option<String>,
}

/// From where the operator knows the MTU of its host's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostMtu {
    /// The operator does not know it: its own network is another one, or nothing depends on the
    /// MTU.
    Unknown,
    /// From its kernel: its pod is on the host's network.
    Probe,
    /// From its command line, in bytes.
    Bytes(u32),
}

impl HostMtu {
    /// Found out once: a default network keeps what was decided first.
    fn find(self) -> Option<u32> {
        match self {
            Self::Unknown => None,
            Self::Bytes(mtu) => Some(mtu),
            Self::Probe => match weft_host::default_mtu() {
                Ok(found) => {
                    tracing::info!(mtu = found.mtu, route = found.route, "the MTU of this host");
                    Some(found.mtu)
                }
                Err(error) => {
                    tracing::warn!(%error, "the MTU of this host is not known");
                    None
                }
            },
        }
    }
}

/// Where metrics are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsAddress {
    /// Metrics are not served.
    Off,
    /// Next to the probes: plain, for anybody.
    Probes,
    /// Over HTTPS, for clients that the API server lets read them.
    At(SocketAddr),
}

/// Runs until SIGTERM or SIGINT, then ends what is in flight and gives the leases back.
/// `set_log_level` is called whenever resources ask for another level, with `None` for the one that
/// the process began with.
///
/// # Errors
/// It cannot start: no cluster is configured, an address is taken, a setting is wrong.
pub async fn run(
    options: Options,
    set_log_level: impl Fn(Option<LogLevel>) + Send + 'static,
) -> anyhow::Result<()> {
    let (config, endpoint) = connection::connect(&options.source).await?;
    let variable = |name: &str| match (name, &endpoint) {
        (NAMESPACES_VARIABLE, _) if options.placement_namespaces.is_some() => {
            options.placement_namespaces.clone()
        }
        (KEYSTONES_VARIABLE, _) if options.keystone_urls.is_some() => options.keystone_urls.clone(),
        ("KUBERNETES_SERVICE_HOST", Some((host, _))) => Some(host.clone()),
        ("KUBERNETES_SERVICE_PORT", Some((_, port))) => Some(port.to_string()),
        _ => std::env::var(name).ok(),
    };
    let metrics = Metrics::default();
    let (stop, end_of_leases) = (CancellationToken::new(), CancellationToken::new());
    let (mut controllers, mut leases) = (JoinSet::new(), JoinSet::new());
    let mut caches = Vec::new();
    let wishes = Wishes::default();
    let mut reviewer = None;
    let host_mtu = options.host_mtu.find();
    for name in &options.domains {
        let opened = registry::open(name, &variable)?;
        let (domain, namespace) = (opened.served.domain(), opened.namespace.clone());
        let rewind = Rewind::default();
        let shared = Shared::with_rewind(rewind.clone());
        caches.push((domain.name(), shared.clone()));
        let fence = Fence::default();
        let client = client::connect(&config, &fence).context("the client cannot be set up")?;
        let cluster = Cluster::new(client);
        reviewer.get_or_insert_with(|| cluster.clone());
        let (leading, is_leading) = watch::channel(false);
        let replica = match &options.pod_uid {
            Some(uid) => format!("{}_{uid}", options.instance),
            None => options.instance.clone(),
        };
        let lease = LeaseConfig {
            namespace: namespace.clone(),
            name: format!("weft-{}", domain.name()),
            identity: lease::identity(&replica, rand::random()),
            pod: options.pod_uid.as_ref().map(|_| format!("{replica}_")),
            duration: options.lease_duration,
        };
        leases.spawn(lease::run(
            lease,
            cluster.clone(),
            fence,
            leading,
            rewind.clone(),
            end_of_leases.clone(),
        ));
        let parts = Parts {
            domain,
            namespace,
            cluster,
            shared,
            metrics: metrics.clone(),
            wishes: wishes.clone(),
            instance: options.instance.clone(),
            leading: is_leading,
            stop: CancellationToken::new(),
        };
        let shipped = (options.definitions)(name);
        let start = move |stop: CancellationToken| {
            parts.shared.start_over();
            parts.shared.lock().set_host_mtu(host_mtu);
            parts.shared.lock().set_shipped(shipped.clone());
            opened.start(Parts {
                stop,
                ..parts.clone()
            })
        };
        controllers.spawn(keep_running(name.clone(), start, rewind, stop.clone()));
    }
    let mut servers = JoinSet::new();
    servers.spawn(follow_log_level(wishes.subscribe(), set_log_level).map(|()| "log level"));
    let listener = listen(options.probe_address).await?;
    tracing::info!(
        address = %listener.local_addr()?,
        domains = options.domains.join(","),
        "serving /healthz and /readyz"
    );
    let plain = (options.metrics == MetricsAddress::Probes).then(|| metrics.clone());
    let probes = Probes {
        caches,
        metrics: plain,
    };
    servers.spawn(probes::serve(listener, probes, stop.clone()).map(|()| "probes"));
    if let (MetricsAddress::At(address), Some(cluster)) = (options.metrics, reviewer) {
        let listener = listen(address).await?;
        tracing::info!(metrics = %listener.local_addr()?, "serving /metrics over HTTPS");
        servers.spawn(metrics::tell_shortcomings(wishes.subscribe()).map(|()| "TLS settings"));
        let server = MetricsServer::new(cluster, metrics, wishes.subscribe());
        servers.spawn(server.serve(listener, stop.clone()).map(|()| "metrics"));
    }

    // No task ends before `stop`. If one does, the process must not continue as if it still ran.
    tokio::select! {
        () = signal() => tracing::info!("stopping"),
        Some(ended) = controllers.join_next() => {
            ended.context("a controller failed")??;
            anyhow::bail!("a controller ended by itself");
        }
        Some(ended) = leases.join_next() => {
            ended.context("the task that renews a Lease failed")?;
            anyhow::bail!("the task that renews a Lease ended by itself");
        }
        Some(ended) = servers.join_next() => {
            let task = ended.context("a server task failed")?;
            anyhow::bail!("the task for {task} ended by itself");
        }
    }
    stop.cancel();
    while controllers.join_next().await.is_some() {}
    // Only now, when nothing is written any more.
    end_of_leases.cancel();
    while leases.join_next().await.is_some() {}
    Ok(())
}

/// Runs the controllers of a domain until `stop`. When the API server's data has gone back in time
/// they start over, without anything that they remember: it is of a future that never happens.
///
/// # Errors
/// A controller failed or ended by itself.
async fn keep_running(
    domain: String,
    start: impl Fn(CancellationToken) -> JoinSet<()>,
    rewind: Rewind,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        let life = stop.child_token();
        let mut controllers = start(life.clone());
        let rewound = tokio::select! {
            () = rewind.signalled() => true,
            Some(ended) = controllers.join_next() => {
                ended.context("a controller failed")?;
                anyhow::ensure!(stop.is_cancelled(), "a controller ended by itself");
                false
            }
        };
        life.cancel();
        while let Some(ended) = controllers.join_next().await {
            ended.context("a controller failed")?;
        }
        if !rewound {
            return Ok(());
        }
        tracing::warn!(
            domain,
            "the API server's data has gone back in time, as after a restored backup; starting over"
        );
        rewind.clear();
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))
}

/// Sets the level that the resources ask for, whenever that is another one.
async fn follow_log_level(
    mut settings: watch::Receiver<ProcessSettings>,
    set: impl Fn(Option<LogLevel>),
) {
    let mut current = None;
    while settings.changed().await.is_ok() {
        let wanted = settings.borrow_and_update().log_level;
        if wanted != current {
            set(wanted);
            current = wanted;
            tracing::info!(
                level = wanted.map_or("as at the start", LogLevel::as_str),
                "the log level has changed"
            );
        }
    }
}

async fn signal() {
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(error) => {
                tracing::error!(%error, "SIGTERM cannot be handled");
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = terminate => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
