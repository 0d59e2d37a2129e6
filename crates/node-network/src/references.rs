//! References to interfaces of a host by another name than the kernel's: by an alternative name, or
//! by the name of the profile that an address has found.
//!
//! nmstate resolves them before it applies a state (`resolve_port_name_ref`,
//! `resolve_parent_name_ref`, `resolve_next_hop_iface_ref`), and hosts report the kernel's names. So
//! a comparison needs these, and people need the names of the policy.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::{
    index::Index,
    path::{Path, Step, interfaces, text},
};

/// The names in a desired state that lead to interfaces of a host with other names.
pub(crate) struct Names {
    /// The name on the host, by the name in the desired state.
    on_host: HashMap<String, String>,
    /// The name in the desired state, by the name on the host, unless the desired state uses both.
    in_state: HashMap<String, String>,
}

impl Names {
    /// The names in `desired` on this host.
    pub(crate) fn of(desired: &Value, host: &Index) -> Self {
        let all = names(desired);
        let mut on_host = HashMap::new();
        for wanted in interfaces(desired) {
            let name = text(&wanted["name"]);
            // The interface that this entry makes has the name, whatever else is there.
            let there = host.meant(wanted).map(|there| text(&there["name"]));
            on_host.insert(name.clone(), there.unwrap_or(name));
        }
        for name in &all {
            if on_host.contains_key(name) {
                continue;
            }
            let other = || host.alternative(name).or_else(|| host.bound(name));
            if host.name(name).is_none()
                && let Some(there) = other()
            {
                on_host.insert(name.clone(), text(&there["name"]));
            }
        }
        on_host.retain(|name, there| name != there);
        let in_state = on_host
            .iter()
            .filter(|(_, there)| !all.contains(*there))
            .map(|(name, there)| (there.clone(), name.clone()))
            .collect();
        Self { on_host, in_state }
    }

    /// Gives a desired state the names of the host.
    pub(crate) fn rename(&self, desired: &mut Value) {
        if self.on_host.is_empty() {
            return;
        }
        visit(desired, &mut |name| {
            if let Some(there) = name.as_str().and_then(|name| self.on_host.get(name)) {
                *name = there.clone().into();
            }
        });
    }

    /// Gives a place in a renamed state the names of the desired state.
    pub(crate) fn restore(&self, path: &mut Path) {
        if self.in_state.is_empty() {
            return;
        }
        for step in &mut path.0 {
            if let Step::Item(item) = step {
                let words: Vec<&str> = item.split(' ').collect();
                let restored = words.iter().enumerate().map(|(index, word)| {
                    // An interface or port is its name, perhaps with a type behind it. In the key
                    // of a route, the name stands behind `dev`.
                    let is_name = index == 0 || words[index - 1] == "dev";
                    let known = self.in_state.get(*word).filter(|_| is_name);
                    known.map_or(*word, String::as_str)
                });
                *item = restored.collect::<Vec<_>>().join(" ");
            }
        }
    }
}

/// The names of interfaces in a state.
pub(crate) fn names(desired: &Value) -> HashSet<String> {
    let mut all = HashSet::new();
    visit(&mut desired.clone(), &mut |name| {
        all.insert(text(name));
    });
    all
}

/// Calls `found` with each name of an interface in a state.
fn visit(state: &mut Value, found: &mut impl FnMut(&mut Value)) {
    for interface in list(state, "interfaces") {
        for key in ["name", "controller", "copy-mac-from"] {
            name(interface, key, found);
        }
        let sections = interface.as_object_mut().into_iter().flatten();
        for (_, section) in sections.filter(|(_, section)| section.is_object()) {
            for key in ["base-iface", "port1", "port2"] {
                name(section, key, found);
            }
            ports(section, found);
        }
    }
    for (section, key) in [("routes", "next-hop-interface"), ("route-rules", "iif")] {
        let entries = state
            .get_mut(section)
            .map(|section| list(section, "config"));
        for entry in entries.into_iter().flatten() {
            name(entry, key, found);
        }
    }
}

