//! Finds the parts of a desired state that a node lacks.
//!
//! Only what is wanted is looked for, as nmstate does when it verifies a change: so right after a
//! change that succeeded there is no difference. An omitted value may be anything. Addresses of
//! others, such as floating ones, stay unless the policy wants `allow-extra-address: false`. Ports
//! of pods stay, too.

use crate::{
    bridge::TIMERS,
    canonical::{canonical, same, same_order},
    form,
    index::Index,
    link::is_card,
    path::{Path, Step, entries, interfaces, text},
    ports::may_be_a_pods,
    references::Names,
    resolve::named,
    route,
    secrets::HIDDEN,
    vlan,
};
use serde_json::Value;
use std::{
    collections::{HashMap, HashSet},
    fmt,
};

/// Sections of `ovs-db`.
pub(crate) const OVS_SECTIONS: [&str; 2] = ["external_ids", "other_config"];

/// A place where the node is not as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The place.
    pub path: Path,
    /// The wanted value. Null if nothing should exist.
    pub wanted: Value,
    /// The live value. Null if nothing exists.
    pub found: Value,
}

impl Difference {
    /// The difference as people see it: with a mask in place of each secret. A password that is
    /// another one has twice the same mask.
    #[must_use]
    pub fn shown(&self) -> Self {
        Self {
            path: self.path.clone(),
            wanted: self.path.shown(&self.wanted),
            found: self.path.shown(&self.found),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.shown();
        match (&shown.wanted, &shown.found) {
            (Value::Null, found) => write!(f, "{}: {found} should not be there", self.path),
            (wanted, Value::Null) => write!(f, "{}: {wanted} is missing", self.path),
            (wanted, found) => write!(f, "{}: {found} should be {wanted}", self.path),
        }
    }
}

/// Properties that say how an interface is found or made, and that no host reports.
const NOT_REPORTED: [&str; 11] = [
    "identifier",
    "copy-mac-from",
    "controller",
    "permanent-mac-address",
    "driver",
    "min-mtu",
    "max-mtu",
    "dispatch",
    "allow-extra-address",
    "allow-extra-ports",
    "allow-extra-patch-ports",
];

/// Reports whether a property says nothing about the host: it is not reported, or runs by itself.
fn is_ignored(key: &str) -> bool {
    NOT_REPORTED.contains(&key) || TIMERS.contains(&key)
}

/// Properties whose value by default is true. A host that says nothing of them has that.
const TRUE_BY_DEFAULT: [&str; 5] = [
    "auto-dns",
    "auto-gateway",
    "auto-routes",
    "dhcp-send-hostname",
    "enable-native",
];

/// Where `current` is not as `desired` wants it. Both are states in nmstate's form. `current` may
/// be a report with additions.
pub fn differences(desired: &Value, current: &Value) -> Vec<Difference> {
    compared(desired, current, differences_from)
}

/// Reports whether a state has a route. A property that `route` leaves out may be anything. Both are
/// as nmstate writes them.
pub fn has_route(state: &Value, route: &Value) -> bool {
    let [routes, _] = route::LISTS;
    entries(&state["routes"]["config"])
        .iter()
        .any(|found| (routes.matches)(route, found))
}

/// Compares two states in one form and with the names of the host. The places have the names of the
/// desired state.
pub(crate) fn compared(
    desired: &Value,
    current: &Value,
    compare: impl Fn(&Value, &Index) -> Vec<Difference>,
) -> Vec<Difference> {
    let current = form::of_host(current);
    let host = Index::of(&current);
    let mut desired = form::of_desired(desired, &host);
    let names = Names::of(&desired, &host);
    names.rename(&mut desired);
    let mut found = compare(&desired, &host);
    for difference in &mut found {
        names.restore(&mut difference.path);
    }
    found
}

/// Like [`differences`], of two states in [one form](form).
pub(crate) fn differences_from(desired: &Value, host: &Index) -> Vec<Difference> {
    let mut found = Vec::new();
    interface_differences(desired, host, &mut found);
    let current = host.state;
    for list in route::LISTS {
        entry_differences(list, desired, current, &mut found);
    }
    dns(desired, current, &mut found);
    for section in ["hostname", "ovs-db"] {
        below(
            &Path::default().key(section),
            &desired[section],
            &current[section],
            &mut found,
        );
    }
    mappings(desired, current, &mut found);
    found
}

fn interface_differences(desired: &Value, host: &Index, found: &mut Vec<Difference>) {
    for wanted in interfaces(desired) {
        let path = Path::of_interface(wanted);
        let there = host.meant(wanted);
        match (wanted["state"].as_str().unwrap_or("up"), there) {
            ("absent", Some(there)) if !is_card(wanted, there) && there["state"] != "ignore" => {
                found.push(Difference {
                    path,
                    wanted: Value::Null,
                    found: there["type"].clone(),
                });
            }
            ("down", Some(there)) if !is_card(wanted, there) && there["state"] == "up" => {
                found.push(Difference {
                    path: path.key("state"),
                    wanted: "down".into(),
                    found: there["state"].clone(),
                });
            }
            ("up", None) => {
                let kind = if wanted["type"].is_null() {
                    Value::String("an interface".to_owned())
                } else {
                    wanted["type"].clone()
                };
                found.push(Difference {
                    path,
                    wanted: kind,
                    found: Value::Null,
                });
            }
            ("up", Some(there)) => interface(&path, wanted, there, host, found),
            _ => {}
        }
    }
}

fn interface(
    path: &Path,
    wanted: &Value,
    there: &Value,
    host: &Index,
    found: &mut Vec<Difference>,
) {
    for (key, value) in wanted.as_object().into_iter().flatten() {
        let path = path.key(key);
        let is = &there[key.as_str()];
        match key.as_str() {
            "name" => {}
            // nmstate takes one end of a veth pair for an Ethernet interface, and any for the
            // unknown.
            "type" if value == "unknown" || (value == "ethernet" && is == "veth") => {}
            "profile-name" if value == &wanted["name"] || is.is_null() => {}
            // Where NetworkManager does not run, no description is kept. The wait for addresses is
            // only known to it too.
            "description" | "wait-ip" if is.is_null() => {}
            key if is_ignored(key) => {}
            "ipv4" | "ipv6" => addresses(&path, value, is, found),
            "bridge" => bridge(&path, value, is, host, found),
            "link-aggregation" | "vrf" => ports_as_set(&path, value, is, found),
            "alt-names" => alternatives(&path, value, is, found),
            "ethtool" => ethtool(&path, value, is, found),
            _ => below(&path, value, is, found),
        }
    }
}

/// Objects key by key. Lists as sets.
fn below(path: &Path, wanted: &Value, is: &Value, found: &mut Vec<Difference>) {
    match wanted {
        Value::Object(map)
            if is.is_object()
                || map.is_empty()
                || map.values().all(|value| !value.is_null()) && !is.is_null() =>
        {
            for (key, value) in map.iter().filter(|(key, _)| !is_ignored(key)) {
                below(&path.key(key), value, &is[key.as_str()], found);
            }
        }
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| below(&path.key(key), value, &Value::Null, found)),
        wanted if agrees(path, wanted, is) => {}
        wanted => found.push(Difference {
            path: path.clone(),
            wanted: wanted.clone(),
            found: is.clone(),
        }),
    }
}

