//! The agent's interface to its host.
//!
//! Everything that reads or changes a host's network goes through [`Host`], and that it changed by
//! itself comes as [`Changes`]. An agent that is simulated for a measurement differs from a real
//! one in these two and in nothing else.

mod bridge_filter;
pub mod causes;
mod device;
mod kernel;
pub(crate) mod links;
mod lldp;
mod machine;
mod managed;
mod netlink;
mod network_manager;
mod ovsdb;
pub(crate) mod peer;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::Duration,
};

use futures::{future::BoxFuture, stream::BoxStream};
use nmstate::{ErrorKind, NetworkState, NmstateError};
use serde::Deserialize;
use serde_json::Value;
use weft_node_network::{
    consequences::{Applier, consequences},
    desired::Desired,
    drift::{self, Difference},
    feasible, kernel_subset, losses, removal,
};

pub use bridge_filter::BridgeFilter;
pub(crate) use kernel::Checkpoint;
pub use links::{Port, Seen};
pub use machine::Machine;
pub use peer::{DNS_HOST, Means, Peer, Silence};

/// The version of the library nmstate that the agent is linked to, for status.
pub const NMSTATE_VERSION: &str = "2.2.62";

/// A host whose network can be read, and changed where NetworkManager runs or the kernel alone may
/// be changed. There, the agent itself holds the checkpoints.
///
/// Calls are done one after the other, in the order in which they were made: a look never sees half
/// of an apply. A call goes on to its end also when nobody waits for it any more.
pub trait Host: Send + Sync + 'static {
    /// How the network is now.
    ///
    /// # Errors
    /// The kernel or NetworkManager does not answer, or answers with an error.
    fn retrieve(&self, query: Query) -> BoxFuture<'_, Result<Retrieved, HostError>>;

    /// Changes the network to `desired`, under a checkpoint of NetworkManager. It rolls back a
    /// failure before it returns.
    ///
    /// # Errors
    /// `desired` is invalid or cannot be had, or without NetworkManager, as nothing could be rolled
    /// back then.
    fn apply(
        &self,
        desired: Desired,
        options: ApplyOptions,
    ) -> BoxFuture<'_, Result<(), HostError>>;

    /// The checkpoints that NetworkManager holds, as paths on D-Bus. Their origin does not matter.
    ///
    /// # Errors
    /// NetworkManager is not there or does not answer.
    fn checkpoints(&self) -> BoxFuture<'_, Result<Vec<String>, HostError>>;

    /// Has NetworkManager's checkpoints last this long from now on: next to other calls, not after
    /// them.
    ///
    /// # Errors
    /// NetworkManager is not there or does not answer, or a checkpoint's time is over.
    fn renew(&self, lease: Duration) -> BoxFuture<'_, Result<(), HostError>>;

    /// Keeps what was changed since this checkpoint, and removes it.
    ///
    /// # Errors
    /// There is no such checkpoint: most often its time is over, and NetworkManager has rolled
    /// back.
    fn commit(&self, checkpoint: String) -> BoxFuture<'_, Result<(), HostError>>;

    /// Puts back what was changed since this checkpoint, and removes it.
    ///
    /// # Errors
    /// There is no such checkpoint: most often its time is over, and NetworkManager has rolled
    /// back.
    fn rollback(&self, checkpoint: String) -> BoxFuture<'_, Result<(), HostError>>;

    /// The kernel's links, with what bridges keep of their ports.
    ///
    /// # Errors
    /// The kernel does not answer.
    fn links(&self) -> BoxFuture<'_, Result<Seen, HostError>>;

    /// Attaches a pod's port to the bridge of this index as it was attached.
    ///
    /// # Errors
    /// The kernel refuses: most often port or bridge are gone.
    fn attach(&self, port: Port, bridge: u32) -> BoxFuture<'_, Result<(), HostError>>;

    /// Carries out operations on Open vSwitch's database (RFC 7047, 5.2), all of them or none, and
    /// returns their results. `None` on a host without Open vSwitch.
    ///
    /// # Errors
    /// The database cannot be asked, or refuses.
    fn ovsdb(&self, operations: Vec<Value>)
    -> BoxFuture<'_, Result<Option<Vec<Value>>, HostError>>;

    /// Those of the links that a policy or a person has set up, and no CNI plugin: by a profile of
    /// NetworkManager, or without NetworkManager by a change of the agent.
    ///
    /// # Errors
    /// NetworkManager is not there or does not answer, or the agent's folder cannot be read.
    fn configured(&self, links: Vec<String>) -> BoxFuture<'_, Result<BTreeSet<String>, HostError>>;

    /// Has NetworkManager leave links alone until it or the link starts anew. NetworkManager
    /// ignores a link that it does not know.
    ///
    /// # Errors
    /// NetworkManager is not there or does not answer.
    fn leave_alone(&self, links: Vec<String>) -> BoxFuture<'_, Result<(), HostError>>;

    /// Asks once whether something answers over the host's network as it is at this moment: next to
    /// other calls, not after them. `servers` are the name servers of the host, by its state.
    ///
    /// # Errors
    /// The failure in words.
    fn reach<'a>(
        &'a self,
        peer: &'a Peer,
        servers: &'a [String],
    ) -> BoxFuture<'a, Result<(), Silence>>;
}

