//! The part of nmstate's states that the agent can apply through the kernel, on a host without
//! NetworkManager, and the refusal of everything else.
//!
//! nmstate's kernel-only mode ignores much that it does not carry out, so the agent asks here
//! before it changes anything. A property that the host has already is no change, and is taken.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use crate::{
    bridge::TIMERS,
    canonical::same,
    drift::{differences_from, is_automatic},
    index::{Index, above},
    path::{Path, entries, interfaces, text},
    ports::may_be_a_pods,
    route,
    state_error::StateError,
};

/// The reason of the condition Backend of a node to which these rules apply.
pub const KERNEL: &str = "Kernel";

/// The types of interface that can be configured.
const TYPES: [&str; 4] = ["ethernet", "veth", "linux-bridge", "vlan"];
/// The types that can be made and removed.
const MADE: [&str; 2] = ["linux-bridge", "vlan"];
/// The properties of a route that nmstate's kernel-only mode carries out.
const OF_ROUTE: [&str; 6] = [
    "destination",
    "next-hop-interface",
    "next-hop-address",
    "metric",
    "table-id",
    "state",
];
/// The properties of an address. The protocol is the kernel's note of its origin.
const OF_ADDRESS: [&str; 3] = ["ip", "prefix-length", "protocol"];
/// The highest table for routes. Table 255 is the kernel's own (linux/rtnetlink.h).
const LAST_TABLE: u64 = 254;
/// The costs that a bridge computes from the speed of a port (`port_cost` of Linux).
const PATH_COSTS: [u32; 4] = [2, 4, 19, 100];
/// The end of each refusal of something that only NetworkManager does.
const NEEDS_NETWORK_MANAGER: &str =
    "install NetworkManager on the host, or configure it with the host's own tool";

/// [`refusals`] in one message. None if there are none.
pub fn refusal(desired: &Value, current: &Value) -> Option<String> {
    let refusals = refusals(desired, current);
    let words: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    (!words.is_empty()).then(|| {
        format!(
            "without NetworkManager this host would refuse it: {}",
            words.join("; ")
        )
    })
}

/// The parts of `desired` that cannot be applied without NetworkManager on a host that is like
/// `current`. Both are states in nmstate's form.
pub fn refusals(desired: &Value, current: &Value) -> Vec<StateError> {
    refusals_of(desired, &Index::of(current))
}

/// Like [`refusals`], for those who compare with the same host several times.
pub(crate) fn refusals_of(desired: &Value, host: &Index) -> Vec<StateError> {
    let mut check = Check {
        desired: Index::of(desired),
        host,
        above: above(host.state),
        gone: interfaces(desired)
            .iter()
            .filter(|interface| interface["state"] == "absent")
            .filter_map(|interface| interface["name"].as_str())
            .collect(),
        found: Vec::new(),
    };
    for (section, value) in desired.as_object().into_iter().flatten() {
        match section.as_str() {
            "interfaces" | "routes" => {}
            _ if is_empty(value) => {}
            section => check.refuse(
                Path::default().key(section),
                format!("is not applied without NetworkManager: {NEEDS_NETWORK_MANAGER}"),
            ),
        }
    }
    for wanted in interfaces(desired) {
        check.interface(wanted);
    }
    for wanted in entries(&desired["routes"]["config"]) {
        check.route(wanted);
    }
    check.found
}

