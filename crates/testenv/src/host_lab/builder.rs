//! The start of a lab of hosts.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, bail};
use futures::future::try_join_all;

use crate::{
    ControlPlane, host_programs, open_vswitch,
    relay::{Relay, listen_in},
    workdir::WorkDir,
};

use super::gateway::{self, Gateway};
use super::host::{Host, HostPrograms};
use super::hosts::Hosts;
use super::{Capability, HostLab, addresses, capabilities};

impl HostLab {
    /// With three hosts of three cards, unless chosen otherwise.
    pub fn builder() -> HostLabBuilder {
        HostLabBuilder::new()
    }
}

/// Chooses what a [`HostLab`] consists of.
#[derive(Clone, Debug)]
pub struct HostLabBuilder {
    hosts: usize,
    prefix: &'static str,
    cards: u8,
    pods_managed: bool,
    open_vswitch: bool,
    network_manager: bool,
    garbage_collector: bool,
}

impl HostLabBuilder {
    fn new() -> Self {
        Self {
            hosts: 3,
            prefix: "node-",
            cards: 3,
            pods_managed: false,
            open_vswitch: false,
            network_manager: true,
            garbage_collector: true,
        }
    }

    /// How many hosts there are (`node-1`, `node-2` …), 3 by default.
    #[must_use]
    pub fn hosts(mut self, hosts: usize) -> Self {
        self.hosts = hosts;
        self
    }

    /// Sets the prefix of the names of hosts and of their nodes, before their number: `node-` by
    /// default.
    #[must_use]
    pub fn prefix(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    /// How many cards each has (`eth0`, which is configured, `eth1` …), 3 by default.
    #[must_use]
    pub fn cards(mut self, cards: u8) -> Self {
        self.cards = cards;
        self
    }

    /// Lets NetworkManager manage pods' ends of veth pairs, `veth*`. By default it does not, as by
    /// the udev rule that it comes with on Debian and Fedora.
    #[must_use]
    pub fn pods_managed(mut self) -> Self {
        self.pods_managed = true;
        self
    }

    /// Gives each host an Open vSwitch, and a NetworkManager that has its plugin. Needs
    /// [`Capability::OpenVSwitch`].
    #[must_use]
    pub fn open_vswitch(mut self) -> Self {
        self.open_vswitch = true;
        self
    }

    /// Sets whether the hosts have NetworkManager and a D-Bus, true by default. Without them the
    /// kernel alone has `eth0`.
    #[must_use]
    pub fn network_manager(mut self, runs: bool) -> Self {
        self.network_manager = runs;
        self
    }

    /// Sets whether the garbage collector runs, see
    /// [`Builder::garbage_collector`](crate::Builder::garbage_collector).
    #[must_use]
    pub fn garbage_collector(mut self, runs: bool) -> Self {
        self.garbage_collector = runs;
        self
    }

    /// Starts control plane and hosts. Returns when all nodes are Ready and all hosts have their
    /// network.
    ///
    /// # Errors
    /// The machine lacks something (the error says what), or a program is missing, ended or not
    /// ready within two minutes.
    pub async fn start(self) -> Result<HostLab> {
        let programs = self.programs()?;
        let control_plane = ControlPlane::builder()
            .nodes(self.hosts)
            .node_prefix(self.prefix);
        let control_plane = if self.garbage_collector {
            control_plane.lend().await?
        } else {
            let control_plane = control_plane.audit(true).garbage_collector(false);
            control_plane.start().await?.into()
        };
        let port = control_plane
            .url()
            .rsplit(':')
            .next()
            .and_then(|port| port.parse().ok());
        let Some(port) = port else {
            bail!("{} has no port", control_plane.url())
        };
        let mut hosts = self.gateway(&programs)?;
        let way = listen_in(
            &hosts.gateway.file(),
            (addresses::API_SERVER, addresses::API_SERVER_PORT).into(),
        )?;
        let way = Relay::start(way, (Ipv4Addr::LOCALHOST, port).into(), None)?;
        self.plug_in(&mut hosts, &programs).await?;
        Ok(HostLab {
            hosts,
            way,
            control_plane,
        })
    }

    /// Starts the hosts alone, without a control plane. Returns when all have their network.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_hosts(self) -> Result<Hosts> {
        let programs = self.programs()?;
        let mut hosts = self.gateway(&programs)?;
        self.plug_in(&mut hosts, &programs).await?;
        Ok(hosts)
    }

    /// Checks that hosts can run here. Returns the folders of their `/usr`.
    fn programs(&self) -> Result<String> {
        gateway::check_size(self.hosts, self.cards)?;
        let missing = capabilities::missing();
        if !missing.is_empty() {
            bail!(
                "this machine cannot run hosts with NetworkManager: {}",
                missing.join("; ")
            );
        }
        if self.open_vswitch {
            let folder =
                open_vswitch::folder().with_context(|| Capability::OpenVSwitch.to_string())?;
            host_programs::usr(&[folder])
        } else {
            capabilities::usr()
        }
    }

    fn names(&self) -> Vec<String> {
        (1..=self.hosts)
            .map(|number| format!("{}{number}", self.prefix))
            .collect()
    }

    /// The gateway, without hosts.
    fn gateway(&self, usr: &str) -> Result<Hosts> {
        let mut folder = WorkDir::temporary()?;
        // Should the start fail, the logs say why.
        folder.keep = true;
        let names: Vec<_> = (1..)
            .zip(self.names())
            .map(|(index, name)| (name, addresses::host(index)))
            .collect();
        Ok(Hosts {
            hosts: vec![],
            gateway: Gateway::start(self.cards, &names, usr, folder.path())?,
            folder,
        })
    }

    /// Waits for the gateway, and starts the hosts.
    async fn plug_in(&self, hosts: &mut Hosts, usr: &str) -> Result<()> {
        hosts.gateway.wait_ready().await?;
        let configuration = configuration(self.pods_managed);
        let programs = HostPrograms {
            usr,
            open_vswitch: self.open_vswitch,
            network_manager: self.network_manager,
        };
        for (index, name) in (1..).zip(self.names()) {
            hosts.hosts.push(Host::start(
                index,
                &name,
                self.cards,
                &configuration,
                &programs,
                &hosts.gateway,
                hosts.folder.path(),
            )?);
        }
        try_join_all(hosts.hosts.iter().map(Host::wait_ready)).await?;
        hosts.folder.keep = is_kept();
        Ok(())
    }
}

/// Reports whether logs stay where nothing failed.
fn is_kept() -> bool {
    std::env::var_os("WEFT_TESTENV_KEEP").is_some()
}

/// `NetworkManager.conf(5)`. It does nothing of its own: no DHCP on free cards, no host name, no
/// check whether there is an Internet.
fn configuration(pods_managed: bool) -> String {
    let mut text = "[main]\nplugins=keyfile\nauth-polkit=false\ndns=default\nrc-manager=file\nhostname-mode=none\nno-auto-default=*\n\n\
        [connectivity]\nenabled=false\n"
        .to_owned();
    if !pods_managed {
        text += "\n[keyfile]\nunmanaged-devices=interface-name:veth*\n";
    }
    text
}