/// The parts to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// With passwords in clear. The result must never leave the process.
    pub secrets: bool,
    /// Only what was configured: without what DHCP, router advertisements and LLDP neighbours have
    /// brought.
    pub configured_only: bool,
}

/// A host's network at one moment.
#[derive(Clone, Debug)]
pub struct Retrieved {
    /// As nmstate has it, not normalised.
    pub state: NetworkState,
    /// The backend that answered.
    pub backend: Backend,
    /// True while NetworkManager has not done all that it does at its start. Until then, it waits
    /// for cards without a link, among others.
    pub is_starting: bool,
    /// The kernel's index of each interface that it knows.
    pub indexes: BTreeMap<String, u32>,
    /// The interfaces with a neighbor that announces by LLDP that its port is part of an
    /// aggregation. nmstate leaves this out of `state`.
    pub aggregated: BTreeSet<String>,
    /// The bridges whose packets pass the host's firewall.
    pub bridge_filter: BridgeFilter,
}

impl Retrieved {
    /// The state as JSON, with the announcements of neighbors that nmstate leaves out.
    pub fn value(&self) -> Value {
        value(&self.state, &self.aggregated)
    }

    /// The state that takes a change back, without what this host cannot be asked for.
    ///
    /// # Errors
    /// nmstate does not read the rest.
    pub fn way_back(&self, back: Desired) -> Result<Desired, serde_json::Error> {
        match &self.backend {
            Backend::Kernel => {
                let rest = self.backend.way_back(back.value().clone(), &self.value());
                Desired::deserialize(rest)
            }
            Backend::NetworkManager { .. } | Backend::ReadOnly { .. } => Ok(back),
        }
    }
}

/// See [`Retrieved::value`].
pub(crate) fn value(state: &NetworkState, aggregated: &BTreeSet<String>) -> Value {
    let mut value = weft_node_network::state::value(state);
    weft_node_network::lldp::note_aggregation(&mut value, aggregated);
    value
}

/// The program that holds the configuration of a host's network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// NetworkManager: the network can be read and changed.
    NetworkManager {
        /// The version of NetworkManager, for example `1.46.0`.
        version: String,
    },
    /// The kernel alone: the network can be read, a part of it can be changed, and a reboot loses
    /// the changes.
    Kernel,
    /// Only the kernel answers: the network can be read, not changed.
    ReadOnly {
        /// Why there is no NetworkManager, and what to do.
        why: String,
    },
}