/// A state that takes a change back, as the agent can apply it on a host that is like `current`.
///
/// It leaves out what only a client of DHCP or of routers brings to an interface and what the host
/// does not have now: the agent cannot ask such a client, and static addresses must not wait for it.
/// It also leaves out the ports of pods, which the state before had and which no policy names.
#[must_use]
pub fn way_back(mut state: Value, current: &Value) -> Value {
    let host = Index::of(current);
    let is_pods = |name: &Value| {
        let name = name.as_str();
        let there = name.and_then(|name| host.key(name));
        there.is_some_and(|there| there["type"] == "veth") && may_be_a_pods(name, &host)
    };
    let is_there = |name: &Value| name.as_str().is_some_and(|name| host.name(name).is_some());
    // The agent makes no veth: the pod behind it has gone.
    if let Some(list) = state.get_mut("interfaces").and_then(Value::as_array_mut) {
        list.retain(|interface| interface["type"] != "veth" || is_there(&interface["name"]));
    }
    // Ports that the state makes itself are among them.
    let wanted: HashSet<String> = interfaces(&state)
        .iter()
        .map(|interface| text(&interface["name"]))
        .collect();
    let list = state.get_mut("interfaces").and_then(Value::as_array_mut);
    for interface in list.into_iter().flatten() {
        let there = host.meant(interface);
        without_clients(interface, there);
        if is_pods(&interface["name"])
            && let Some(parts) = interface.as_object_mut()
        {
            parts.remove("controller");
        }
        let ports = interface
            .get_mut("bridge")
            .and_then(|bridge| bridge.get_mut("port"))
            .and_then(Value::as_array_mut);
        if let Some(ports) = ports {
            ports.retain(|port| {
                let name = &port["name"];
                !is_pods(name) && (is_there(name) || wanted.contains(&text(name)))
            });
        }
    }
    state
}

fn without_clients(interface: &mut Value, there: Option<&Value>) {
    let Some(parts) = interface.as_object_mut() else {
        return;
    };
    for family in ["ipv4", "ipv6"] {
        let Some(stack) = parts.get_mut(family) else {
            continue;
        };
        let is_gone = |client: &str| {
            stack[client] == true && there.is_none_or(|there| there[family][client] != true)
        };
        if !is_gone("dhcp") && !is_gone("autoconf") {
            continue;
        }
        let addresses: Vec<Value> = entries(&stack["address"])
            .iter()
            .filter(|address| !is_automatic(address))
            .cloned()
            .collect();
        if addresses.is_empty() {
            parts.remove(family);
        } else {
            *stack = json!({"enabled": true, "address": addresses});
        }
    }
}

/// Nothing, or a section without content.
fn is_empty(value: &Value) -> bool {
    value.is_null()
        || value.as_object().is_some_and(serde_json::Map::is_empty)
        || value.as_array().is_some_and(Vec::is_empty)
}

struct Check<'a> {
    desired: Index<'a>,
    host: &'a Index<'a>,
    /// The interfaces of the host above others.
    above: HashMap<&'a str, Vec<&'a Value>>,
    /// The names of the interfaces that are to be absent.
    gone: HashSet<&'a str>,
    found: Vec<StateError>,
}

impl<'a> Check<'a> {
    fn refuse(&mut self, path: Path, message: String) {
        self.found.push(StateError::Invalid { path, message });
    }

