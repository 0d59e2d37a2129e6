//! A desired state for a host that is not known, as nmstate's `gen_conf` can judge it.
//!
//! `gen_conf` merges with a host that has nothing. The desired state alone does not say which mode a
//! bond on the host has, or that an interface is there. So everything that the state refers to comes
//! in, in a form that no check of nmstate refuses.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Parts, sections, wanted, without};
use crate::{
    listed_ports,
    path::{Path, entries, interface_key, interfaces, text},
};

/// The types of interfaces that have a section of their own, by the section. `bridge` is one of two
/// types, and says nothing alone.
const TYPES: [(&str, &str); 14] = [
    ("link-aggregation", "bond"),
    ("vlan", "vlan"),
    ("vxlan", "vxlan"),
    ("vrf", "vrf"),
    ("veth", "veth"),
    ("mac-vlan", "mac-vlan"),
    ("mac-vtap", "mac-vtap"),
    ("macsec", "macsec"),
    ("hsr", "hsr"),
    ("ip-tunnel", "ip-tunnel"),
    ("ipvlan", "ipvlan"),
    ("infiniband", "infiniband"),
    ("libreswan", "ipsec"),
    ("patch", "ovs-interface"),
];

const FAMILIES: [&str; 2] = ["ipv4", "ipv6"];

/// A routing table for a VRF whose own one is not known.
const TABLE: u32 = 1000;

/// The name of an interface that stands in for a base that is not known.
const BASE: &str = "weft-base";

/// The name of an interface that holds the name servers. A host has one.
const NAME_SERVERS: &str = "weft-dns";

/// A desired state with what a host may have.
pub(super) struct Completed(Parts);

impl Completed {
    pub(super) fn new(state: &Value) -> Self {
        let mut wishes = Wishes::new(state);
        let mut wanted: Vec<(Path, Value)> = wanted(state)
            .into_iter()
            .filter_map(|(path, interface)| Some((path, complete(interface, &wishes)?)))
            .collect();
        // Without those that nothing can be said about.
        wishes.keys = wanted
            .iter()
            .map(|(_, interface)| interface_key(interface).into_owned())
            .collect();
        for (_, interface) in &mut wanted {
            let controller = text(&interface["controller"]);
            // An interface that may be no controller says nothing about its ports.
            if !wishes.has_controller(&controller, &text(&interface["name"]))
                || wishes.untyped.contains(&controller)
            {
                without(interface, "controller");
            }
        }
        Self(Parts {
            wanted,
            context: wishes.context(state),
            rest: sections(state),
        })
    }

    pub(super) fn into_parts(self) -> Parts {
        self.0
    }

    /// The interfaces with no more than the other sections refer to.
    pub(super) fn stubs(&self) -> Vec<Value> {
        let wanted = self.0.wanted.iter().map(|(_, interface)| stub(interface));
        wanted.chain(self.0.context.iter().cloned()).collect()
    }
}

/// An interface that others refer to: its type as far as it counts for them, and its families of
/// addresses.
fn stub(interface: &Value) -> Value {
    const KEPT: [&str; 5] = ["bond", "linux-bridge", "ovs-bridge", "vrf", "loopback"];
    let kind = interface["type"]
        .as_str()
        .filter(|kind| KEPT.contains(kind))
        .unwrap_or("ethernet");
    let state = interface["state"].as_str().unwrap_or("up");
    let mut stub = json!({"name": interface["name"], "type": kind, "state": state});
    match kind {
        "bond" => stub["link-aggregation"] = json!({"mode": mode(interface)}),
        "vrf" => {
            let table = number(&interface["vrf"]["route-table-id"]).unwrap_or(TABLE);
            stub["vrf"] = json!({ "route-table-id": table });
        }
        _ => {}
    }
    if kind != "ovs-bridge" {
        for family in FAMILIES {
            stub[family] = match kind {
                "loopback" => json!({"enabled": true}),
                _ if interface[family]["enabled"] == true => enabled(family),
                _ => json!({"enabled": false}),
            };
        }
    }
    stub
}

/// An interface that may be on a host that is not known.
fn possible(name: &str) -> Value {
    let kind = if name == "lo" { "loopback" } else { "ethernet" };
    let with_addresses = json!({"enabled": true});
    stub(&json!({"name": name, "type": kind, "ipv4": with_addresses, "ipv6": with_addresses}))
}

/// A family with addresses, whose they are: nmstate takes no name servers for one without.
fn enabled(family: &str) -> Value {
    match family {
        "ipv6" => json!({"enabled": true, "dhcp": true, "autoconf": true}),
        _ => json!({"enabled": true, "dhcp": true}),
    }
}

