//! The process: start, leader election, shutdown.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use weft_plan::Domain;
use weft_runtime::{
    client,
    cluster::Cluster,
    controller::{self, Controller},
    fence::Fence,
    lease::{self, LeaseConfig},
    metrics::Metrics,
    server::{self, Probes},
    watch::Shared,
};

/// How the operator runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which domains, as in [`crate::DOMAINS`].
    pub domains: Vec<String>,
    /// A kubeconfig; else the usual places and, in a pod, its service account.
    pub kubeconfig: Option<PathBuf>,
    /// How long a leader's lease lasts without renewal.
    pub lease_duration: Duration,
    /// Where `/healthz`, `/readyz` and `/metrics` are served.
    pub probe_address: SocketAddr,
    /// Name of this replica.
    pub instance: String,
}

/// Runs until SIGTERM or SIGINT, then ends what is in flight and gives the leases back.
///
/// # Errors
/// It cannot start: no cluster is configured, an address is taken, a setting is wrong.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let config = kube_config(options.kubeconfig.as_deref()).await?;
    let metrics = Metrics::default();
    let (stop, end_of_leases) = (CancellationToken::new(), CancellationToken::new());
    let (mut controllers, mut leases) = (JoinSet::new(), JoinSet::new());
    let mut caches = Vec::new();
    for name in &options.domains {
        let (domain, namespace) = crate::domain(name, |variable| std::env::var(variable).ok())?;
        let shared = Shared::default();
        caches.push((domain.name(), shared.clone()));
        let fence = Fence::default();
        let client = client::connect(&config, &fence).context("the client cannot be set up")?;
        let cluster = Cluster::new(client);
        let (leading, is_leading) = watch::channel(false);
        let lease = LeaseConfig {
            namespace: namespace.clone(),
            name: format!("weft-{}", domain.name()),
            identity: format!("{}_{:08x}", options.instance, rand::random::<u32>()),
            duration: options.lease_duration,
        };
        leases.spawn(lease::run(lease, cluster.clone(), fence, leading, end_of_leases.clone()));
        let config = controller::Config { namespace, instance: options.instance.clone() };
        controllers.spawn(
            Controller::new(Arc::clone(&domain) as Arc<dyn Domain>, cluster, shared, metrics.clone(), config).run(is_leading, stop.clone()),
        );
    }
    let listener = TcpListener::bind(options.probe_address).await.with_context(|| format!("cannot listen on {}", options.probe_address))?;
    tracing::info!(address = %listener.local_addr()?, domains = options.domains.join(","), "serving /healthz, /readyz and /metrics");
    let mut probes = tokio::spawn(server::serve(listener, Probes { caches, metrics }, stop.clone()));

    tokio::select! {
        () = signal() => tracing::info!("stopping"),
        // A controller ends only when it is told to: if one does, the process must not go on as if all were well.
        Some(ended) = controllers.join_next() => { ended.context("a controller failed")?; anyhow::bail!("a controller ended by itself"); }
        ended = &mut probes => { ended.context("the probe server failed")??; anyhow::bail!("the probe server ended by itself"); }
    }
    stop.cancel();
    while controllers.join_next().await.is_some() {}
    // Only now, when nothing is written any more.
    end_of_leases.cancel();
    while leases.join_next().await.is_some() {}
    Ok(())
}

async fn kube_config(path: Option<&std::path::Path>) -> anyhow::Result<Config> {
    let mut config = match path {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
        None => Config::infer().await.context("no cluster is configured: set KUBECONFIG, give --kubeconfig, or run in a pod")?,
    };
    // Weft decides itself what is tried again, and when.
    config.default_retry = false;
    Ok(config)
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