    /// The interface of this name, as it is on the host or else as it is wanted.
    fn named(&self, name: &str) -> Option<&'a Value> {
        self.host.name(name).or_else(|| self.desired.name(name))
    }

    fn interface(&mut self, wanted: &Value) {
        let path = Path::of_interface(wanted);
        let there = self.host.meant(wanted);
        // A veth may be called Ethernet, so the host's word counts.
        let kind = text(&there.unwrap_or(wanted)["type"]);
        match wanted["state"].as_str().unwrap_or("up") {
            "ignore" => return,
            "absent" => return self.absent(&path, there, &kind),
            "down" if there.is_none() => return,
            _ => {}
        }
        let types: &[&str] = if there.is_some() { &TYPES } else { &MADE };
        if !types.contains(&kind.as_str()) {
            let can = if there.is_some() { "changes" } else { "makes" };
            return self.refuse(
                path.key("type"),
                format!(
                    "must be one that the agent {can} without NetworkManager ({}), not {kind}: {NEEDS_NETWORK_MANAGER}",
                    types.join(", ")
                ),
            );
        }
        if wanted["state"] == "down" {
            return;
        }
        let made = json!({"interfaces": [{"name": wanted["name"], "type": wanted["type"]}]});
        let new = Index::of(&made);
        for (key, value) in wanted.as_object().into_iter().flatten() {
            let path = path.key(key);
            match key.as_str() {
                "name" | "type" | "state" => {}
                _ if value.is_null() => {}
                "identifier" if value == "name" => {}
                // Judged on every host.
                "mtu" => {}
                "controller" => self.controller(path, there, value),
                "copy-mac-from" => self.copied_mac(path, there, value),
                "ipv4" | "ipv6" => self.addresses(&path, value, there, key),
                "bridge" => self.bridge(&path, wanted, value, there),
                "vlan" => self.vlan(&path, wanted, value, there),
                "mac-address" if there.is_none() => {}
                // The comparison for drift takes it, because no host without NetworkManager has one.
                "description" if !text(value).is_empty() => self.refuse(
                    path,
                    format!("is not kept without NetworkManager: leave it out, or {NEEDS_NETWORK_MANAGER}"),
                ),
                // A state from before has all features of an interface that is made again. The
                // agent compares them afterwards.
                "ethtool" if there.is_none() && is_only(value, "feature") => {}
                _ if is_so(wanted, key, value, there.map_or(&new, |_| self.host)) => {}
                _ => self.refuse(
                    path,
                    format!(
                        "cannot be set to {} without NetworkManager: leave it out, or {NEEDS_NETWORK_MANAGER}",
                        short(value)
                    ),
                ),
            }
        }
    }

    fn absent(&mut self, path: &Path, there: Option<&Value>, kind: &str) {
        let Some(there) = there else { return };
        if !MADE.contains(&kind) {
            return self.refuse(
                path.key("state"),
                format!(
                    "absent is for interfaces that the agent makes without NetworkManager ({}), not for {kind}: use down, or remove it with the host's own tool",
                    MADE.join(", ")
                ),
            );
        }
        // The kernel removes them with it, and a rollback could not bring back all types.
        let name = text(&there["name"]);
        let above = self.above.get(name.as_str()).into_iter().flatten();
        let stays = above.copied().find(|other| {
            other["name"]
                .as_str()
                .is_none_or(|name| !self.gone.contains(name))
        });
        if let Some(stays) = stays {
            let other = text(&stays["name"]);
            self.refuse(
                path.key("state"),
                format!("absent would also remove {other}, whose base is {name}: make {other} absent in the same state, or keep {name}"),
            );
        }
        if has_vlans(there) {
            self.refuse(
                path.key("state"),
                format!("absent is not applied to a bridge whose ports have VLANs, because a rollback could not bring them back: remove {name} with the host's own tool"),
            );
        }
    }

    fn controller(&mut self, path: Path, there: Option<&Value>, value: &Value) {
        let now = there.map(|there| text(&there["controller"]));
        for name in [Some(text(value)), now]
            .into_iter()
            .flatten()
            .filter(|name| !name.is_empty())
        {
            let kind = self
                .named(&name)
                .map(|controller| text(&controller["type"]))
                .unwrap_or_default();
            if kind != "linux-bridge" {
                let kind = if kind.is_empty() { "missing" } else { &kind };
                self.refuse(
                    path.clone(),
                    format!("changes only from or to a linux-bridge without NetworkManager, and {name} is {kind}: {NEEDS_NETWORK_MANAGER}"),
                );
            }
        }
    }

    /// The agent gives an address to a bridge that it makes, and to no other one.
    fn copied_mac(&mut self, path: Path, there: Option<&Value>, value: &Value) {
        let Some(there) = there else { return };
        let mac = |interface: &Value| interface["mac-address"].clone();
        let source = self.named(&text(value)).map(mac);
        if source.is_none_or(|source| !same(&source, &there["mac-address"])) {
            self.refuse(
                path,
                format!(
                    "cannot change the address of an interface that is there without NetworkManager, and {value} has another one: leave it out, or make the interface absent first, then create it again"
                ),
            );
        }
    }

    fn addresses(&mut self, path: &Path, value: &Value, there: Option<&Value>, family: &str) {
        let is_automatic_family = value["dhcp"] == true || value["autoconf"] == true;
        let is_now =
            |key: &str, part: &Value| there.is_some_and(|there| there[family][key] == *part);
        for (key, part) in value.as_object().into_iter().flatten() {
            let path = path.key(key);
            match (key.as_str(), part) {
                (_, Value::Null) | ("dhcp" | "autoconf", Value::Bool(false)) => {}
                ("dhcp" | "autoconf", _) if is_now(key, part) => {}
                ("dhcp" | "autoconf", _) => self.refuse(
                    path,
                    format!("must be false without NetworkManager, not {part}: list addresses, or leave out {family} to keep what the host's own client brings"),
                ),
                ("enabled", Value::Bool(true))
                    if entries(&value["address"]).is_empty() && !is_automatic_family => self
                    .refuse(
                        path,
                        "true needs at least one address without NetworkManager: list addresses, or leave it out"
                            .to_owned(),
                    ),
                // The kernel has a switch for IPv6 only in /proc/sys, which an agent in a pod
                // cannot write. A link-local address that is removed comes back with the carrier.
                ("enabled", Value::Bool(false))
                    if family == "ipv6"
                        && there.is_none_or(|there| there["ipv6"]["enabled"] != false) =>
                {
                    self.refuse(
                        path,
                        "cannot be false without NetworkManager: leave out ipv6, or set the sysctl disable_ipv6 of the interface on the host"
                            .to_owned(),
                    );
                }
                ("enabled", Value::Bool(_)) => {}
                ("address", list) => {
                    // Others bring and take those with an end, and the kernel the link-local one.
                    for address in entries(list).iter().filter(|entry| !is_automatic(entry)) {
                        let extra = address.as_object().into_iter().flatten().find(|(key, part)| {
                            !OF_ADDRESS.contains(&key.as_str()) && !part.is_null()
                        });
                        if let Some((extra, part)) = extra {
                            self.refuse(
                                path.item(&text(&address["ip"])).key(extra),
                                format!("cannot be set to {} without NetworkManager: leave it out", short(part)),
                            );
                        }
                    }
                }
                _ if is_now(key, part) || there.is_none() && part == &Value::Bool(false) => {}
                _ => self.refuse(
                    path,
                    format!("cannot be set to {} without NetworkManager: leave it out, or {NEEDS_NETWORK_MANAGER}", short(part)),
                ),
            }
        }
    }

    fn bridge(&mut self, path: &Path, wanted: &Value, value: &Value, there: Option<&Value>) {
        for (key, part) in value.as_object().into_iter().flatten() {
            let path = path.key(key);
            match key.as_str() {
                _ if part.is_null() => {}
                "port" | "ports" => {
                    for port in entries(part) {
                        self.port(&path, wanted, port);
                    }
                }
                "options" => self.options(&path, wanted, part, there),
                _ => self.refuse(
                    path,
                    format!(
                        "cannot be set to {} without NetworkManager: leave it out",
                        short(part)
                    ),
                ),
            }
        }
    }

    fn port(&mut self, path: &Path, wanted: &Value, port: &Value) {
        let name = text(&port["name"]);
        let path = path.item(&name);
        for (key, part) in port.as_object().into_iter().flatten() {
            let is_made = match key.as_str() {
                "name" => true,
                "vlan" => is_empty(part),
                "stp-path-cost" => PATH_COSTS.iter().any(|cost| same(part, &json!(cost))),
                key => is_default(part, &default_port()[key]),
            };
            let only = json!({"port": [{"name": port["name"], key: part}]});
            if is_made || part.is_null() || is_so(wanted, "bridge", &only, self.host) {
                continue;
            }
            let rest = if key == "vlan" {
                "write `vlan: {}` for a port that passes all VLANs on as they come".to_owned()
            } else {
                format!("leave it out, or {NEEDS_NETWORK_MANAGER}")
            };
            self.refuse(
                path.key(key),
                format!("cannot be set to {} without NetworkManager, where ports have the kernel's defaults: {rest}", short(part)),
            );
        }
        if let Some(there) = self.host.name(&name) {
            self.controller(path, Some(there), &Value::Null);
        }
    }

    fn options(&mut self, path: &Path, wanted: &Value, options: &Value, there: Option<&Value>) {
        for (key, part) in options.as_object().into_iter().flatten() {
            let is_made = match there {
                Some(_) => is_so(
                    wanted,
                    "bridge",
                    &json!({"options": {key: part}}),
                    self.host,
                ),
                None => TIMERS.contains(&key.as_str()) || is_default(part, &default_options()[key]),
            };
            if is_made || part.is_null() {
                continue;
            }
            self.refuse(
                path.key(key),
                format!("cannot be set to {} without NetworkManager, where new bridges have the kernel's defaults: leave it out, or {NEEDS_NETWORK_MANAGER}", short(part)),
            );
        }
    }

    fn vlan(&mut self, path: &Path, wanted: &Value, value: &Value, there: Option<&Value>) {
        for (key, part) in value.as_object().into_iter().flatten() {
            let path = path.key(key);
            let is_there = is_so(wanted, "vlan", &json!({ key: part }), self.host);
            match (key.as_str(), there) {
                _ if part.is_null() => {}
                (_, Some(_)) if is_there => {}
                ("base-iface" | "id", None) => {}
                ("protocol", None) if part == "802.1q" => {}
                ("base-iface" | "id", Some(there)) => {
                    let now = short(&there["vlan"][key.as_str()]);
                    self.refuse(
                        path,
                        format!("cannot become {} without NetworkManager, and is {now}: make the VLAN absent first, then create it again", short(part)),
                    );
                }
                _ => self.refuse(
                    path,
                    format!("cannot be set to {} without NetworkManager: leave it out, or {NEEDS_NETWORK_MANAGER}", short(part)),
                ),
            }
        }
    }

    fn route(&mut self, wanted: &Value) {
        let path = Path::default()
            .key("routes")
            .key("config")
            .item(&route::key(wanted));
        for (key, part) in wanted.as_object().into_iter().flatten() {
            if !part.is_null() && !OF_ROUTE.contains(&key.as_str()) {
                self.refuse(
                    path.key(key),
                    format!("cannot be set to {} without NetworkManager, which takes {}: leave it out, or {NEEDS_NETWORK_MANAGER}", short(part), OF_ROUTE.join(", ")),
                );
            }
        }
        let table = wanted["table-id"]
            .as_u64()
            .or_else(|| wanted["table-id"].as_str()?.parse().ok());
        if let Some(table) = table.filter(|table| *table > LAST_TABLE) {
            self.refuse(
                path.key("table-id"),
                format!(
                    "must be at most {LAST_TABLE} without NetworkManager, not {table}: use a table up to {LAST_TABLE}"
                ),
            );
        }
    }
}