/// The ports of a bridge, a bond or a VRF, and of the bonds in an Open vSwitch bridge.
fn ports(section: &mut Value, found: &mut impl FnMut(&mut Value)) {
    for key in ["port", "ports", "ports-config"] {
        for port in list(section, key) {
            if port.is_string() {
                found(port);
                continue;
            }
            // A bond of Open vSwitch has a name in its bridge alone.
            let bond = ["link-aggregation", "bond"]
                .into_iter()
                .find(|bond| port[*bond].is_object());
            match bond {
                Some(bond) => ports(&mut port[bond], found),
                None => name(port, "name", found),
            }
        }
    }
}

fn name(value: &mut Value, key: &str, found: &mut impl FnMut(&mut Value)) {
    if let Some(name) = value.get_mut(key).filter(|name| name.is_string()) {
        found(name);
    }
}

fn list<'a>(value: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = value.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::removal::changes;

    fn host() -> Value {
        json!({
            "interfaces": [
                {
                    "name": "eth1", "type": "ethernet", "state": "up", "controller": "br1",
                    "mac-address": "02:00:00:00:00:01", "identifier": "mac-address",
                    "profile-name": "uplink"
                },
                {
                    "name": "eth2", "type": "ethernet", "state": "up",
                    "alt-names": [{"name": "enp2"}]
                },
                {
                    "name": "br1", "type": "linux-bridge", "state": "up",
                    "bridge": {"port": [{"name": "eth1"}]}
                },
                {
                    "name": "bond1", "type": "bond", "state": "up",
                    "link-aggregation": {"mode": "active-backup", "port": ["eth2"]}
                },
                {
                    "name": "v5", "type": "vlan", "state": "up",
                    "vlan": {"base-iface": "eth2", "id": 5}
                }
            ],
            "routes": {"config": [{
                "destination": "192.0.2.0/24", "next-hop-interface": "eth2",
                "next-hop-address": "198.51.100.1", "table-id": 254
            }]}
        })
    }

    fn desired(uplink: &str, other: &str) -> Value {
        json!({
            "interfaces": [
                {
                    "name": "br1", "type": "linux-bridge", "state": "up",
                    "bridge": {"port": [{"name": uplink}]}
                },
                {
                    "name": "bond1", "type": "bond", "state": "up",
                    "link-aggregation": {"mode": "active-backup", "port": [other]}
                },
                {
                    "name": "v5", "type": "vlan", "state": "up",
                    "vlan": {"base-iface": other, "id": 5}
                }
            ],
            "routes": {"config": [{
                "destination": "192.0.2.0/24", "next-hop-interface": other,
                "next-hop-address": "198.51.100.1"
            }]}
        })
    }

    #[test]
    fn a_reference_by_another_name_is_in_place() {
        for (uplink, other) in [("eth1", "eth2"), ("uplink", "enp2")] {
            let found = changes(&desired(uplink, other), &host());
            assert!(found.is_empty(), "{uplink}, {other}: {found:?}");
        }
    }

    #[test]
    fn a_change_has_the_names_of_the_policy() {
        let mut host = host();
        host["interfaces"][2]["bridge"]["port"] = json!([]);
        host["routes"]["config"] = json!([]);
        let found = changes(&desired("uplink", "enp2"), &host);
        let places: Vec<_> = found.iter().map(|one| one.path.to_string()).collect();
        assert_eq!(
            places,
            [
                "interfaces[br1].bridge.port[uplink]",
                "routes.config[192.0.2.0/24 via 198.51.100.1 dev enp2]"
            ]
        );
        // Of two names of one interface, the kernel's stays.
        let mut both = desired("uplink", "enp2");
        both["interfaces"][1]["link-aggregation"]["port"] = json!(["eth1"]);
        let host = self::host();
        let index = Index::of(&host);
        let mut path = Path::default().key("interfaces").item("eth1");
        Names::of(&both, &index).restore(&mut path);
        assert_eq!(path.to_string(), "interfaces[eth1]");
    }
}