fn agrees(path: &Path, wanted: &Value, is: &Value) -> bool {
    let key = match path.0.last() {
        Some(crate::path::Step::Key(key)) => key.as_str(),
        _ => "",
    };
    // Null says nothing, except that a key of Open vSwitch must not be there.
    wanted.is_null() && (is.is_null() || !is_key_of_open_vswitch(path))
        || same(wanted, is)
        // A value is there.
        || is == HIDDEN && !wanted.is_null()
        || wanted == HIDDEN
        || (is.is_null() && (is_nothing(wanted) || (TRUE_BY_DEFAULT.contains(&key) && wanted == &Value::Bool(true))))
        // -1 is "as the backend likes".
        || (key.ends_with("-metric") && text(wanted) == "-1")
}

/// Reports whether a place is a key in a section of `ovs-db`, of the host or of an interface.
fn is_key_of_open_vswitch(path: &Path) -> bool {
    match path.0.as_slice() {
        [.., Step::Key(database), Step::Key(section), Step::Key(_)] => {
            database == "ovs-db" && OVS_SECTIONS.contains(&section.as_str())
        }
        _ => false,
    }
}

/// A value that a host leaves out of its report: off, empty, none.
fn is_nothing(value: &Value) -> bool {
    match canonical(value) {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::String(text) => text.is_empty() || text == "::",
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_nothing),
        _ => false,
    }
}