/// Reports whether the host has this part of an interface already.
fn is_so(wanted: &Value, key: &str, value: &Value, host: &Index) -> bool {
    let only = json!({"interfaces": [{
        "name": wanted["name"], "type": wanted["type"], key: value
    }]});
    differences_from(&only, host).is_empty()
}

/// Reports whether a port of a bridge has VLANs.
fn has_vlans(bridge: &Value) -> bool {
    ["port", "ports"]
        .into_iter()
        .flat_map(|key| entries(&bridge["bridge"][key]))
        .any(|port| port["vlan"]["mode"].is_string())
}

/// Reports whether an object has no other key than this one.
fn is_only(value: &Value, key: &str) -> bool {
    value.as_object().is_some_and(|parts| {
        parts
            .iter()
            .all(|(other, part)| other == key || part.is_null())
    })
}

/// Reports whether a value, or each part of it, is a default of the kernel.
fn is_default(value: &Value, default: &Value) -> bool {
    match (value, default) {
        (Value::Object(parts), Value::Object(_)) => parts
            .iter()
            .all(|(key, part)| part.is_null() || is_default(part, &default[key.as_str()])),
        (_, Value::Array(choice)) => choice.iter().any(|default| same(value, default)),
        _ => !default.is_null() && same(value, default),
    }
}