/// The mode of a bond, or one that its options allow.
fn mode(bond: &Value) -> Value {
    let section = &bond["link-aggregation"];
    if !section["mode"].is_null() {
        return section["mode"].clone();
    }
    let options = section["options"].as_object();
    let is_lacp = options
        .into_iter()
        .flatten()
        .any(|(key, _)| key.starts_with("lacp") || key.starts_with("ad_"));
    json!(if is_lacp {
        "802.3ad"
    } else if section["options"]["balance_slb"] == true {
        "balance-xor"
    } else {
        // The one mode that ports of InfiniBand can have.
        "active-backup"
    })
}

fn number(value: &Value) -> Option<u32> {
    let number: u32 = text(value).parse().ok()?;
    (number != 0).then_some(number)
}

/// The wishes of a desired state for all of its interfaces together.
struct Wishes {
    /// The keys of its interfaces.
    keys: BTreeSet<String>,
    /// The families of addresses that an interface needs, as a route leads by it.
    needed: BTreeSet<(String, &'static str)>,
    /// The tables of VRFs by the name, as routes have them.
    tables: BTreeMap<String, u32>,
    /// The names of interfaces that routes, rules and name servers refer to.
    referred: BTreeSet<String>,
    /// The names of the VRFs that routes refer to.
    vrfs: BTreeSet<String>,
    /// The ports of its bridges of Open vSwitch. One that is not wanted may be an internal port, which
    /// has addresses.
    of_ovs: BTreeSet<String>,
    /// The names of its interfaces that do not say what they are.
    untyped: BTreeSet<String>,
}

impl Wishes {
    fn new(state: &Value) -> Self {
        let mut wishes = Self {
            keys: interfaces(state)
                .iter()
                .map(|interface| interface_key(interface).into_owned())
                .collect(),
            needed: BTreeSet::new(),
            tables: BTreeMap::new(),
            referred: BTreeSet::new(),
            vrfs: BTreeSet::new(),
            of_ovs: BTreeSet::new(),
            untyped: BTreeSet::new(),
        };
        for interface in interfaces(state) {
            if interface["type"] == "ovs-bridge" {
                wishes.of_ovs.extend(listed_ports::names(interface));
            }
            let has_section = TYPES
                .iter()
                .any(|(section, _)| interface[*section].is_object());
            if !has_section && matches!(interface["type"].as_str(), None | Some("unknown")) {
                wishes.untyped.insert(text(&interface["name"]));
            }
        }
        for route in entries(&state["routes"]["config"]) {
            if let Some(table) = number(&route["table-id"]) {
                wishes.tables.insert(text(&route["vrf-name"]), table);
            }
            wishes.vrfs.insert(text(&route["vrf-name"]));
            let via = text(&route["next-hop-interface"]);
            if via.is_empty() || route["state"] == "absent" {
                continue;
            }
            let is_ipv6 = text(&route["destination"]).contains(':');
            wishes
                .needed
                .insert((via.clone(), if is_ipv6 { "ipv6" } else { "ipv4" }));
            wishes.referred.insert(via);
        }
        for rule in entries(&state["route-rules"]["config"]) {
            let by = text(&rule["iif"]);
            if !by.is_empty() && rule["state"] != "absent" {
                wishes.referred.insert(by);
            }
        }
        for server in entries(&state["dns-resolver"]["config"]["server"]) {
            if let Some((_, via)) = text(server).split_once('%') {
                wishes.needed.insert((via.to_owned(), "ipv6"));
                wishes.referred.insert(via.to_owned());
            }
        }
        wishes
    }

    /// Reports whether it has a controller of this name for an interface. A bridge of Open vSwitch
    /// and its internal port share a name.
    fn has_controller(&self, name: &str, port: &str) -> bool {
        self.keys.contains(&ovs_bridge(name)) || (name != port && self.keys.contains(name))
    }

    /// An interface that may be on the host, as the state refers to it.
    fn possible(&self, name: &str) -> Value {
        let mut possible = possible(name);
        if self.of_ovs.contains(name) {
            possible["type"] = "ovs-interface".into();
        }
        for family in FAMILIES {
            // nmstate takes the addresses from an interface that becomes a port, unless it is wanted
            // with them.
            if possible["type"] != "loopback" && !self.needed.contains(&(name.to_owned(), family)) {
                without(&mut possible, family);
            }
        }
        possible
    }

