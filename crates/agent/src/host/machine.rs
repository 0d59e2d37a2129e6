//! The host that the process runs on.

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    future::Future,
    io,
    panic::AssertUnwindSafe,
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, LocalBoxFuture},
    stream,
};
use nmstate::{InterfaceType, NetworkState};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use weft_node_network::desired::Desired;

use super::{
    ApplyOptions, Backend, BridgeFilter, Changes, Host, HostError, Peer, Query, Retrieved, Silence,
    WithoutNetworkManager,
    causes::{self, HEARD},
    kernel::Kernel,
    links::{Links, Port, Seen},
    lldp, managed, netlink,
    network_manager::{self, Presence},
    ovsdb,
};
use crate::state_dir::StateDir;

/// Reading takes 2 ms for each interface, with NetworkManager 13. D-Bus itself knows no limit.
const READ_LIMIT: Duration = Duration::from_secs(120);
/// A rollback waits up to a minute for devices.
const CHECKPOINT_LIMIT: Duration = Duration::from_secs(90);

type Job = Box<dyn FnOnce() -> LocalBoxFuture<'static, ()> + Send>;

/// The network namespace that the agent was started in.
///
/// A thread of its own serves it: nmstate's futures cannot move between threads, and its calls
/// without `async` start a runtime of their own, which panics inside another one.
pub struct Machine {
    jobs: mpsc::UnboundedSender<Job>,
    kernel: Option<Arc<Kernel>>,
}

impl Machine {
    /// Begins, in the network namespace of the calling thread, and says from now on what changes
    /// there. Without NetworkManager it only reads.
    ///
    /// # Errors
    /// The kernel's socket for changes cannot be opened, or no thread started.
    pub fn start() -> io::Result<(Self, Changes)> {
        Self::begin(None)
    }

    /// Begins as [`Machine::start`], with this choice for a host without NetworkManager. The agent's
    /// folder has the checkpoint of a change there.
    ///
    /// # Errors
    /// The same.
    pub fn start_with(
        dir: StateDir,
        without_network_manager: WithoutNetworkManager,
    ) -> io::Result<(Self, Changes)> {
        Self::begin(Some(Arc::new(Kernel::new(dir, without_network_manager))))
    }

    fn begin(kernel: Option<Arc<Kernel>>) -> io::Result<(Self, Changes)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // One place: what comes before it is taken is one change, too.
        let (tell, told) = mpsc::channel(1);
        let entered = runtime.enter();
        runtime.spawn(netlink::Events::open()?.tell(tell.clone()));
        runtime.spawn(network_manager::tell(tell));
        drop(entered);
        let (jobs, mut queue) = mpsc::unbounded_channel::<Job>();
        let of_thread = kernel.clone();
        thread::Builder::new()
            .name("host".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    loop {
                        let overdue = async {
                            match &of_thread {
                                Some(kernel) => {
                                    kernel.checkpoint.when_due().await;
                                    kernel
                                }
                                None => std::future::pending().await,
                            }
                        };
                        tokio::select! {
                            job = queue.recv() => match job {
                                Some(job) => job().await,
                                None => break,
                            },
                            kernel = overdue => kernel.checkpoint.roll_back_overdue().await,
                        }
                    }
                });
            })?;
        let changes = stream::unfold(told, |mut told| async { Some((told.recv().await?, told)) });
        Ok((Self { jobs, kernel }, changes.boxed()))
    }

    /// Does this with the kernel or with NetworkManager, whichever holds the network now.
    async fn by_backend<T, K, N>(
        &self,
        limit: Duration,
        by_kernel: impl FnOnce(Arc<Kernel>) -> K + Send + 'static,
        by_network_manager: impl FnOnce() -> N + Send + 'static,
    ) -> Result<T, HostError>
    where
        T: Send + 'static,
        K: Future<Output = Result<T, HostError>> + 'static,
        N: Future<Output = Result<T, HostError>> + 'static,
    {
        let kernel = self.kernel.clone();
        self.run(limit, move || async move {
            match (backend(kernel.as_deref()).await, kernel) {
                (Backend::Kernel, Some(kernel)) => by_kernel(kernel).await,
                (Backend::ReadOnly { why }, _) => Err(HostError::ReadOnly(why)),
                _ => by_network_manager().await,
            }
        })
        .await
    }

    /// Has this done by the thread, and waits for the answer.
    async fn run<T, F>(
        &self,
        limit: Duration,
        work: impl FnOnce() -> F + Send + 'static,
    ) -> Result<T, HostError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, HostError>> + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move || {
            async move {
                let done = AssertUnwindSafe(async { tokio::time::timeout(limit, work()).await })
                    .catch_unwind()
                    .await;
                let done = match done {
                    Ok(Ok(done)) => done,
                    Ok(Err(_)) => Err(HostError::TimedOut(limit)),
                    Err(panic) => Err(HostError::Panicked(words(&*panic))),
                };
                // The receiver may have stopped waiting.
                let _ = answer.send(done);
            }
            .boxed_local()
        });
        self.jobs.send(job).map_err(|_| HostError::Ended)?;
        answered.await.map_err(|_| HostError::Ended)?
    }
}

