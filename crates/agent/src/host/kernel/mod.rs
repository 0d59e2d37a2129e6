//! A host without NetworkManager whose network the agent changes through the kernel.
//!
//! nmstate's kernel-only mode has no checkpoint, leaves out some settings, and makes addresses of
//! DHCP permanent, so the agent brings its own: [`checkpoint`], [`settings`] and [`addresses`].
//! Nothing here outlasts a reboot.

mod addresses;
mod apply;
mod checkpoint;
mod ports;
mod restore;
mod settings;
mod snapshot;
mod wanted;

use std::collections::BTreeSet;

use nmstate::{InterfaceState, NetworkState};
use weft_node_network::desired::Desired;

pub(crate) use self::checkpoint::Checkpoint;
use self::{checkpoint::folder, snapshot::Snapshot};
use super::{
    ApplyOptions, Backend, HostError, Query, WithoutNetworkManager,
    links::Links,
    network_manager::{self, Presence},
};
use crate::state_dir::StateDir;

/// The file that says that NetworkManager ran on this host.
const SEEN: &str = "network-manager-seen";

/// The file with the links that changes have made ports and that look like the ends of pods' pairs:
/// the cards of a host that is itself a container.
const NAMED: &str = "kernel-ports.json";

/// The agent's way to change a host without NetworkManager.
pub struct Kernel {
    dir: StateDir,
    setting: WithoutNetworkManager,
    /// The checkpoint of a change.
    pub checkpoint: Checkpoint,
}

impl Kernel {
    /// Begins with this folder for the checkpoint.
    pub fn new(dir: StateDir, setting: WithoutNetworkManager) -> Self {
        Self {
            checkpoint: Checkpoint::new(dir.clone()),
            dir,
            setting,
        }
    }

    /// Returns the backend that answers now.
    ///
    /// A NetworkManager that is away for a moment must find the network as it left it. So the
    /// kernel is a backend only where nothing starts NetworkManager and the agent never saw it.
    pub async fn backend(&self) -> Backend {
        let presence = network_manager::look().await;
        if matches!(presence, Presence::Running(_)) {
            self.note_network_manager();
        }
        match presence {
            Presence::Running(version) => Backend::NetworkManager { version },
            Presence::Away(why) => Backend::ReadOnly { why },
            Presence::Absent(why) => match self.setting {
                // A change that was not finished is taken back whatever the setting is by now.
                WithoutNetworkManager::ReportOnly if self.is_unfinished() => Backend::Kernel,
                WithoutNetworkManager::ReportOnly => Backend::ReadOnly { why },
                WithoutNetworkManager::ConfigureKernel if self.dir.path(SEEN).exists() => {
                    let file = self.dir.path(SEEN).display().to_string();
                    Backend::ReadOnly {
                        why: format!(
                            "{why}. NetworkManager ran on this host earlier: if it was removed for good, delete {file}"
                        ),
                    }
                }
                WithoutNetworkManager::ConfigureKernel => Backend::Kernel,
            },
        }
    }

    fn is_unfinished(&self) -> bool {
        matches!(self.checkpoint.held(), Ok(Some(_)))
    }

    fn note_network_manager(&self) {
        if self.dir.path(SEEN).exists() {
            return;
        }
        if let Err(error) = self.dir.write(SEEN, &true) {
            tracing::warn!(%error, "failed to note that NetworkManager runs on this host");
        }
    }

    /// Changes the network to `desired` under a checkpoint. It rolls back a failure before it
    /// returns.
    pub async fn apply(&self, desired: &Desired, options: ApplyOptions) -> Result<(), HostError> {
        let mut before = Snapshot::take(&Links::open()?, apply::named(desired.value())).await?;
        before.ports = apply::wanted_ports(desired.value());
        let own = self.own();
        self.checkpoint.begin(&before, options.checkpoint)?;
        match apply::apply(desired, &before, &own, options.verify).await {
            Ok(()) if options.commit => self.commit().await,
            Ok(()) => Ok(()),
            Err(error) => {
                if let Err(second) = self.checkpoint.roll_back().await {
                    tracing::error!(error = %second, "failed to roll back a failed change");
                }
                Err(error)
            }
        }
    }

    /// Keeps the change, and notes the ports that it has named.
    pub async fn commit(&self) -> Result<(), HostError> {
        let there = Links::open()?.list().await?;
        let mut named = self.own();
        named.extend(self.checkpoint.wanted_ends()?);
        named.retain(|name| there.is_there(name));
        let known: Result<Option<BTreeSet<String>>, _> = self.dir.read(NAMED);
        if !known.is_ok_and(|known| known.unwrap_or_default() == named) {
            self.dir.write(NAMED, &named).map_err(folder)?;
        }
        self.checkpoint.commit()
    }

    /// Those of these links that a change has made ports, the one that is under way included: they
    /// are no pods' ends, whatever they look like.
    pub fn configured(&self, links: Vec<String>) -> Result<BTreeSet<String>, HostError> {
        let named = self.named()?;
        Ok(links
            .into_iter()
            .filter(|link| named.contains(link))
            .collect())
    }

    /// The ports that changes have named. None if that cannot be read: then they count as pods'
    /// ports, and stay.
    fn own(&self) -> BTreeSet<String> {
        self.named().unwrap_or_else(|error| {
            tracing::warn!(%error, "cards that look like pods' ports stay on their bridges");
            BTreeSet::new()
        })
    }

    fn named(&self) -> Result<BTreeSet<String>, HostError> {
        let mut named: BTreeSet<String> = self.dir.read(NAMED).map_err(folder)?.unwrap_or_default();
        named.extend(self.checkpoint.wanted_ends()?);
        Ok(named)
    }

    /// Reads the kernel's network. nmstate reports LLDP of each interface that NetworkManager has
    /// set up, and so this does of the ports that a change has named.
    pub async fn retrieve(&self, query: Query) -> Result<NetworkState, HostError> {
        let mut state = retrieve(query).await?;
        let named = self.own();
        for interface in state.interfaces.iter_mut() {
            let base = interface.base_iface_mut();
            if named.contains(&base.name) {
                base.lldp = Some(base.lldp.take().unwrap_or_default());
            }
        }
        Ok(state)
    }
}

/// Reads the kernel's network. nmstate calls a link without a carrier down. A policy means whether
/// it is set up, so that counts here.
pub async fn retrieve(query: Query) -> Result<NetworkState, HostError> {
    let mut state = NetworkState::new();
    state.set_kernel_only(true);
    state.set_include_secrets(query.secrets);
    state.set_running_config_only(query.configured_only);
    state.retrieve_async().await?;
    let links = Links::open()?.list().await?;
    for interface in state.interfaces.iter_mut() {
        let base = interface.base_iface_mut();
        if base.state == InterfaceState::Down && links.is_up(&base.name) {
            base.state = InterfaceState::Up;
        }
    }
    Ok(state)
}