impl Backend {
    /// Returns what the host would refuse of a desired state, by the rules of all plans. nmstate
    /// would name one mistake of several, and not where it is. In its kernel-only mode it would
    /// ignore most of them.
    pub fn refusal(&self, desired: &Desired, current: &Value) -> Option<String> {
        let desired = desired.value();
        let by_kernel = || match self {
            Self::Kernel => kernel_subset::refusal(desired, current),
            Self::NetworkManager { .. } | Self::ReadOnly { .. } => None,
        };
        feasible::refusal(desired, current).or_else(by_kernel)
    }

    /// All that an apply of `desired` would change on a host that is like `current`.
    pub fn changes(&self, desired: &Desired, current: &Value) -> Vec<Difference> {
        let mut found = removal::changes(desired.value(), current);
        found.extend(self.left_on_ports(desired.value(), current));
        found
    }

    /// All that an apply of `desired` would change, with what follows on other parts of the host.
    pub fn effects(&self, desired: &Desired, current: &Value) -> Vec<Difference> {
        let mut found = self.changes(desired, current);
        let applier = match self {
            Self::Kernel => Applier::Kernel,
            Self::NetworkManager { .. } | Self::ReadOnly { .. } => Applier::NetworkManager,
        };
        let consequences = consequences(desired.value(), current, &found, Some(applier));
        found.extend(consequences.into_iter().map(|one| one.difference));
        found
    }

    /// The part of `current` that drifts from `desired`.
    pub fn drift(&self, desired: &Value, current: &Value) -> Vec<Difference> {
        let mut found = drift::differences(desired, current);
        found.extend(self.left_on_ports(desired, current));
        found
    }

    /// A state that takes a change back, without what this host cannot be asked for.
    #[must_use]
    pub fn way_back(&self, state: Value, current: &Value) -> Value {
        match self {
            Self::Kernel => kernel_subset::way_back(state, current),
            Self::NetworkManager { .. } | Self::ReadOnly { .. } => state,
        }
    }

    /// NetworkManager gives a port no address. Without it, a client of the host can do so.
    fn left_on_ports(&self, desired: &Value, current: &Value) -> Vec<Difference> {
        match self {
            Self::Kernel => losses::left_on_ports(desired, current),
            Self::NetworkManager { .. } | Self::ReadOnly { .. } => Vec::new(),
        }
    }
}

/// The agent's choice on a host without NetworkManager: `spec.withoutNetworkManager` of NMState.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum WithoutNetworkManager {
    /// Report the network, and change nothing.
    #[default]
    #[value(name = "ReportOnly")]
    ReportOnly,
    /// Change a part of it through the kernel. A reboot loses the changes.
    #[value(name = "ConfigureKernel")]
    ConfigureKernel,
}

/// Settings of an apply: its checkpoint, checks and time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplyOptions {
    /// True if the checkpoint goes when all is done. Else it stays, for [`Host::commit`] or
    /// [`Host::rollback`]. [`Host::checkpoints`] has it.
    pub commit: bool,
    /// After how long without a commit NetworkManager rolls back by itself. nmstate begins it anew
    /// with each step of its own.
    pub checkpoint: Duration,
    /// True if nmstate reads everything back until it is as desired.
    pub verify: bool,
    /// Forgotten at the next boot.
    pub memory_only: bool,
    /// How long all of it may take. After that time the agent gives up, and NetworkManager rolls
    /// back when the checkpoint's time is over.
    pub limit: Duration,
}

