//! Pods' ports of Linux bridges: the ends of veth pairs whose other end is in a pod, which a CNI
//! plugin has attached to a bridge that policies shape. No policy names them, nobody but the CNI
//! plugin knows them, and it acts once. So whoever makes the bridge anew, or drops ports that are
//! not on a list, cuts the pod off for good, while it goes on looking healthy. The agent remembers
//! them, and puts them back.
//!
//! Ports of OVS bridges are rows of a database, and looked after in the same way: [`ovs`].

pub mod ovs;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    host::{Host, HostError, Port, Seen, links::Link},
    state_dir::{self, StateDir},
};

const FILE: &str = "ports.json";

/// Why ports cannot be looked after.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host does not say how they are.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The agent cannot store its notes about them.
    #[error(transparent)]
    State(#[from] state_dir::Error),
}

/// All pods' ports of the Linux bridges that policies shape, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    ports: BTreeMap<u32, Port>,
}

/// The bridges that policies shape, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bridges {
    /// The bridges of the kernel.
    pub linux: BTreeSet<String>,
    /// The bridges of Open vSwitch.
    pub ovs: BTreeSet<String>,
}

/// Which port belongs to which bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The name of the port, for example `veth1a2b3c`.
    pub port: String,
    /// The name of the bridge, for example `br1`.
    pub bridge: String,
}

/// The result of attaching ports again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reattached {
    /// Ports that are attached again.
    pub done: Vec<Attachment>,
    /// Ports that are not, with the reason.
    pub failed: Vec<(Attachment, String)>,
}

impl Memory {
    /// Loads the notes of an earlier process.
    pub fn load(dir: &StateDir) -> Result<Self, state_dir::Error> {
        Ok(dir.read(FILE)?.unwrap_or_default())
    }

