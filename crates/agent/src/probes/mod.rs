//! Checks that the node still reaches its peers, from inside the agent: it starts no process and
//! remembers no answer.
//!
//! Before a change the agent chooses the probes that succeed: a target that is out of reach already
//! proves nothing about the change. After the change each of them must succeed once more, before
//! the checkpoint's time is over. Those that counted at the first try of a generation of a policy
//! count at each later one, too ([`Counted`]): what the first try has broken must not make the second
//! one succeed.

mod cluster;
mod counted;

use std::{fmt, time::Duration};

use futures::future::join_all;
use nmstate::NetworkState;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use weft_api::node_network::Probe;

pub use self::{cluster::Cluster, counted::Counted};
use crate::host::{
    Host, Query,
    peer::{Means, Peer, Silence, TRY, name_servers},
};

/// How long choosing may take.
pub const CHOICE: Duration = Duration::from_secs(5);
/// How many echo requests the default gateway may leave without a reply before its link address
/// counts instead.
const ECHOES: u32 = 2;
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

/// The probes for a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Those that must succeed after the change.
    pub counted: Vec<Target>,
    /// Those that do not count, each with what went wrong last.
    pub left_out: Vec<(Target, String)>,
    /// Those that count since an earlier try and are out of reach now, each with what went wrong
    /// last. The change must wait for them.
    pub missing: Vec<(Target, String)>,
}

/// A peer that must be reachable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// node whose state is `before`. Those of `counted` have counted for an earlier try. Takes at
    /// most five seconds, most of the time some milliseconds. One to which the host has no way is
    /// left out at once, unless it has counted before: then the way may be about to come back.
    pub async fn choose(
        &self,
        host: &dyn Host,
        before: &NetworkState,
        added: &[Target],
        counted: &[Target],
    ) -> Choice {
        let servers = name_servers(before);
        let deadline = Instant::now() + CHOICE;
        let tried = join_all(
            self.candidates(added, counted)
                .into_iter()
                .map(|target| async {
                    if target.always_counts() {
                        return Ok(target);
                    }
                    // Until the first try has ended.
                    let mut last = Silence::NoAnswer("no answer".to_owned());
                    let first = timeout_at(deadline, async {
                        let mut tries = 0;
                        loop {
                            tries += 1;
                            match self.try_before(host, &target, &servers, tries).await {
                                Ok(answered) => return Some(answered),
                                Err(silence) => last = silence,
                            }
                            if matches!(last, Silence::NoWay(_)) && !counted.contains(&target) {
                                return None;
                            }
                            sleep(PAUSE).await;
                        }
                    });
                    let answered = first.await.ok().flatten();
                    answered.ok_or_else(|| (target, last.to_string()))
                }),
        );
        let mut choice = Choice::default();
        for tried in tried.await {
            match tried {
                Ok(target) => choice.counted.push(target),
                Err(missing) if counted.contains(&missing.0) => choice.missing.push(missing),
                Err((target, why)) => {
                    tracing::info!(probe = %target, why, "out of reach before the change: it does not count");
                    choice.left_out.push((target, why));
                }
            }
        }
        choice
    }

    /// The default probes, and these.
    fn candidates(&self, added: &[Target], counted: &[Target]) -> Vec<Target> {
        let is_gateway = |target: &&Target| matches!(target, Target::Peer(Peer::Gateway(_)));
        let gateway = counted.iter().find(is_gateway);
        let mut all = vec![
            gateway
                .unwrap_or(&Target::Peer(Peer::Gateway(Means::Icmp)))
                .clone(),
            Target::Peer(Peer::NameServers {
                host: self.dns_host.clone(),
            }),
        ];
        if self.cluster.is_some() {
            all.extend([Target::ApiServer, Target::NodeReady]);
        }
        for target in added.iter().chain(counted) {
            if !all.contains(target) {
                all.push(target.clone());
            }
        }
        all
    }

    /// One try before a change. Returns the target by the means by which it has answered.
    async fn try_before(
        &self,
        host: &dyn Host,
        target: &Target,
        servers: &[String],
        tries: u32,
    ) -> Result<Target, Silence> {
        let silence = match self.try_once(host, target, servers).await {
            Ok(()) => return Ok(target.clone()),
            Err(silence) => silence,
        };
        // A lost packet must not make the weaker answer count.
        if *target != Target::Peer(Peer::Gateway(Means::Icmp)) || tries < ECHOES {
            return Err(silence);
        }
        let by_link = Target::Peer(Peer::Gateway(Means::Neighbour));
        self.try_once(host, &by_link, servers).await?;
        Ok(by_link)
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
                    Err(silence) => last = silence.to_string(),
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
    ) -> Result<(), Silence> {
        let tried = async {
            match target {
                Target::ApiServer => self.cluster()?.answers().await.map_err(Silence::from),
                Target::NodeReady => {
                    let cluster = self.cluster()?;
                    cluster.node_is_ready().await.map_err(Silence::from)
                }
                Target::Peer(peer) => host.reach(peer, servers).await,
            }
        };
        timeout(TRY, tried).await.unwrap_or_else(|_| {
            let words = format!("no answer within {} s", TRY.as_secs());
            Err(Silence::NoAnswer(words))
        })
    }

    fn cluster(&self) -> Result<&Cluster, String> {
        self.cluster
            .as_ref()
            .ok_or_else(|| "there is no cluster".to_owned())
    }
}
