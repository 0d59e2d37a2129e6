//! The agent at work: a reconcile over the enactments whenever something has changed.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use kube::{Client, Config};
use tokio::{sync::watch, time::Instant};
use weft_api::node_network::{
    NodeNetworkConfigurationEnactment, NodeNetworkState, RETRY_ANNOTATION,
};
use weft_runtime::api_server::clock;

use crate::{
    cluster::{self, Objects},
    enact::{self, Enactor, Inputs, Report, Retries},
    health::Health,
    host::{Host, Machine},
    lock,
    observe::{Look, Observer},
    probes::Cluster,
    report::{self, Own, Reporter, Verdict},
    settings::Settings,
    state_dir::StateDir,
    stop,
    transaction::Transactor,
};

/// Policies that are granted to a node together arrive one after the other.
const GATHER: Duration = Duration::from_millis(75);

/// For so long `weft-agent once` waits for the operator to grant something after it has said that
/// it is there, or after the last thing.
const ANSWER: Duration = Duration::from_secs(5);
/// For so long it stays after it has said that it goes.
const LAST_GRANTS: Duration = Duration::from_secs(2);
/// For so long beyond its patience it may still be there: a change that has begun is carried to its
/// end.
const LAST_CHANGE: Duration = Duration::from_secs(180);

/// How long the API server may take for each of the last reports.
const LAST_WORD: Duration = Duration::from_secs(10);

/// The state between reconciles.
pub(crate) struct Worker {
    enactor: Enactor,
    observer: Observer,
    looks: watch::Receiver<Option<Look>>,
    states: watch::Receiver<Objects<NodeNetworkState>>,
    enactments: watch::Receiver<Objects<NodeNetworkConfigurationEnactment>>,
    own: watch::Sender<Verdict>,
    node: String,
}

impl Worker {
    /// Begins. Cleans up what a process before this one has left.
    pub async fn start(
        host: Arc<dyn Host>,
        config: Config,
        client: Client,
        settings: &Settings,
        observer: &Observer,
        states: watch::Receiver<Objects<NodeNetworkState>>,
        own: watch::Sender<Verdict>,
    ) -> anyhow::Result<Self> {
        let mut prober = settings.prober.clone();
        prober.cluster = Some(Cluster {
            config,
            node: settings.node.clone(),
        });
        let enactments = cluster::enactments(client.clone(), &settings.node);
        let enactor = Enactor::start(enact::Settings {
            transactor: Transactor {
                host,
                dir: StateDir::open(&settings.state_dir)?,
                prober,
            },
            client,
            node: settings.node.clone(),
            namespace: settings.namespace.clone(),
            retries: Retries::from_env(),
            observer: Some(observer.clone()),
        })
        .await?;
        // An earlier observation may show a state that has just been rolled back.
        observer.refresh().await;
        Ok(Self {
            enactor,
            looks: observer.looks(),
            observer: observer.clone(),
            states,
            enactments,
            own,
            node: settings.node.clone(),
        })
    }

    /// Goes on until the host is not looked at any more.
    pub async fn run(mut self) {
        loop {
            let again = self
                .pass()
                .await
                .and_then(|report| report.again)
                .map(|wait| Instant::now() + wait);
            let ended = tokio::select! {
                changed = self.looks.changed() => changed.is_err(),
                changed = self.states.changed() => changed.is_err(),
                changed = self.enactments.changed() => changed.is_err(),
                () = tokio::time::sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => false,
            };
            if ended {
                return;
            }
            tokio::time::sleep(GATHER).await;
        }
    }

    /// Reconciles once. Returns `None` while the state of the host or the wanted state is not known
    /// yet.
    async fn pass(&mut self) -> Option<Report> {
        let enactments = self.enactments.borrow_and_update().clone()?;
        let state = self
            .states
            .borrow_and_update()
            .clone()?
            .get(&self.node)
            .cloned();
        let seen = self.looks.borrow_and_update().clone()?.seen.ok()?;
        let managed = state
            .as_ref()
            .is_none_or(|state| report::is_ours(state, &self.node));
        let wanted = state
            .as_ref()
            .and_then(|state| state.spec.desired_state.as_ref());
        let inputs = Inputs {
            list: enactments.list,
            enactments: enactments.values().cloned().collect(),
            managed,
            own: wanted,
            own_retry: state
                .as_ref()
                .and_then(|state| state.metadata.annotations.as_ref())
                .and_then(|annotations| annotations.get(RETRY_ANNOTATION))
                .map(String::as_str),
            current: &seen.state,
            aggregated: &seen.aggregated,
            bridge_filter: &seen.bridge_filter,
            backend: &seen.backend,
            is_starting: seen.is_starting,
        };
        let report = self.enactor.pass(&inputs).await;
        let tell = |own: Own| self.tell_own(Verdict::on(state.as_deref(), own));
        match (&report.own, wanted) {
            (_, None) => tell(Own::None),
            (Some(Ok(())), _) => tell(Own::Done),
            (Some(Err(failure)), _) => tell(Own::Failed(failure.to_string())),
            // It waits for its next try.
            (None, Some(_)) => {}
        }
        if report.changed {
            // An observation from before the change counts no more.
            self.observer.refresh().await;
        }
        Some(report)
    }