    /// The interfaces that the state refers to and does not have itself.
    fn context(&self, state: &Value) -> Vec<Value> {
        let mut context = BTreeMap::new();
        for name in self.referred.difference(&self.keys) {
            context.insert(name.clone(), self.possible(name));
        }
        for route in entries(&state["routes"]["config"]) {
            let name = text(&route["vrf-name"]);
            if name.is_empty() || self.keys.contains(&name) {
                continue;
            }
            let table = self.tables.get(&name).unwrap_or(&TABLE);
            let vrf = json!({
                "name": name, "type": "vrf", "state": "up", "vrf": {"route-table-id": table}
            });
            context.insert(name, vrf);
        }
        let of_other_types: BTreeSet<&str> = interfaces(state)
            .iter()
            .filter(|other| !matches!(other["type"].as_str(), None | Some("ovs-interface")))
            .filter_map(|other| other["name"].as_str())
            .collect();
        for mapping in entries(&state["ovn"]["bridge-mappings"]) {
            let name = text(&mapping["bridge"]);
            let key = ovs_bridge(&name);
            let is_unknown = !name.is_empty()
                && mapping["state"] != "absent"
                && !self.keys.contains(&key)
                && !of_other_types.contains(name.as_str());
            if is_unknown {
                let bridge = json!({"name": name, "type": "ovs-bridge", "state": "up"});
                context.insert(key, bridge);
            }
        }
        if state["dns-resolver"]["config"].is_object() {
            context.insert(NAME_SERVERS.to_owned(), possible(NAME_SERVERS));
        }
        context.into_values().collect()
    }
}

/// The key of a bridge of Open vSwitch.
fn ovs_bridge(name: &str) -> String {
    interface_key(&json!({"name": name, "type": "ovs-bridge"})).into_owned()
}

/// A wanted interface with what the one on the host may have. `None` if nothing can be said about it.
fn complete(mut interface: Value, wishes: &Wishes) -> Option<Value> {
    let map = interface.as_object_mut()?;
    // gen_conf writes no scripts, and reads a setting of the kernel for MPTCP.
    map.remove("dispatch");
    map.remove("mptcp");
    // The interface that the MAC address comes from is on the host.
    map.remove("copy-mac-from");
    let has_type = !matches!(interface["type"].as_str(), None | Some("unknown"));
    // gen_conf has this interface itself, and merges it by its type.
    if interface["name"] == "lo" && !has_type {
        interface["type"] = "loopback".into();
    }
    if matches!(interface["state"].as_str(), Some("absent" | "ignore")) {
        return Some(interface);
    }
    let kind = match interface["type"].as_str() {
        // Only reported, never configured.
        Some("tun" | "xfrm") => return None,
        None | Some("unknown") => kind(&interface, wishes)?.to_owned(),
        Some(kind) => kind.to_owned(),
    };
    interface["type"] = kind.clone().into();
    match kind.as_str() {
        "bond" => complete_bond(&mut interface),
        // The one on the host has a base.
        "vlan" if interface["vlan"].is_object() && interface["vlan"]["base-iface"].is_null() => {
            interface["vlan"]["base-iface"] = BASE.into();
        }
        "vrf" if number(&interface["vrf"]["route-table-id"]).is_none() => {
            let table = wishes
                .tables
                .get(&text(&interface["name"]))
                .unwrap_or(&TABLE);
            interface["vrf"]["route-table-id"] = (*table).into();
        }
        _ => {}
    }
    for family in FAMILIES {
        let is_needed = wishes.needed.contains(&(text(&interface["name"]), family));
        complete_family(&mut interface, family, is_needed);
    }
    Some(interface)
}

fn complete_bond(bond: &mut Value) {
    let section = &bond["link-aggregation"];
    let options = &section["options"];
    // The one on the host has the policy that this needs.
    let lacks_policy = options["balance_slb"] == true && options["xmit_hash_policy"].is_null();
    if section["mode"].is_null() {
        bond["link-aggregation"]["mode"] = mode(bond);
    }
    if lacks_policy {
        bond["link-aggregation"]["options"]["xmit_hash_policy"] = "vlan+srcmac".into();
    }
}

/// `is_needed` is true if something else in the state asks for addresses of this family.
fn complete_family(interface: &mut Value, family: &str, is_needed: bool) {
    if !interface[family].is_object() {
        if is_needed {
            interface[family] = match interface["type"] == "loopback" {
                true => json!({"enabled": true}),
                false => enabled(family),
            };
        }
        return;
    }
    if interface[family]["enabled"].is_null() && is_needed {
        interface[family]["enabled"] = true.into();
    }
    if interface[family]["autoconf"] == true && interface[family]["dhcp"].is_null() {
        interface[family]["dhcp"] = true.into();
    }
}

/// The type of an interface on a host that is not known, by its sections and by what refers to it.
fn kind(wanted: &Value, wishes: &Wishes) -> Option<&'static str> {
    if wanted["bridge"].is_object() {
        return None;
    }
    let found = TYPES
        .into_iter()
        .find(|(section, _)| wanted[*section].is_object());
    let name = text(&wanted["name"]);
    Some(match found {
        Some((_, kind)) => kind,
        None if wanted["ethernet"].is_object() => "ethernet",
        None if wishes.of_ovs.contains(&name) => "ovs-interface",
        None if wishes.vrfs.contains(&name) => "vrf",
        None => "ethernet",
    })
}
