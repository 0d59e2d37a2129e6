//! Checks that the node still reaches its peers, from inside the agent: it starts no process and
//! remembers no answer.
//!
//! Before a change the agent chooses the probes that succeed: a target that is out of reach already
//! proves nothing about the change. After the change each of them must succeed once more, before
//! the checkpoint's time is over.

mod cluster;

use std::{fmt, time::Duration};

use futures::future::join_all;
use nmstate::NetworkState;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use weft_api::node_network::Probe;

pub use self::cluster::Cluster;
use crate::host::{
    Host, Query,
    peer::{Peer, TRY, name_servers},
};

/// How long choosing may take.
const CHOICE: Duration = Duration::from_secs(5);
/// The pause between two tries of a probe.
const PAUSE: Duration = Duration::from_millis(500);
/// How long after a change probes are tried, unless set otherwise: a host that a change has cut off
/// must be back within half a minute.
pub const WINDOW: Duration = Duration::from_secs(20);

/// A target that was out of reach after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// The target, as messages name it.
    pub target: String,
    /// The time that it had, and the last reason.
    pub message: String,
}

/// A peer that must be reachable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The API server answers over a new connection.
    ApiServer,
    /// The API server says that the node is Ready.
    NodeReady,
    /// Something answers the host.
    Peer(Peer),
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApiServer => write!(formatter, "API server"),
            Self::NodeReady => write!(formatter, "node Ready"),
            Self::Peer(peer) => peer.fmt(formatter),
        }
    }
}

impl Target {
    /// Reads a policy's probe. `None` if it holds nothing known, which validation refuses before.
    pub fn of(probe: &Probe) -> Option<Self> {
        Peer::of(probe).map(Self::Peer)
    }

    /// Those of the cluster count without having succeeded before: an agent without its API server
    /// would never hear of a better policy.
    fn always_counts(&self) -> bool {
        matches!(self, Self::ApiServer | Self::NodeReady)
    }
}

/// Sends probes to peers.
#[derive(Clone)]
pub struct Prober {
    /// The cluster that the node belongs to, if it does.
    pub cluster: Option<Cluster>,
    /// The name by which name servers are tried.
    pub dns_host: String,
    /// How long after a change probes are tried.
    pub window: Duration,
}

impl Prober {
    /// Of the default probes and those that policies add, the ones that count for a change of a
    /// node whose state is `before`. Takes at most five seconds, most of the time some
    /// milliseconds.
    pub async fn choose(
        &self,
        host: &dyn Host,
        before: &NetworkState,
        added: &[Target],
    ) -> Vec<Target> {
        let mut targets = vec![
            Target::Peer(Peer::Gateway),
            Target::Peer(Peer::NameServers {
                host: self.dns_host.clone(),
            }),
        ];
        if self.cluster.is_some() {
            targets.extend([Target::ApiServer, Target::NodeReady]);
        }
        for target in added {
            if !targets.contains(target) {
                targets.push(target.clone());
            }
        }
        let servers = name_servers(before);
        let deadline = Instant::now() + CHOICE;
        let chosen = join_all(targets.into_iter().map(|target| async {
            if target.always_counts() {
                return Some(target);
            }
            let tried = timeout_at(deadline, async {
                loop {
                    match self.try_once(host, &target, &servers).await {
                        Ok(()) => return,
                        Err(why) => tracing::debug!(probe = %target, why, "does not succeed before the change"),
                    }
                    sleep(PAUSE).await;
                }
            });
            match tried.await {
                Ok(()) => Some(target),
                Err(_) => {
                    tracing::info!(probe = %target, "out of reach before the change: it does not count");
                    None
                }
            }
        }));
        chosen.await.into_iter().flatten().collect()
    }

    /// Waits until each has succeeded once after the change.
    ///
    /// # Errors
    /// The first one, in their order, that did not within `window`, with what went wrong last.
    pub async fn confirm(
        &self,
        host: &dyn Host,
        targets: &[Target],
        window: Duration,
    ) -> Result<(), Unreachable> {
        let confirmed = join_all(
            targets
                .iter()
                .map(|target| self.confirm_one(host, target, window)),
        )
        .await;
        confirmed.into_iter().collect()
    }

    async fn confirm_one(
        &self,
        host: &dyn Host,
        target: &Target,
        window: Duration,
    ) -> Result<(), Unreachable> {
        // Until the first try has ended.
        let mut last = "no answer".to_owned();
        let confirmed = timeout(window, async {
            loop {
                // The change may have brought other name servers.
                let servers = match target {
                    Target::Peer(peer) if peer.asks_the_nodes_servers() => {
                        match host.retrieve(Query::default()).await {
                            Ok(now) => name_servers(&now.state),
                            Err(_) => Vec::new(),
                        }
                    }
                    _ => Vec::new(),
                };
                match self.try_once(host, target, &servers).await {
                    Ok(()) => return,
                    Err(why) => last = why,
                }
                sleep(PAUSE).await;
            }
        })
        .await;
        confirmed.map_err(|_| Unreachable {
            target: target.to_string(),
            message: format!("not within {} s after the change: {last}", window.as_secs()),
        })
    }

    async fn try_once(
        &self,
        host: &dyn Host,
        target: &Target,
        servers: &[String],
    ) -> Result<(), String> {
        let tried = async {
            match target {
                Target::ApiServer => self.cluster()?.answers().await,
                Target::NodeReady => self.cluster()?.node_is_ready().await,
                Target::Peer(peer) => host.reach(peer, servers).await,
            }
        };
        timeout(TRY, tried)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", TRY.as_secs())))
    }

    fn cluster(&self) -> Result<&Cluster, String> {
        self.cluster
            .as_ref()
            .ok_or_else(|| "there is no cluster".to_owned())
    }
}
