//! A host without NetworkManager whose network the agent changes through the kernel.
//!
//! nmstate's kernel-only mode has no checkpoint, leaves out some settings, and makes addresses of
//! DHCP permanent, so the agent brings its own: [`checkpoint`], [`settings`] and [`addresses`].
//! Nothing here outlasts a reboot.

mod addresses;
mod apply;
mod checkpoint;
mod restore;
mod settings;
mod snapshot;

use nmstate::{InterfaceState, NetworkState};

pub(crate) use self::checkpoint::Checkpoint;
use self::snapshot::Snapshot;
use super::{
    ApplyOptions, Backend, HostError, Query, WithoutNetworkManager,
    links::Links,
    network_manager::{self, Presence},
};
use crate::state_dir::StateDir;

/// The file that says that NetworkManager ran on this host.
const SEEN: &str = "network-manager-seen";

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
    pub async fn apply(
        &self,
        desired: &NetworkState,
        options: ApplyOptions,
    ) -> Result<(), HostError> {
        let before = Snapshot::take(&Links::open()?, apply::named(desired)).await?;
        self.checkpoint.begin(&before, options.checkpoint)?;
        match apply::apply(desired, &before, options.verify).await {
            Ok(()) if options.commit => self.checkpoint.commit(),
            Ok(()) => Ok(()),
            Err(error) => {
                if let Err(second) = self.checkpoint.roll_back().await {
                    tracing::error!(error = %second, "failed to roll back a failed change");
                }
                Err(error)
            }
        }
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