fn addresses(path: &Path, wanted: &Value, is: &Value, found: &mut Vec<Difference>) {
    let listed: Vec<&Value> = entries(&wanted["address"])
        .iter()
        .filter(|address| !is_automatic(address))
        .collect();
    let automatic = wanted["dhcp"] == true || wanted["autoconf"] == true;
    for (key, value) in wanted.as_object().into_iter().flatten() {
        let path = path.key(key);
        match key.as_str() {
            // nmstate drops what has no meaning: anything of a stack that is off, and the options
            // of DHCP and SLAAC without them.
            key if key != "enabled" && wanted["enabled"] == false => {}
            key if (key.starts_with("auto-") || key.starts_with("dhcp-")) && !automatic => {}
            "address" => {
                let there = entries(&is["address"]);
                for address in listed
                    .iter()
                    .filter(|address| !there.iter().any(|other| is_same_address(other, address)))
                {
                    found.push(Difference {
                        path: path.item(&address_text(address)),
                        wanted: address_text(address).into(),
                        found: Value::Null,
                    });
                }
                let exact = wanted["allow-extra-address"] == false;
                for extra in there.iter().filter(|other| {
                    exact && !listed.iter().any(|address| is_same_address(address, other))
                }) {
                    if !is_automatic(extra) {
                        found.push(Difference {
                            path: path.item(&address_text(extra)),
                            wanted: Value::Null,
                            found: address_text(extra).into(),
                        });
                    }
                }
            }
            // Without addresses the stack may be on or off: it depends on the routes there.
            "enabled" if wanted["address"].as_array().is_some_and(Vec::is_empty) => {}
            key if is_ignored(key) => {}
            _ => below(&path, value, &is[key.as_str()], found),
        }
    }
}

/// The addresses that the kernel gives: the link-local one, and those of the loopback interface,
/// which nmstate never removes. Also those of DHCP and router advertisements, which have an end.
pub(crate) fn is_automatic(address: &Value) -> bool {
    let is_the_kernels = match text(&address["ip"]).as_str() {
        "127.0.0.1" | "::1" => true,
        ip => ip.starts_with("fe80:"),
    };
    is_the_kernels || !address["valid-life-time"].is_null()
}

/// Reports whether a list of addresses says for how long those of a client are valid. A report does
/// not.
pub(crate) fn says_leases(addresses: &[Value]) -> bool {
    let mut addresses = addresses.iter();
    addresses.any(|address| !address["valid-life-time"].is_null())
}

/// Reports whether two entries are one address, however they are written.
pub(crate) fn is_same_address(one: &Value, other: &Value) -> bool {
    ["ip", "prefix-length"]
        .into_iter()
        .all(|key| canonical(&one[key]) == canonical(&other[key]))
}

pub(crate) fn address_text(address: &Value) -> String {
    format!(
        "{}/{}",
        text(&address["ip"]),
        text(&address["prefix-length"])
    )
}

fn ports_as_set(path: &Path, wanted: &Value, is: &Value, found: &mut Vec<Difference>) {
    for (key, value) in wanted.as_object().into_iter().flatten() {
        match key.as_str() {
            // An option that the kernel does not report for this mode of bond cannot be compared.
            "options" => {
                let options = value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(name, _)| !is["options"][name.as_str()].is_null());
                options.for_each(|(name, option)| {
                    below(
                        &path.key("options").key(name),
                        option,
                        &is["options"][name.as_str()],
                        found,
                    )
                });
            }
            "port" | "ports" => {
                let there = if is["port"].is_null() {
                    &is["ports"]
                } else {
                    &is["port"]
                };
                below(&path.key("port"), value, there, found);
            }
            "ports-config" => {
                for port in entries(value) {
                    let there = named(entries(&is["ports-config"]), "name", &port["name"])
                        .unwrap_or(&Value::Null);
                    below(
                        &path.key("ports-config").item(&text(&port["name"])),
                        port,
                        there,
                        found,
                    );
                }
            }
            _ => below(&path.key(key), value, &is[key.as_str()], found),
        }
    }
}

fn bridge(path: &Path, wanted: &Value, is: &Value, host: &Index, found: &mut Vec<Difference>) {
    let keys = wanted.as_object().into_iter().flatten();
    for (key, value) in keys.filter(|(key, _)| !is_ignored(key)) {
        if key != "port" && key != "ports" {
            below(&path.key(key), value, &is[key.as_str()], found);
            continue;
        }
        let path = path.key("port");
        let there = if is["port"].is_null() {
            entries(&is["ports"])
        } else {
            entries(&is["port"])
        };
        let mut by_name: HashMap<Option<&str>, &Value> = HashMap::new();
        for port in there {
            by_name.entry(port["name"].as_str()).or_insert(port);
        }
        for port in entries(value) {
            let path = path.item(&text(&port["name"]));
            let Some(other) = by_name.get(&port["name"].as_str()) else {
                found.push(Difference {
                    path,
                    wanted: "a port".into(),
                    found: Value::Null,
                });
                continue;
            };
            for (key, value) in port.as_object().into_iter().flatten() {
                match key.as_str() {
                    "vlan" if vlan::same(value, &other["vlan"]) => {}
                    "vlan" => found.push(Difference {
                        path: path.key("vlan"),
                        wanted: value.clone(),
                        found: other["vlan"].clone(),
                    }),
                    "link-aggregation" => {
                        ports_as_set(&path.key(key), value, &other[key.as_str()], found)
                    }
                    _ => below(&path.key(key), value, &other[key.as_str()], found),
                }
            }
        }
        let keeps = |name| leaves(wanted, name, host);
        let wanted: HashSet<Option<&str>> = entries(value)
            .iter()
            .map(|port| port["name"].as_str())
            .collect();
        for extra in there.iter().filter(|port| {
            let name = port["name"].as_str();
            !wanted.contains(&name) && !keeps(name) && !may_be_a_pods(name, host)
        }) {
            let name = text(&extra["name"]);
            found.push(Difference {
                path: path.item(&name),
                wanted: Value::Null,
                found: "a port".into(),
            });
        }
    }
}