/// Returns the backend that answers now.
async fn backend(kernel: Option<&Kernel>) -> Backend {
    match kernel {
        Some(kernel) => kernel.backend().await,
        None => match network_manager::look().await {
            Presence::Running(version) => Backend::NetworkManager { version },
            Presence::Away(why) | Presence::Absent(why) => Backend::ReadOnly { why },
        },
    }
}

/// Returns the message of a panic.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a word".to_owned())
}

impl Host for Machine {
    fn retrieve(&self, query: Query) -> BoxFuture<'_, Result<Retrieved, HostError>> {
        let kernel = self.kernel.clone();
        self.run(READ_LIMIT, move || async move {
            let backend = backend(kernel.as_deref()).await;
            let by_kernel = kernel.filter(|_| backend == Backend::Kernel);
            let state = if let Some(kernel) = by_kernel {
                kernel.retrieve(query).await?
            } else {
                let mut state = NetworkState::new();
                state.set_kernel_only(matches!(backend, Backend::ReadOnly { .. }));
                state.set_include_secrets(query.secrets);
                state.set_running_config_only(query.configured_only);
                state.retrieve_async().await?;
                state
            };
            let indexes = indexes(&state);
            let aggregated = aggregated(&state).await;
            let bridges = state
                .interfaces
                .iter()
                .filter(|interface| interface.iface_type() == InterfaceType::LinuxBridge);
            let bridge_filter = BridgeFilter::read(bridges.map(nmstate::Interface::name));
            let is_starting = matches!(backend, Backend::NetworkManager { .. })
                && network_manager::is_starting().await;
            Ok(Retrieved {
                state,
                backend,
                is_starting,
                indexes,
                aggregated,
                bridge_filter,
            })
        })
        .boxed()
    }

    fn apply(
        &self,
        desired: Desired,
        options: ApplyOptions,
    ) -> BoxFuture<'_, Result<(), HostError>> {
        let for_kernel = desired.clone();
        let interfaces = desired.state().interfaces.iter();
        let interfaces: BTreeSet<String> = interfaces.map(|one| one.name().to_owned()).collect();
        async move {
            let listening = HEARD.listen();
            let applied = self.by_backend(
                options.limit,
                move |kernel| async move { kernel.apply(&for_kernel, options).await },
                move || async move {
                    let mut state = desired.state().clone();
                    state.set_kernel_only(false);
                    state.set_commit(options.commit);
                    state.set_timeout(options.checkpoint.as_secs().try_into().unwrap_or(u32::MAX));
                    state.set_verify_change(options.verify);
                    state.set_memory_only(options.memory_only);
                    tokio::select! {
                        applied = state.apply_async() => applied.map_err(HostError::from),
                        never = causes::record(&HEARD, &interfaces) => match never {},
                    }
                },
            );
            applied
                .await
                .map_err(|error| error.because(listening.causes()))
        }
        .boxed()
    }

    fn checkpoints(&self) -> BoxFuture<'_, Result<Vec<String>, HostError>> {
        self.by_backend(
            READ_LIMIT,
            |kernel| async move { Ok(kernel.checkpoint.held()?.into_iter().collect()) },
            network_manager::checkpoints,
        )
        .boxed()
    }

    fn renew(&self, lease: Duration) -> BoxFuture<'_, Result<(), HostError>> {
        // Next to other calls, so not by the thread.
        async move {
            match &self.kernel {
                Some(kernel) if kernel.checkpoint.renew(lease) => Ok(()),
                _ => network_manager::renew(lease).await,
            }
        }
        .boxed()
    }

    fn commit(&self, checkpoint: String) -> BoxFuture<'_, Result<(), HostError>> {
        self.by_backend(
            CHECKPOINT_LIMIT,
            |kernel| async move { kernel.commit().await },
            move || async move { Ok(NetworkState::checkpoint_commit_async(&checkpoint).await?) },
        )
        .boxed()
    }

    fn rollback(&self, checkpoint: String) -> BoxFuture<'_, Result<(), HostError>> {
        self.by_backend(
            CHECKPOINT_LIMIT,
            |kernel| async move { kernel.checkpoint.roll_back().await },
            move || async move { Ok(NetworkState::checkpoint_rollback_async(&checkpoint).await?) },
        )
        .boxed()
    }

    fn links(&self) -> BoxFuture<'_, Result<Seen, HostError>> {
        self.run(READ_LIMIT, || async { Ok(Links::open()?.list().await?) })
            .boxed()
    }

    fn attach(&self, port: Port, bridge: u32) -> BoxFuture<'_, Result<(), HostError>> {
        self.run(READ_LIMIT, move || async move {
            Ok(Links::open()?.attach(&port, bridge).await?)
        })
        .boxed()
    }

    fn ovsdb(
        &self,
        operations: Vec<Value>,
    ) -> BoxFuture<'_, Result<Option<Vec<Value>>, HostError>> {
        // The call blocks, so it runs on a thread of its own, and this one continues to report
        // changes of the host.
        self.run(READ_LIMIT, move || async move {
            let done = tokio::task::spawn_blocking(move || {
                ovsdb::transact(Path::new(ovsdb::SOCKET), &operations)
            })
            .await;
            Ok(done.map_err(|panic| HostError::Panicked(panic.to_string()))??)
        })
        .boxed()
    }

    fn configured(&self, links: Vec<String>) -> BoxFuture<'_, Result<BTreeSet<String>, HostError>> {
        let for_kernel = links.clone();
        self.by_backend(
            READ_LIMIT,
            move |kernel| async move { kernel.configured(for_kernel) },
            move || async move {
                managed::configured(&zbus::Connection::system().await?, &links).await
            },
        )
        .boxed()
    }

    fn leave_alone(&self, links: Vec<String>) -> BoxFuture<'_, Result<(), HostError>> {
        self.by_backend(
            READ_LIMIT,
            |_| async { Ok(()) },
            move || async move {
                managed::leave_alone(&zbus::Connection::system().await?, &links).await
            },
        )
        .boxed()
    }

    fn reach<'a>(
        &'a self,
        peer: &'a Peer,
        servers: &'a [String],
    ) -> BoxFuture<'a, Result<(), Silence>> {
        peer.ask(servers).boxed()
    }
}

