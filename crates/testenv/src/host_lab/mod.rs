//! Hosts: each a real NetworkManager with a real D-Bus in namespaces of its own, connected to a
//! gateway and to a real control plane. Needs root. `scripts/network-manager` fetches
//! NetworkManager, D-Bus and dnsmasq, and installs none of them. Nothing of the machine's own network is touched.
//!
//! ```text
//!   this machine              gateway                                host
//!   127.0.0.1 kube-apiserver  <--- 172.31.0.2:6443                   dbus-daemon, NetworkManager, weft-agent
//!                             br0  172.31.0.1  ping, DNS, DHCP  ---  eth0  172.31.0.11, gateway and name server 172.31.0.1
//!                             br1  172.31.1.1  ping, DNS, DHCP  ---  eth1  free
//!                             br2  172.31.2.1  ping, DNS, DHCP  ---  eth2  free
//! ```
//!
//! The gateway and each host have network, mount, UTS, IPC and PID namespaces of their own.
//!
//! Where a test wants it, each host has an Open vSwitch of its own, too, with its datapath in user
//! space: bridges say `datapath: netdev`.
//!
//! The Node objects are kept Ready by kwok. A test starts on the hosts the program that a DaemonSet
//! would start.
//!
//! ```no_run
//! use weft_testenv::host_lab::{HostLab, agent};
//!
//! # async fn test() -> anyhow::Result<()> {
//! let lab = HostLab::builder().hosts(3).start().await?;
//! let host = lab.host("node-1")?;
//! println!("{}", host.exec(&["ip", "-j", "addr", "show", "eth0"]).await?);
//! // With a token of this ServiceAccount that is bound to this node.
//! let kubeconfig = lab.host_kubeconfig(host, agent::NAMESPACE, agent::SERVICE_ACCOUNT).await?;
//! let variables = [("KUBECONFIG".to_owned(), kubeconfig.display().to_string())];
//! let mut running = host.start_program(&agent::program()?, &["run"], &variables)?;
//! lab.cut_api(host)?;
//! lab.mend_api(host)?;
//! running.kill()?;                                            // SIGKILL
//! # Ok(())
//! # }
//! ```
//!
//! Dropping the lab ends every process, and with them their namespaces, devices and mounts. If its
//! owner is killed, the kernel ends process 1 of the gateway and of each host, and with it all that
//! runs there. The folder is kept when a test panics: `gateway` and `hosts/<name>` in it have the
//! logs.

pub mod addresses;
pub mod agent;
mod builder;
pub mod capabilities;
pub mod cni;
mod gateway;
mod host;
mod hosts;
mod installation;
mod switch;

use std::path::{Path, PathBuf};

use anyhow::Result;

pub use crate::program::Program;
pub use builder::HostLabBuilder;
pub use capabilities::Capability;
pub use host::Host;
pub use hosts::Hosts;
pub use installation::Installation;
pub use switch::Switch;

use crate::{ControlPlane, Lent, network, relay::Relay};

/// A control plane with hosts. Dropping it ends it.
pub struct HostLab {
    // Dropped in this order.
    hosts: Hosts,
    way: Relay,
    control_plane: Lent,
}

impl HostLab {
    /// Its control plane: clients, kubeconfigs for this machine, audit log.
    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    /// The folder of the files and logs of its hosts, which ends with them.
    pub fn folder(&self) -> &Path {
        self.hosts.folder()
    }

    /// A client with all rights.
    pub fn client(&self) -> kube::Client {
        self.control_plane.client()
    }

    /// Runs the real kubectl with all rights and returns its stdout.
    ///
    /// # Errors
    /// kubectl failed: the error holds its arguments and its stderr.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.control_plane.kubectl(args).await
    }

    /// `node-1`, `node-2` …
    pub fn hosts(&self) -> &[Host] {
        self.hosts.all()
    }

    /// Returns the host of this name.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn host(&self, name: &str) -> Result<&Host> {
        self.hosts.host(name)
    }

    /// Writes a kubeconfig, usable on the hosts, with a real token of the agent's ServiceAccount
    /// that is bound to this host's node.
    ///
    /// # Errors
    /// The ServiceAccount does not exist yet: install the agent's objects first.
    pub(crate) async fn agent_kubeconfig(&self, host: &Host) -> Result<PathBuf> {
        self.host_kubeconfig(host, agent::NAMESPACE, agent::SERVICE_ACCOUNT)
            .await
    }

    /// The same for any ServiceAccount.
    ///
    /// # Errors
    /// ServiceAccount or node do not exist.
    pub async fn host_kubeconfig(
        &self,
        host: &Host,
        namespace: &str,
        service_account: &str,
    ) -> Result<PathBuf> {
        let server = format!(
            "https://{}:{}",
            addresses::API_SERVER,
            addresses::API_SERVER_PORT
        );
        self.control_plane
            .node_kubeconfig_via(&server, namespace, service_account, host.name())
            .await
    }

    /// Cuts a host off the API server, and nothing else: packets vanish, open connections end.
    /// [`mend_api`](Self::mend_api) undoes it.
    ///
    /// # Errors
    /// The kernel has no policy rules.
    pub fn cut_api(&self, host: &Host) -> Result<()> {
        self.hosts.gateway.cut_api(host.address(), true)?;
        self.way.cut(host.address().into(), true);
        Ok(())
    }

    /// Lets a host reach the API server again.
    ///
    /// # Errors
    /// It was not cut off.
    pub fn mend_api(&self, host: &Host) -> Result<()> {
        self.way.cut(host.address().into(), false);
        self.hosts.gateway.cut_api(host.address(), false)
    }

    /// Pulls the cable of a card, or plugs it in again: the host's end has no carrier meanwhile.
    ///
    /// # Errors
    /// The host has no such card.
    pub fn cable(&self, host: &Host, card: u8, plugged: bool) -> Result<()> {
        let state = if plugged { "up" } else { "down" };
        self.ip(&format!("link set port{card}-{} {state}\n", host.index()))
    }

    /// Starts a switch, which announces itself and its VLANs to all cards of the hosts.
    ///
    /// # Errors
    /// lldpd is missing, see [`Capability::Lldpd`].
    pub fn switch(&self) -> Result<Switch> {
        self.hosts.switch()
    }

    /// Runs commands of `ip`, one a line, where the gateway is.
    ///
    /// # Errors
    /// One failed. Those after it were not run.
    fn ip(&self, commands: &str) -> Result<()> {
        network::ip(&self.hosts.gateway.file(), commands)
    }

    /// Are all of its processes running? (Those inside hosts are started again by the host.)
    ///
    /// # Errors
    /// One has ended. The error shows the end of its log.
    pub fn check_running(&mut self) -> Result<()> {
        self.hosts.check_running()?;
        self.control_plane.check_running()
    }

    /// Name and pid of its processes, without those inside hosts.
    pub fn processes(&self) -> Vec<(String, u32)> {
        let mut all = self.control_plane.processes();
        all.extend(self.hosts.gateway.processes());
        all.extend(self.hosts().iter().flat_map(Host::processes));
        all
    }
}
