//! `weft-agent run`: the process of the DaemonSet, from its start to its end.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, bail};
use kube::Config;
use tokio::sync::watch;

use crate::{
    cluster,
    health::{self, Health},
    host::{Changes, Host, Machine},
    lock,
    observe::Observer,
    report::{Reporter, Verdict},
    settings::Settings,
    state_dir::StateDir,
    stop,
    work::Worker,
};

/// Options of a process of its own.
#[derive(Clone, Debug)]
pub struct Options {
    /// A kubeconfig. Else what is usual in a pod or for a person.
    pub kubeconfig: Option<PathBuf>,
    /// The lock that all agents on a host share.
    pub lock_file: PathBuf,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// It cannot start: no cluster is configured, a folder cannot be written, the kernel refuses. Or
/// the thread that serves the host has ended.
pub async fn run(options: Options, settings: Settings) -> anyhow::Result<()> {
    let stop = stop::signal();
    StateDir::open(&settings.state_dir)?;
    let health = Health::default();
    let socket = health::socket(&settings.state_dir);
    health::serve(health.clone(), &socket)
        .with_context(|| format!("cannot answer at {}", socket.display()))?;
    let working = async {
        let config = cluster::config(options.kubeconfig.as_deref()).await?;
        let _lock = lock::take(&options.lock_file).await?;
        health.acts();
        let (host, changes) = Machine::start_with(
            StateDir::open(&settings.state_dir)?,
            settings.without_network_manager,
        )
        .context("the network of the host cannot be followed")?;
        serve(Arc::new(host), changes, config, settings, &health).await
    };
    let mut working = std::pin::pin!(working);
    let ended = tokio::select! {
        () = stop => {
            tokio::select! {
                () = stop::last_change(&health) => Ok(()),
                ended = &mut working => ended,
            }
        }
        ended = &mut working => ended,
    };
    // The next agent would remove it, too.
    let _ = std::fs::remove_file(&socket);
    ended
}

/// Serves this host, which may be a recorded one, until that ends. Nothing of it is global to the
/// process.
///
/// # Errors
/// The configured cluster cannot be used, or the host has ended.
pub async fn serve(
    host: Arc<dyn Host>,
    changes: Changes,
    config: Config,
    settings: Settings,
    health: &Health,
) -> anyhow::Result<()> {
    let client = cluster::connect(config.clone())?;
    tracing::info!(
        node = settings.node,
        version = env!("CARGO_PKG_VERSION"),
        "serving the network of this node"
    );
    let observer = Observer::start(host.clone(), changes, health.clone());
    let states = cluster::state(client.clone(), &settings.node);
    let (tell_own, own) = watch::channel(Verdict::default());
    // The agent cleans up after an interrupted process before it reports anything.
    let worker = Worker::start(
        host,
        config,
        client.clone(),
        &settings,
        &observer,
        states.clone(),
        tell_own,
    )
    .await?;
    let reporter = Reporter::new(&client, &settings, &observer, states, own)?;
    tokio::join!(reporter.run(), worker.run());
    bail!("the part of the agent that serves the host has ended")
}