/// The interfaces with a neighbor whose port is part of an aggregation. The rest of the state
/// counts without it.
async fn aggregated(state: &NetworkState) -> BTreeSet<String> {
    let names: Vec<String> = state
        .interfaces
        .iter()
        .filter(|interface| {
            let lldp = interface.base_iface().lldp.as_ref();
            lldp.is_some_and(|lldp| !lldp.neighbors.is_empty())
        })
        .map(|interface| interface.name().to_owned())
        .collect();
    if names.is_empty() {
        return BTreeSet::new();
    }
    let asked = async { lldp::aggregated(&zbus::Connection::system().await?, &names).await };
    asked.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to read whether neighbors announce aggregation");
        BTreeSet::new()
    })
}

/// The kernel's numbers of the interfaces that it knows. Those of OVS alone have none.
fn indexes(state: &NetworkState) -> BTreeMap<String, u32> {
    use rustix::net::{AddressFamily, SocketType, netdevice::name_to_index, socket};
    let Ok(socket) = socket(AddressFamily::INET, SocketType::DGRAM, None) else {
        return BTreeMap::new();
    };
    let names = state.interfaces.iter().map(nmstate::Interface::name);
    names
        .filter_map(|name| Some((name.to_owned(), name_to_index(&socket, name).ok()?)))
        .collect()
}
