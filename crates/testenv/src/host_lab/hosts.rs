//! Hosts and their gateway, without a control plane.

use std::path::Path;

use anyhow::{Context, Result};

use crate::workdir::WorkDir;

use super::gateway::Gateway;
use super::host::Host;
use super::switch::Switch;

/// Hosts without a control plane, for tests of an agent that needs none. Dropping them ends them.
pub struct Hosts {
    // Dropped in this order.
    pub(super) hosts: Vec<Host>,
    pub(super) gateway: Gateway,
    pub(super) folder: WorkDir,
}

impl Hosts {
    /// `node-1`, `node-2` …
    pub fn all(&self) -> &[Host] {
        &self.hosts
    }

    /// Returns the host of this name.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn host(&self, name: &str) -> Result<&Host> {
        self.hosts
            .iter()
            .find(|host| host.name() == name)
            .with_context(|| format!("no host {name} in this lab"))
    }

    /// Starts a switch, which announces itself and its VLANs to all cards of the hosts.
    ///
    /// # Errors
    /// lldpd is missing, see [`Capability::Lldpd`](super::Capability::Lldpd).
    pub fn switch(&self) -> Result<Switch> {
        Switch::start(&self.gateway, self.folder.path())
    }

    /// The folder of their files and logs, which ends with them.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Are all of its processes running? (Those inside hosts are started again by the host.)
    ///
    /// # Errors
    /// One has ended. The error shows the end of its log.
    pub fn check_running(&mut self) -> Result<()> {
        self.hosts.iter_mut().try_for_each(Host::check_running)?;
        self.gateway.check_running()
    }
}