    /// The ports that are remembered.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.values()
    }

    /// The names of what looks like pods' ports of the bridges that policies name, or that are
    /// remembered.
    pub fn candidates(&self, seen: &Seen, bridges: &BTreeSet<String>) -> Vec<String> {
        let known: BTreeSet<&str> = self
            .ports
            .values()
            .map(|port| port.bridge.as_str())
            .collect();
        let bridge = |link: &Link| link.master.and_then(|master| seen.name(master));
        let attached = seen.pod_ends().filter(|link| {
            bridge(link).is_some_and(|name| bridges.contains(name) || known.contains(name))
        });
        attached.map(|link| link.name.clone()).collect()
    }

    /// Looks at the links, puts back each port that is known and has lost its bridge while the
    /// bridge is there, and remembers how things are. `bridges` are those that policies name,
    /// next to those remembered. `configured` the links that somebody has configured, which are no
    /// pods' whatever they look like, or `None` if that is not known: then none is remembered that
    /// was not. Nothing is written if nothing has changed.
    pub async fn reconcile(
        &mut self,
        dir: &StateDir,
        host: &dyn Host,
        bridges: &BTreeSet<String>,
        configured: Option<&BTreeSet<String>>,
    ) -> Result<Reattached, Error> {
        let seen = host.links().await?;
        let mut reattached = Reattached::default();
        for port in self.lost(&seen) {
            let Some(bridge) = seen.bridge(&port.bridge) else {
                continue;
            };
            let attachment = Attachment {
                port: port.name.clone(),
                bridge: port.bridge.clone(),
            };
            match host.attach(port, bridge.index).await {
                Ok(()) => reattached.done.push(attachment),
                Err(error) => reattached.failed.push((attachment, error.to_string())),
            }
        }
        let seen = if reattached.done.is_empty() {
            seen
        } else {
            host.links().await?
        };
        let now = self.after(&seen, bridges, configured);
        if now != *self {
            dir.write(FILE, &now)?;
            *self = now;
        }
        Ok(reattached)
    }

    /// Known ports that are there, without a bridge or on one that has been recreated, while theirs
    /// is there.
    fn lost(&self, seen: &Seen) -> Vec<Port> {
        let is_lost = |port: &&Port| {
            let Some(link) = seen.pod_end(port.index, &port.name) else {
                return false;
            };
            link.master.is_none() && seen.bridge(&port.bridge).is_some()
        };
        self.ports.values().filter(is_lost).cloned().collect()
    }

    /// Returns the ports to remember: attached ports, and the last attachment of the others.
    fn after(
        &self,
        seen: &Seen,
        bridges: &BTreeSet<String>,
        configured: Option<&BTreeSet<String>>,
    ) -> Self {
        let known: BTreeSet<&str> = self
            .ports
            .values()
            .map(|port| port.bridge.as_str())
            .collect();
        let is_pods = |link: &Link| match configured {
            Some(configured) => !configured.contains(&link.name),
            None => self.ports.contains_key(&link.index),
        };
        let ports = seen
            .pod_ends()
            .filter(|link| is_pods(link))
            .filter_map(|link| {
                let attached = link
                    .master
                    .and_then(|master| seen.name(master))
                    .filter(|name| seen.bridge(name).is_some());
                let port = match attached {
                    Some(bridge) => {
                        (bridges.contains(bridge) || known.contains(bridge)).then(|| Port {
                            index: link.index,
                            name: link.name.clone(),
                            bridge: bridge.to_owned(),
                            up: link.up,
                            settings: link.settings.clone(),
                        })?
                    }
                    None if link.master.is_some() => return None,
                    None => self
                        .ports
                        .get(&link.index)
                        .filter(|port| port.name == link.name)?
                        .clone(),
                };
                Some((port.index, port))
            });
        Self {
            ports: ports.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::links::Settings;

    fn link(index: u32, name: &str, master: Option<u32>) -> Link {
        Link {
            index,
            name: name.into(),
            is_bridge: false,
            is_pod_end: name.starts_with("veth"),
            up: true,
            master,
            settings: Settings::default(),
        }
    }

    fn bridge(index: u32, name: &str) -> Link {
        Link {
            is_bridge: true,
            ..link(index, name, None)
        }
    }

    fn named(bridges: &[&str]) -> BTreeSet<String> {
        bridges.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn only_pods_ports_of_policies_bridges_are_remembered() {
        let seen = Seen::new([
            bridge(1, "br1"),
            bridge(2, "cni0"),
            link(3, "eth1", Some(1)),
            link(4, "vetha", Some(1)),
            link(5, "vethb", Some(2)),
        ]);
        let memory = Memory::default().after(&seen, &named(&["br1"]), Some(&named(&[])));
        assert_eq!(
            memory
                .ports()
                .map(|port| (port.name.as_str(), port.bridge.as_str()))
                .collect::<Vec<_>>(),
            [("vetha", "br1")]
        );
    }

    #[test]
    fn a_configured_port_is_no_pods_port() {
        // A card of a node that is itself a container is an end of a veth pair, as a pod's is.
        let attached = Seen::new([
            bridge(1, "br1"),
            link(4, "vetha", Some(1)),
            link(5, "vethb", Some(1)),
        ]);
        let memory = Memory::default().after(&attached, &named(&["br1"]), Some(&named(&["vetha"])));
        assert_eq!(
            memory
                .ports()
                .map(|port| port.name.as_str())
                .collect::<Vec<_>>(),
            ["vethb"]
        );
        assert_eq!(
            memory.after(&attached, &named(&["br1"]), None),
            memory,
            "who cannot be asked about is neither added nor forgotten"
        );
    }

    #[test]
    fn a_port_is_lost_when_its_bridge_was_made_anew() {
        let attached = Seen::new([bridge(1, "br1"), link(4, "vetha", Some(1))]);
        let memory = Memory::default().after(&attached, &named(&["br1"]), Some(&named(&[])));
        assert!(memory.lost(&attached).is_empty());

        let bridge_gone = Seen::new([link(4, "vetha", None)]);
        assert!(
            memory.lost(&bridge_gone).is_empty(),
            "there is nothing to attach it to"
        );
        let memory = memory.after(&bridge_gone, &named(&[]), Some(&named(&[])));
        assert_eq!(memory.ports().count(), 1, "it is remembered meanwhile");

        let anew = Seen::new([bridge(9, "br1"), link(4, "vetha", None)]);
        assert_eq!(memory.lost(&anew).len(), 1);
    }

    #[test]
    fn a_port_that_is_another_one_or_belongs_elsewhere_is_left_alone() {
        let attached = Seen::new([bridge(1, "br1"), link(4, "vetha", Some(1))]);
        let memory = Memory::default().after(&attached, &named(&["br1"]), Some(&named(&[])));
        let other_index = Seen::new([bridge(1, "br1"), link(5, "vetha", None)]);
        assert!(memory.lost(&other_index).is_empty());
        assert_eq!(
            memory.after(&other_index, &named(&["br1"]), Some(&named(&[]))),
            Memory::default()
        );
        let moved = Seen::new([
            bridge(1, "br1"),
            bridge(2, "br2"),
            link(4, "vetha", Some(2)),
        ]);
        assert!(memory.lost(&moved).is_empty());
        assert_eq!(
            memory.after(&moved, &named(&["br1"]), Some(&named(&[]))),
            Memory::default(),
            "br2 is no policy's"
        );
    }
}