/// Reports whether a bridge leaves a port alone that it does not list. `bridge` is its section with
/// the ports.
pub(crate) fn leaves(bridge: &Value, port: Option<&str>, host: &Index) -> bool {
    let is_patch = || {
        let port = port.and_then(|port| host.key(port));
        port.is_some_and(|port| port["patch"].is_object())
    };
    bridge["allow-extra-ports"] == true || bridge["allow-extra-patch-ports"] == true && is_patch()
}

/// A feature that the host does not list is none that is off: the card does not have it, or does not
/// let anybody change it.
fn ethtool(path: &Path, wanted: &Value, is: &Value, found: &mut Vec<Difference>) {
    for (key, value) in wanted.as_object().into_iter().flatten() {
        let (path, is) = (path.key(key), &is[key.as_str()]);
        match value.as_object().filter(|_| key == "feature") {
            Some(features) => {
                let differ = features
                    .iter()
                    .filter(|(name, value)| !same(value, &is[name.as_str()]));
                found.extend(differ.map(|(name, value)| Difference {
                    path: path.key(name),
                    wanted: value.clone(),
                    found: is[name.as_str()].clone(),
                }));
            }
            None => below(&path, value, is, found),
        }
    }
}

/// Alternative names are added and removed one by one.
fn alternatives(path: &Path, wanted: &Value, is: &Value, found: &mut Vec<Difference>) {
    for name in entries(wanted) {
        let there = named(entries(is), "name", &name["name"]).is_some();
        let path = path.item(&text(&name["name"]));
        match route::is_absent(name) {
            true if there => found.push(Difference {
                path,
                wanted: Value::Null,
                found: name["name"].clone(),
            }),
            false if !there => found.push(Difference {
                path,
                wanted: name["name"].clone(),
                found: Value::Null,
            }),
            _ => {}
        }
    }
}

fn entry_differences(
    list: route::List,
    desired: &Value,
    current: &Value,
    found: &mut Vec<Difference>,
) {
    let route::List { section, key, .. } = list;
    let wanted = route::Entries::of(list, desired);
    let there = route::Entries::of(list, current);
    for entry in entries(&desired[section]["config"]) {
        let path = Path::default().key(section).key("config").item(&key(entry));
        if route::is_absent(entry) {
            // An object that is removed and wanted again exists.
            let removed = there.described_by(entry).into_iter();
            for left in removed.filter(|other| !wanted.want(other)) {
                let path = Path::default().key(section).key("config").item(&key(left));
                found.push(Difference {
                    path,
                    wanted: Value::Null,
                    found: left.clone(),
                });
            }
        } else if entry["state"] != "ignore" && there.described_by(entry).is_empty() {
            found.push(Difference {
                path,
                wanted: entry.clone(),
                found: Value::Null,
            });
        }
    }
}

fn dns(desired: &Value, current: &Value, found: &mut Vec<Difference>) {
    for key in ["server", "search", "options"] {
        let wanted = &desired["dns-resolver"]["config"][key];
        let is = &current["dns-resolver"]["config"][key];
        let agree =
            wanted.is_null() || same_order(wanted, is) || (is_nothing(wanted) && is_nothing(is));
        if !agree {
            let path = Path::default().key("dns-resolver").key("config").key(key);
            found.push(Difference {
                path,
                wanted: wanted.clone(),
                found: is.clone(),
            });
        }
    }
}

fn mappings(desired: &Value, current: &Value, found: &mut Vec<Difference>) {
    let there = entries(&current["ovn"]["bridge-mappings"]);
    for mapping in entries(&desired["ovn"]["bridge-mappings"]) {
        let path = Path::default()
            .key("ovn")
            .key("bridge-mappings")
            .item(&text(&mapping["localnet"]));
        let is = named(there, "localnet", &mapping["localnet"]);
        match (route::is_absent(mapping), is) {
            (true, Some(is)) => found.push(Difference {
                path,
                wanted: Value::Null,
                found: is["bridge"].clone(),
            }),
            (false, is) if is.is_none_or(|is| is["bridge"] != mapping["bridge"]) => {
                let is = is.map(|is| is["bridge"].clone()).unwrap_or_default();
                found.push(Difference {
                    path: path.key("bridge"),
                    wanted: mapping["bridge"].clone(),
                    found: is,
                });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "drift_tests.rs"]
mod tests;