    /// Goes on until nothing is left to do and for this time nothing new was wanted, or until the
    /// deadline. `None` if nothing was known until then.
    async fn settle(
        &mut self,
        deadline: Instant,
        quiet: Duration,
    ) -> anyhow::Result<Option<Report>> {
        let mut quiet_at = Instant::now() + quiet;
        loop {
            let report = self.pass().await;
            let until = match &report {
                Some(Report {
                    again: Some(wait), ..
                }) if Instant::now() + *wait >= deadline => return Ok(report),
                Some(Report {
                    again: Some(wait), ..
                }) => Instant::now() + *wait,
                Some(Report { open: 0, .. }) => quiet_at.min(deadline),
                // It waits for the operator, or for an answer.
                _ => deadline,
            };
            let may_end = report.as_ref().is_none_or(|report| report.again.is_none());
            tokio::select! {
                changed = self.states.changed() => changed?,
                changed = self.enactments.changed() => changed?,
                changed = self.looks.changed() => {
                    changed?;
                    // Such an event changes no wish.
                    continue;
                }
                () = tokio::time::sleep_until(until) => if may_end { return Ok(report) } else { continue },
            }
            quiet_at = Instant::now() + quiet;
        }
    }

    fn tell_own(&self, verdict: Verdict) {
        self.own.send_if_modified(|known| {
            let changed = *known != verdict;
            *known = verdict;
            changed
        });
    }
}

/// How `weft-agent once` has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once {
    /// The node is as all that was granted says.
    Done,
    /// Something has failed for good. Its enactment says why.
    Failed,
    /// Something waits, for the operator or for its next try.
    Waiting,
}

/// Carries out what the cluster says once, reports, and ends. The command repeats a failed attempt
/// until `patience` is over.
///
/// # Errors
/// It cannot start, or not report.
pub async fn once(
    kubeconfig: Option<PathBuf>,
    lock_file: PathBuf,
    settings: Settings,
    patience: Duration,
) -> anyhow::Result<Once> {
    let config = cluster::config(kubeconfig.as_deref()).await?;
    let server = config.cluster_url.to_string();
    let deadline = Instant::now() + patience;
    let Ok(lock) = tokio::time::timeout_at(deadline, lock::take(&lock_file)).await else {
        bail!(
            "another agent acts on this host (it holds {}): end it, or wait for it",
            lock_file.display()
        );
    };
    let _lock = lock?;
    let (machine, changes) = Machine::start_with(
        StateDir::open(&settings.state_dir)?,
        settings.without_network_manager,
    )
    .context("the network of the host cannot be followed")?;
    let host: Arc<dyn Host> = Arc::new(machine);
    let client = cluster::connect(config.clone())?;
    let health = Health::default();
    let observer = Observer::start(host.clone(), changes, health.clone());
    let states = cluster::state(client.clone(), &settings.node);
    let (tell_own, own) = watch::channel(Verdict::default());
    let mut worker = Worker::start(
        host,
        config,
        client.clone(),
        &settings,
        &observer,
        states.clone(),
        tell_own,
    )
    .await?;
    let mut reporter = Reporter::new(&client, &settings, &observer, states, own)?;
    // No policy has been carried out yet, so the command may end here at any time.
    let no_answer = |_| {
        anyhow::anyhow!(
            "the API server at {server} does not answer within {patience:?}, so no policy was carried out: is it running, and is it the \
             right one? See --kubeconfig and --timeout"
        )
    };
    // The operator grants nothing to a node that has no agent.
    tokio::time::timeout_at(deadline, reporter.once())
        .await
        .map_err(no_answer)?
        .context("the state of the node cannot be reported")?;
    // From here on it does not go without saying so.
    let stop = stop::signal();
    let until = clock::now().checked_add(patience + LAST_CHANGE)?;
    tokio::time::timeout_at(deadline, reporter.announce(Some(until)))
        .await
        .map_err(no_answer)?
        .context("failed to report to the operator that an agent is here")?;
    let stopped = async {
        stop.await;
        stop::last_change(&health).await;
    };
    let settled = tokio::select! {
        settled = worker.settle(deadline, ANSWER) => settled.map(|report| report.ok_or("the cluster or the host did not answer in time")),
        () = stopped => Ok(Err("stopped before everything was done")),
    };
    let silent = |_| anyhow::anyhow!("the API server at {server} does not answer any more");
    tokio::time::timeout(LAST_WORD, reporter.announce(None))
        .await
        .map_err(silent)?
        .context("failed to report to the operator that no agent is here any more")?;
    if let Err(why) = settled? {
        bail!(why);
    }
    // A permission from a time when the operator did not know that the state must not stay behind.
    let report = worker
        .settle(deadline, LAST_GRANTS)
        .await?
        .unwrap_or_default();
    tokio::time::timeout(LAST_WORD, reporter.once())
        .await
        .map_err(silent)?
        .context("the state of the node cannot be reported")?;
    let own_failed = matches!(report.own, Some(Err(_)));
    Ok(if report.failing > 0 || own_failed {
        Once::Failed
    } else if report.open > 0 || report.again.is_some() {
        Once::Waiting
    } else {
        Once::Done
    })
}
