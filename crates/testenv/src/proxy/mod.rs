//! A proxy on loopback in front of the real API server, for real clients, that records what they do
//! and makes it go wrong.
//!
//! It speaks HTTP/1.1 over TLS with a certificate of the control plane's own authority. It runs on
//! a thread of its own, so that a test that blocks does not block it. Faults are decided in the
//! order of arrival and are deterministic: a request that is cut before never reaches the API
//! server, an answer that is lost never reaches the client.
//!
//! Go clients (kubectl) send a GET again by themselves when a reused connection breaks without an
//! answer. Kube does not.

mod fault;
pub(crate) mod request_info;
mod server;
mod state;
mod watch;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

pub use fault::{Events, Fault, Framing, Match, Stranger};
pub use request_info::RequestInfo;
pub use state::{Recorded, When};

use crate::{client::client_from, control_plane::ControlPlane, pki};
use server::{Server, upstream_client};
use state::{End, RuleId, State};

/// A running proxy. Dropping it ends it and cuts its connections.
pub struct Proxy {
    url: String,
    kubeconfig: PathBuf,
    state: Arc<State>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A fault that was set. It stays when this is dropped.
#[derive(Clone)]
pub struct Injected {
    state: Arc<State>,
    id: RuleId,
}

impl Injected {
    /// No request meets this fault any more. Requests and events that it held go on.
    pub fn remove(&self) {
        self.state.remove_rule(self.id);
    }

    /// How many requests (or events) it happened to.
    pub fn hits(&self) -> usize {
        self.state.hits(self.id)
    }

    /// Waits until it happened to `n` requests (or events).
    ///
    /// # Errors
    /// It did not within `timeout`.
    pub async fn wait_hits(&self, n: usize, timeout: Duration) -> Result<()> {
        wait(&self.state, timeout, || self.hits() >= n)
            .await
            .with_context(|| format!("the fault happened {} times, not {n}", self.hits()))
    }
}

impl Proxy {
    /// Starts a proxy in front of this control plane, on a free port.
    ///
    /// # Errors
    /// No port or no thread is to be had.
    pub async fn start(control_plane: &ControlPlane) -> Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let url = format!("https://127.0.0.1:{}", listener.local_addr()?.port());
        let state = Arc::new(State::new());
        let server = Arc::new(Server {
            state: state.clone(),
            acceptor: TlsAcceptor::from(Arc::new(
                control_plane.authority().serving(&[])?.server_config()?,
            )),
            upstream: control_plane.url().to_owned(),
            client: upstream_client(pki::client_config(&control_plane.ca_pem())?),
            users: control_plane.tokens(),
        });
        let kubeconfig = control_plane.admin_kubeconfig_via(&url)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("fault-proxy".into())
            .spawn(move || {
                runtime.block_on(async {
                    // The listener listens already. Taking it over fails only without a runtime.
                    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                        return;
                    };
                    tokio::select! {
                        () = server.serve(listener) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Self {
            url,
            kubeconfig,
            state,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// `https://127.0.0.1:<port>`, for [`ControlPlane::service_account_kubeconfig_via`].
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Path of a kubeconfig with all rights, through the proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A client with all rights, through the proxy.
    ///
    /// # Errors
    /// The kubeconfig is gone: the control plane has ended.
    pub async fn client(&self) -> Result<kube::Client> {
        client_from(&self.kubeconfig).await
    }

    /// Every request so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Recorded> {
        self.state.requests()
    }

    /// Those that change something stored (dry runs do not), Leases and Events included.
    pub fn writes(&self) -> Vec<Recorded> {
        self.requests()
            .into_iter()
            .filter(|recorded| recorded.info.is_write())
            .collect()
    }

    /// The API server's warnings about the requests so far that `requests` selects, each after the
    /// verb and the path of its request.
    pub fn warnings(&self, requests: &Match) -> Vec<String> {
        let mut lines = Vec::new();
        for Recorded { info, warnings, .. } in self.requests() {
            if requests.selects(&info) {
                let about = format!("{} {}", info.verb, info.path);
                lines.extend(warnings.iter().map(|warning| format!("{about}: {warning}")));
            }
        }
        lines
    }

    /// Forgets the requests so far.
    pub fn clear(&self) {
        self.state.clear();
    }

    /// Waits until the requests so far satisfy a condition.
    ///
    /// # Errors
    /// They do not within `timeout`. The error lists the last of them.
    pub async fn wait_for(
        &self,
        timeout: Duration,
        condition: impl Fn(&[Recorded]) -> bool,
    ) -> Result<()> {
        wait(&self.state, timeout, || condition(&self.requests()))
            .await
            .with_context(|| {
                let requests = self.requests();
                let lines = requests.iter().rev().take(20).map(|recorded| {
                    let RequestInfo {
                        user,
                        verb,
                        path,
                        query,
                        ..
                    } = &recorded.info;
                    format!(
                        "\n  {} {user} {verb} {path}?{query} -> {:?}",
                        recorded.seq, recorded.code
                    )
                });
                format!(
                    "{} requests so far, the last of them:{}",
                    requests.len(),
                    lines.collect::<String>()
                )
            })
    }

    /// Makes requests go wrong from now on. Of several faults that select a request, the one set
    /// first happens.
    pub fn inject(&self, requests: Match, fault: Fault) -> Injected {
        Injected {
            state: self.state.clone(),
            id: self.state.add_rule(requests, fault),
        }
    }

    /// Removes all faults and hooks.
    pub fn heal(&self) {
        self.state.remove_all_rules();
    }

    /// Runs `hook` at the `n`-th write (from 1, counted from now on) that `requests` selects: to
    /// kill the process that sends it. Leases and Events are left out unless `requests` says
    /// [`Match::all_writes`].
    ///
    /// Before: the write does not reach the API server. After: the API server has answered, the
    /// client does not learn it. In both cases nothing else of this user passes until the hook has
    /// returned, and whatever else came over the connections that it has at that moment is cut as
    /// well: exactly `n - 1` writes, or `n`, get through. New connections work.
    pub fn on_write(
        &self,
        requests: Match,
        n: usize,
        when: When,
        hook: impl FnOnce() + Send + 'static,
    ) {
        self.state
            .add_hook(requests.or_writes(), n, when, Box::new(hook));
    }

    /// How many watches are open.
    pub fn open_watches(&self, requests: &Match) -> usize {
        self.state.count_watches(requests)
    }

    /// Ends running watches with the event ERROR, code 410, and returns how many.
    pub fn expire_watches(&self, requests: &Match) -> usize {
        self.state.end_watches(requests, End::Expired)
    }

    /// Ends running watches by closing their connections, and returns how many.
    pub fn close_watches(&self, requests: &Match) -> usize {
        self.state.end_watches(requests, End::Closed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It ended already if this fails.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn wait(state: &State, timeout: Duration, condition: impl Fn() -> bool) -> Result<()> {
    let mut changes = state.changes();
    let wait = async {
        while !condition() {
            changes.changed().await?;
        }
        Ok(())
    };
    match tokio::time::timeout(timeout, wait).await {
        Ok(result) => result,
        Err(_) => bail!("not within {timeout:?}"),
    }
}