/// The options of a new bridge, as nmstate reports them (Linux 6.18, `br_dev_setup`). An array has
/// the values of kernels with different clocks.
fn default_options() -> Value {
    json!({
        "stp": {
            "enabled": false, "forward-delay": 15, "hello-time": 2, "max-age": 20,
            "priority": 32768
        },
        "group-addr": "01:80:C2:00:00:00",
        "group-forward-mask": 0,
        "group-fwd-mask": 0,
        "hash-max": 4096,
        "mac-ageing-time": 300,
        "multicast-last-member-count": 2,
        "multicast-last-member-interval": 100,
        "multicast-membership-interval": 26000,
        "multicast-querier": false,
        "multicast-querier-interval": 25500,
        "multicast-query-interval": 12500,
        "multicast-query-response-interval": 1000,
        "multicast-query-use-ifaddr": false,
        "multicast-router": "auto",
        "multicast-snooping": true,
        "multicast-startup-query-count": 2,
        "multicast-startup-query-interval": [3124, 3125],
        "vlan-default-pvid": 1,
        "vlan-protocol": "802.1q"
    })
}

/// The options of a new port.
fn default_port() -> Value {
    json!({"stp-hairpin-mode": false, "stp-priority": 32})
}

/// A value for a message, cut where it is long.
fn short(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Value {
        json!({"interfaces": [
            {
                "name": "eth1", "type": "ethernet", "state": "up", "mtu": 1500,
                "mac-address": "02:00:00:00:00:11",
                "ipv4": {"enabled": true, "dhcp": true}, "ipv6": {"enabled": true}
            },
            {"name": "eth2", "type": "veth", "state": "up", "ipv6": {"enabled": false}},
            {"name": "eth3", "type": "ethernet", "state": "up", "controller": "bond1"},
            {"name": "bond1", "type": "bond", "state": "up"},
            {
                "name": "br0", "type": "linux-bridge", "state": "up",
                "mac-address": "02:00:00:00:00:04",
                "bridge": {
                    "options": {"mac-ageing-time": 100, "stp": {"enabled": true}},
                    "port": [{"name": "eth4", "stp-path-cost": 7}]
                }
            },
            {
                "name": "eth4", "type": "ethernet", "state": "up", "controller": "br0",
                "mac-address": "02:00:00:00:00:04"
            },
            {
                "name": "br0.7", "type": "vlan", "state": "up",
                "vlan": {"base-iface": "br0", "id": 7}
            },
        ]})
    }

    fn said(state: &Value) -> Vec<String> {
        refusals(state, &host())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn interface(interface: &Value) -> Value {
        json!({ "interfaces": [interface] })
    }

    #[test]
    fn each_state_outside_of_the_subset_is_refused_at_its_place() {
        let eth1 = |key: &str, value: Value| {
            interface(&json!({"name": "eth1", "type": "ethernet", "state": "up", key: value}))
        };
        let bridge = |bridge: Value| {
            let new =
                json!({"name": "br1", "type": "linux-bridge", "state": "up", "bridge": bridge});
            interface(&new)
        };
        let kind =
            |name: &str, kind: &str| interface(&json!({"name": name, "type": kind, "state": "up"}));
        let absent = |name: &str, kind: &str| {
            interface(&json!({"name": name, "type": kind, "state": "absent"}))
        };
        let route = |key: &str, value: Value| {
            json!({"routes": {"config": [{
                "destination": "192.0.2.0/24", "next-hop-interface": "eth1", key: value
            }]}})
        };
        let vlan = |mtu: u64, vlan: Value| {
            interface(&json!({
                "name": "eth1.5", "type": "vlan", "state": "up", "mtu": mtu, "vlan": vlan
            }))
        };
        for (state, place) in [
            (json!({"dns-resolver": {"config": {}}}), "dns-resolver"),
            (json!({"hostname": {"running": "a"}}), "hostname"),
            (
                json!({"route-rules": {"config": [{"priority": 7}]}}),
                "route-rules",
            ),
            (json!({"ovs-db": {"external_ids": {"a": "b"}}}), "ovs-db"),
            (
                eth1("description", "uplink".into()),
                "interfaces[eth1].description",
            ),
            (kind("bond0", "bond"), "interfaces[bond0].type"),
            (kind("bond1", "bond"), "interfaces[bond1].type"),
            (kind("d0", "dummy"), "interfaces[d0].type"),
            (kind("v0", "veth"), "interfaces[v0].type"),
            (kind("ovs0", "ovs-interface"), "interfaces[ovs0].type"),
            (absent("eth1", "ethernet"), "interfaces[eth1].state"),
            (absent("bond1", "bond"), "interfaces[bond1].state"),
            // The VLAN on it would go with it.
            (absent("br0", "linux-bridge"), "interfaces[br0].state"),
            (
                eth1(
                    "ipv4",
                    json!({"enabled": true, "dhcp": true, "dhcp-client-id": "ll"}),
                ),
                "interfaces[eth1].ipv4.dhcp-client-id",
            ),
            (
                eth1("ipv6", json!({"enabled": true, "autoconf": true})),
                "interfaces[eth1].ipv6.autoconf",
            ),
            (
                eth1("ipv6", json!({"enabled": false})),
                "interfaces[eth1].ipv6.enabled",
            ),
            (
                eth1("ipv4", json!({"enabled": true})),
                "interfaces[eth1].ipv4.enabled",
            ),
            (
                eth1(
                    "ipv4",
                    json!({"enabled": true, "forwarding": true, "address": [{"ip": "192.0.2.1", "prefix-length": 24}]}),
                ),
                "interfaces[eth1].ipv4.forwarding",
            ),
            (
                eth1(
                    "ipv4",
                    json!({"enabled": true, "address": [{"ip": "192.0.2.1", "prefix-length": 24, "mptcp-flags": ["subflow"]}]}),
                ),
                "interfaces[eth1].ipv4.address[192.0.2.1].mptcp-flags",
            ),
            (
                eth1("mac-address", json!("02:00:00:00:00:01")),
                "interfaces[eth1].mac-address",
            ),
            (
                eth1("ethtool", json!({"feature": {"rx-gro": true}})),
                "interfaces[eth1].ethtool",
            ),
            (
                eth1("ethernet", json!({"sr-iov": {"total-vfs": 2}})),
                "interfaces[eth1].ethernet",
            ),
            (
                eth1("lldp", json!({"enabled": true})),
                "interfaces[eth1].lldp",
            ),
            (
                eth1("accept-all-mac-addresses", json!(true)),
                "interfaces[eth1].accept-all-mac-addresses",
            ),
            (
                eth1("controller", json!("bond1")),
                "interfaces[eth1].controller",
            ),
            (
                interface(&json!({
                    "name": "br0", "type": "linux-bridge", "copy-mac-from": "eth1"
                })),
                "interfaces[br0].copy-mac-from",
            ),
            (
                bridge(json!({"port": [{"name": "eth3"}]})),
                "interfaces[br1].bridge.port[eth3]",
            ),
            (
                bridge(json!({"options": {"stp": {"enabled": true}}})),
                "interfaces[br1].bridge.options.stp",
            ),
            (
                bridge(json!({"options": {"mac-ageing-time": 20}})),
                "interfaces[br1].bridge.options.mac-ageing-time",
            ),
            (
                bridge(json!({"port": [{"name": "eth1", "vlan": {"mode": "trunk"}}]})),
                "interfaces[br1].bridge.port[eth1].vlan",
            ),
            (
                bridge(json!({"port": [{"name": "eth1", "stp-priority": 3}]})),
                "interfaces[br1].bridge.port[eth1].stp-priority",
            ),
            (
                vlan(
                    1500,
                    json!({"base-iface": "eth1", "id": 5, "protocol": "802.1ad"}),
                ),
                "interfaces[eth1.5].vlan.protocol",
            ),
            (
                interface(
                    &json!({"name": "br0.7", "type": "vlan", "vlan": {"base-iface": "br0", "id": 8}}),
                ),
                "interfaces[br0.7].vlan.id",
            ),
            (
                route("weight", json!(2)),
                "routes.config[192.0.2.0/24 dev eth1 weight 2].weight",
            ),
            (
                route("mtu", json!(1400)),
                "routes.config[192.0.2.0/24 dev eth1].mtu",
            ),
            (
                route("table-id", json!(255)),
                "routes.config[192.0.2.0/24 dev eth1 table 255].table-id",
            ),
        ] {
            let said = said(&state);
            assert!(
                said.len() == 1 && said[0].starts_with(&format!("{place}: ")),
                "{place}: {said:?}"
            );
        }
    }

    #[test]
    fn the_subset_and_properties_that_the_host_has_are_taken() {
        let static_address = json!({
            "enabled": true, "dhcp": false, "address": [{"ip": "192.0.2.1", "prefix-length": 24}]
        });
        for state in [
            interface(&json!({
                "name": "br1", "type": "linux-bridge", "state": "up", "mtu": 1400,
                "ipv4": static_address,
                "bridge": {
                    "options": {"stp": {"enabled": false}},
                    "port": [{"name": "eth1", "vlan": {}}, {"name": "eth2"}]
                }
            })),
            json!({"interfaces": [
                {"name": "eth1", "type": "ethernet", "state": "up", "mtu": 9000},
                {
                    "name": "eth1.5", "type": "vlan", "state": "up", "mtu": 9000,
                    "vlan": {"base-iface": "eth1", "id": 5}
                },
                {"name": "br0", "type": "linux-bridge", "state": "absent"},
                {"name": "br0.7", "type": "vlan", "state": "absent"},
            ]}),
            json!({"routes": {"config": [{
                "destination": "0.0.0.0/0", "next-hop-interface": "eth1",
                "next-hop-address": "192.0.2.254", "metric": 7, "table-id": 254
            }]}}),
            interface(&json!({"name": "eth1", "type": "ethernet", "state": "down"})),
            interface(&json!({"name": "eth1", "ipv4": {"enabled": false}, "mtu": 1400})),
            interface(&json!({"name": "eth2", "type": "ethernet", "ipv6": {"enabled": false}})),
            interface(&json!({"name": "eth1", "ipv4": {
                "enabled": true, "dhcp": true,
                "address": [{"ip": "192.0.2.1", "prefix-length": 24, "valid-life-time": "9sec"}]
            }})),
            interface(&json!({
                "name": "br0", "type": "linux-bridge", "bridge": {
                    "options": {"mac-ageing-time": 100, "stp": {"enabled": true}},
                    "port": [{"name": "eth4", "stp-path-cost": 7}]
                }
            })),
            interface(&json!({"name": "eth4", "controller": ""})),
            interface(&json!({
                "name": "br2", "type": "linux-bridge", "state": "up", "copy-mac-from": "eth1",
                "bridge": {"port": [{"name": "eth1", "vlan": {}}]}
            })),
            interface(&json!({
                "name": "br0", "type": "linux-bridge", "copy-mac-from": "eth4"
            })),
            interface(&json!({"name": "bond7", "type": "bond", "state": "absent"})),
        ] {
            assert_eq!(said(&state), [""; 0], "{state}");
        }
    }

    #[test]
    fn a_way_back_asks_no_client_for_addresses() {
        let stack = |addresses: Value| {
            json!({
                "enabled": true, "dhcp": true, "auto-dns": true, "address": addresses
            })
        };
        let leased = json!({"ip": "192.0.2.1", "prefix-length": 24, "valid-life-time": "9sec"});
        let fixed = json!({"ip": "192.0.2.2", "prefix-length": 24});
        let card = |name: &str, addresses: Value| json!({"name": name, "type": "ethernet", "state": "up", "ipv4": stack(addresses)});
        let back = json!({"interfaces": [
            card("eth2", json!([leased])),
            card("eth4", json!([leased, fixed])),
            // Its client is there.
            card("eth1", json!([leased])),
        ]});
        let back = way_back(back, &host());
        let expected = json!([
            {"name": "eth2", "type": "ethernet", "state": "up"},
            {
                "name": "eth4", "type": "ethernet", "state": "up",
                "ipv4": {"enabled": true, "address": [fixed]}
            },
            card("eth1", json!([leased])),
        ]);
        assert_eq!(back["interfaces"], expected);
    }

    #[test]
    fn a_way_back_names_no_port_of_a_pod() {
        let mut host = host();
        let veth = |name: &str| json!({"name": name, "type": "veth", "state": "up"});
        let tap = json!({"name": "tap0", "type": "tun", "state": "up"});
        let more = [veth("veth12ab"), veth("eth9"), tap];
        host["interfaces"].as_array_mut().unwrap().extend(more);
        let bridge = |ports: Value| {
            let port = json!({"name": "br0", "type": "linux-bridge", "bridge": {"port": ports}});
            interface(&port)
        };
        let all = json!([
            {"name": "veth12ab"}, {"name": "eth9"}, {"name": "tap0"}, {"name": "eth4"}
        ]);
        let left = json!([{"name": "eth9"}, {"name": "tap0"}, {"name": "eth4"}]);
        assert_eq!(way_back(bridge(all), &host), bridge(left));
        // nmstate takes the port for one that a change has detached.
        let mut attached = interface(&veth("veth12ab"));
        attached["interfaces"][0]["controller"] = "br0".into();
        assert_eq!(way_back(attached, &host), interface(&veth("veth12ab")));
        // The pod has gone meanwhile.
        let gone = json!([{"name": "veth99zz"}, {"name": "eth4"}]);
        let left = json!([{"name": "eth4"}]);
        assert_eq!(way_back(bridge(gone), &host), bridge(left));
        let none = way_back(interface(&veth("veth99zz")), &host);
        assert_eq!(none, json!({"interfaces": []}));
    }
}