/// Why a host did not do what it was asked to.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HostError {
    /// nmstate returned an error.
    #[error("{kind}: {message}")]
    Nmstate {
        /// nmstate's kind of the error.
        kind: ErrorKind,
        /// The message of nmstate.
        message: String,
    },
    /// An apply has failed, and NetworkManager has said why.
    #[error("{error}; NetworkManager: {}", .causes.join("; "))]
    Activation {
        /// How it failed.
        error: Box<Self>,
        /// The words of NetworkManager about activations that failed meanwhile. There is at least
        /// one.
        causes: Vec<String>,
    },
    /// Nothing can be changed here.
    #[error("the network of this host can only be read: {0}")]
    ReadOnly(String),
    /// A request to NetworkManager that nmstate has no call for.
    #[error("NetworkManager does not answer: {0}")]
    Bus(String),
    /// The kernel's links cannot be read or changed.
    #[error("rtnetlink: {0}")]
    Links(String),
    /// Open vSwitch's database cannot be read or changed.
    #[error("Open vSwitch's database: {0}")]
    Ovsdb(String),
    /// It took too long.
    #[error("the host has not answered within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// A defect of the library or of the agent.
    #[error("reading or changing the host's network panicked: {0}")]
    Panicked(String),
    /// The thread that serves the host has ended, so must the process.
    #[error("the part of the agent that serves the host has ended")]
    Ended,
}

impl HostError {
    /// The error with these words of NetworkManager.
    fn because(self, causes: Vec<String>) -> Self {
        if causes.is_empty() {
            return self;
        }
        Self::Activation {
            error: Box::new(self),
            causes,
        }
    }
}

impl From<zbus::Error> for HostError {
    fn from(error: zbus::Error) -> Self {
        Self::Bus(error.to_string())
    }
}

impl From<rtnetlink::Error> for HostError {
    fn from(error: rtnetlink::Error) -> Self {
        Self::Links(error.to_string())
    }
}

impl From<ovsdb::Error> for HostError {
    fn from(error: ovsdb::Error) -> Self {
        Self::Ovsdb(error.to_string())
    }
}

impl From<io::Error> for HostError {
    fn from(error: io::Error) -> Self {
        Self::Links(error.to_string())
    }
}

impl From<NmstateError> for HostError {
    fn from(error: NmstateError) -> Self {
        Self::Nmstate {
            kind: error.kind(),
            message: error.msg().to_owned(),
        }
    }
}

/// A change of the host by itself, without its content. The agent looks to find the new state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A link, address, route or rule of the kernel.
    Kernel,
    /// Something that NetworkManager knows.
    NetworkManager,
    /// The backend: NetworkManager came, or went.
    Backend,
    /// Nobody knows: the kernel had more to say than its buffer holds.
    Lost,
}

/// Changes as they come, without end.
pub type Changes = BoxStream<'static, Change>;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use nmstate::{EthernetInterface, Interface, LldpConfig, LldpNeighborTlv, LldpSystemName};

    use super::*;

    #[test]
    fn a_state_has_the_aggregation_that_neighbors_announce() {
        let mut state = NetworkState::default();
        for name in ["eth1", "eth2"] {
            let mut lldp = LldpConfig::default();
            let system = LldpSystemName::new("switch-1".to_owned());
            lldp.neighbors = vec![vec![LldpNeighborTlv::SystemName(system)]];
            let mut interface = EthernetInterface::default();
            interface.base.name = name.to_owned();
            interface.base.lldp = Some(lldp);
            state
                .interfaces
                .push(Interface::Ethernet(Box::new(interface)));
        }
        let value = value(&state, &BTreeSet::from(["eth2".to_owned()]));
        let heard = |index: usize| value["interfaces"][index]["lldp"]["neighbors"][0].clone();
        assert_eq!(heard(0).as_array().unwrap().len(), 1);
        assert_eq!(heard(1)[0]["system-name"], "switch-1");
        assert_eq!(heard(1)[1]["ieee-802-3-link-aggregation"]["enabled"], true);
    }

    #[test]
    fn the_version_is_the_one_that_is_linked() {
        let lock = include_str!("../../../../Cargo.lock");
        let version = lock
            .split("name = \"nmstate\"\nversion = \"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        assert_eq!(NMSTATE_VERSION, version);
    }
}
