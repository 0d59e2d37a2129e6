//! Refusals on a host that is like this, by nmstate, NetworkManager or the kernel: interfaces that
//! cannot be made, ports that are not there or have two controllers, a new bond without a mode,
//! another type, an MTU that the interface or its base does not take. Also what Weft itself refuses
//! on every host: scripts.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    contradictions, dispatch,
    index::Index,
    link::{Address, base, is_virtual},
    listed_ports::ports,
    path::{Path, interfaces, text},
    ranges::LONGEST_NAME,
    resolve::{Resolved, identifier},
    state_error::StateError,
};

/// [`refusals`] in one message. None if there are none.
pub fn refusal(desired: &Value, current: &Value) -> Option<String> {
    let refusals = refusals(desired, &Index::of(current));
    let words: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    (!words.is_empty()).then(|| format!("this host would refuse it: {}", words.join("; ")))
}

/// Where a host like this one does not take `desired`. Both are states in nmstate's form, that of
/// the host with all of its interfaces.
pub(crate) fn refusals(desired: &Value, host: &Index) -> Vec<StateError> {
    let mut found = Vec::new();
    // nmstate finds a virtual function by such a name, and by its own once the same state has made
    // it.
    let makes_functions = interfaces(desired)
        .iter()
        .any(|interface| !interface["ethernet"]["sr-iov"]["total-vfs"].is_null());
    let is_function = |name: &str| makes_functions || name.starts_with("sriov:");
    // The same state makes the other end of a veth pair. nmstate also finds a port by its profile
    // or by an alternative name.
    let peers: HashSet<&str> = interfaces(desired)
        .iter()
        .filter_map(|interface| interface["veth"]["peer"].as_str())
        .collect();
    let is_peer = |name: &str| peers.contains(name);
    let is_there = |name: &str| host.any_name(name).is_some();
    let all_wanted = Index::of(desired);
    for wanted in interfaces(desired) {
        let path = Path::of_interface(wanted);
        let mut refuse =
            |path: Path, message: String| found.push(StateError::Invalid { path, message });
        let kind = text(&wanted["type"]);
        let there = match host.resolve(wanted) {
            Resolved::One(there) => Some(there),
            Resolved::New => None,
            found @ (Resolved::Nobody | Resolved::Several(_)) => {
                let by = identifier(wanted).unwrap_or("name");
                refuse(path.key(by), unresolved(wanted, by, &found));
                continue;
            }
        };
        if let Some(event) = dispatch::new_script(wanted, there) {
            refuse(
                path.key("dispatch").key(event),
                "is a script that NetworkManager would run as root, and Weft writes no programs to hosts: remove it from the state, and put \
                 the script on the host by the means that you manage hosts with"
                    .to_owned(),
            );
        }
        if let Some(message) = other_type(wanted, there) {
            refuse(path.key("type"), message);
            continue;
        }
        if let Some(message) = lost_to_profile(wanted, there) {
            refuse(path.key("profile-name"), message);
            continue;
        }
        if matches!(wanted["state"].as_str(), Some("absent" | "down" | "ignore")) {
            continue;
        }
        for feature in missing_features(wanted, there) {
            refuse(
                path.key("ethtool").key("feature").key(feature),
                format!(
                    "{} has no feature {feature} that can be changed",
                    text(&there.unwrap_or(wanted)["name"])
                ),
            );
        }
        let can_come = is_virtual(wanted)
            || wanted["veth"].is_object()
            || wanted["infiniband"].is_object()
            || is_function(&text(&wanted["name"]))
            || is_peer(&text(&wanted["name"]));
        match there {
            None if !can_come => {
                refuse(
                    path,
                    format!(
                        "there is no such interface, and one of type {} cannot be made",
                        if kind.is_empty() { "ethernet" } else { &kind }
                    ),
                );
                continue;
            }
            None if kind == "bond" && wanted["link-aggregation"]["mode"].is_null() => {
                refuse(
                    path.key("link-aggregation").key("mode"),
                    "is missing, and a new bond needs it".to_owned(),
                );
            }
            Some(there) => {
                let limit = |key: &str| there[key].as_u64();
                if let Some(mtu) = mtu(wanted).filter(|mtu| {
                    limit("max-mtu").is_some_and(|most| *mtu > most)
                        || limit("min-mtu").is_some_and(|least| *mtu < least)
                }) {
                    let (least, most) = (
                        limit("min-mtu").unwrap_or_default(),
                        limit("max-mtu").unwrap_or_default(),
                    );
                    refuse(
                        path.key("mtu"),
                        format!("must be {least} to {most} for this interface, not {mtu}"),
                    );
                }
                if let Some(message) = waits_in_vain(wanted, there) {
                    refuse(path.key("wait-ip"), message);
                }
                if wanted["type"] == "loopback"
                    && wanted["ipv6"]["enabled"] == false
                    && there["ipv6"]["enabled"] != false
                {
                    refuse(
                        path.key("ipv6").key("enabled"),
                        "must be true for the loopback interface".to_owned(),
                    );
                }
            }
            _ => {}
        }
        if let Some((section, base)) = base(wanted).or_else(|| base(there?)) {
            let is_wanted = !wanted[section]["base-iface"].is_null();
            let (by_state, by_host) = (all_wanted.any_name(&base), host.any_name(&base));
            if is_wanted && by_state.or(by_host).is_none() && !is_function(&base) && !is_peer(&base)
            {
                refuse(
                    path.key(section).key("base-iface"),
                    format!("there is no interface {base}, and none is wanted"),
                );
            } else if LOWER_THAN_BASE.contains(&section)
                && let Some(wish) = mtu(wanted)
                && let Some(limit) = by_state.and_then(mtu).or_else(|| by_host.and_then(mtu))
                && wish > limit
            {
                refuse(
                    path.key("mtu"),
                    format!(
                        "must be at most the MTU of its base {base}, {limit}, not {wish}: raise the MTU of {base} in the same state"
                    ),
                );
            }
        }
        for (place, port) in ports(&path, wanted) {
            let is_wanted = all_wanted
                .any_name(&port)
                .is_some_and(|interface| interface["state"] != "absent");
            // Open vSwitch makes the internal port of a bridge with the bridge.
            if !is_wanted
                && kind != "ovs-bridge"
                && !is_function(&port)
                && !is_peer(&port)
                && !is_there(&port)
            {
                refuse(
                    place,
                    format!("there is no interface {port}, and none is wanted"),
                );
            } else if kind == "ovs-bridge"
                && port.chars().count() > LONGEST_NAME
                && !is_wanted
                && !is_there(&port)
            {
                refuse(
                    place,
                    format!(
                        "{port:?} has more than {LONGEST_NAME} characters, so NetworkManager cannot make it: if another program makes this port, leave it out and write allow-extra-patch-ports: true"
                    ),
                );
            }
        }
    }
    // Each policy alone may name the port once.
    found.extend(contradictions::shared_ports(desired));
    found.extend(contradictions::loops_of_bases(desired, Some(host)));
    found
}

/// Why the address of an entry leads to no interface.
fn unresolved(wanted: &Value, by: &str, found: &Resolved<'_>) -> String {
    let (address, kind) = (text(&wanted[by]), text(&wanted["type"]));
    let of_type = if kind.is_empty() {
        String::new()
    } else {
        format!(" of type {kind}")
    };
    match found {
        Resolved::Several(holders) => {
            let holders: Vec<_> = holders.iter().map(|one| text(&one["name"])).collect();
            format!(
                "{address} is the address of {}: say the type of the one that is meant, or its name instead of identifier",
                holders.join(" and ")
            )
        }
        _ => format!("no interface{of_type} of this host has the address {address}"),
    }
}

/// The features of a card that are wanted, and that it does not list. nmstate looks for them after
/// the change, and takes it back. None if it lists no feature at all.
fn missing_features<'a>(
    wanted: &'a Value,
    there: Option<&'a Value>,
) -> impl Iterator<Item = &'a String> {
    let listed = there.and_then(|there| there["ethtool"]["feature"].as_object());
    let listed = listed.filter(|features| !features.is_empty());
    let wanted = wanted["ethtool"]["feature"].as_object();
    let pairs = wanted.zip(listed).into_iter();
    pairs.flat_map(|(wanted, listed)| wanted.keys().filter(|name| !listed.contains_key(*name)))
}

/// Those whose MTU the kernel limits to that of the base.
const LOWER_THAN_BASE: [&str; 3] = ["vlan", "mac-vlan", "mac-vtap"];

/// The MTU that an interface has or is to have.
pub(crate) fn mtu(interface: &Value) -> Option<u64> {
    interface["mtu"]
        .as_u64()
        .or_else(|| interface["mtu"].as_str()?.parse().ok())
}

/// nmstate changes no type. It takes the two ends of a veth pair for Ethernet interfaces.
fn other_type(wanted: &Value, there: Option<&Value>) -> Option<String> {
    let of = |interface: &Value| match interface["type"].as_str() {
        Some("veth") => "ethernet".to_owned(),
        kind => kind.unwrap_or_default().to_owned(),
    };
    let (kind, is) = (of(wanted), of(there?));
    let is_by_name = matches!(wanted["identifier"].as_str(), None | Some("name"));
    let is_said = !matches!(kind.as_str(), "" | "unknown") && wanted["state"] != "ignore";
    (is_said && is_by_name && !is.is_empty() && kind != is).then(|| {
        format!(
            "cannot become {kind}: there is an interface of this name, of type {is}: remove it first, or choose another name"
        )
    })
}

/// nmstate drops an entry with both a place on the bus and a profile, unless its name is that of the
/// link: it files the entry by the name, and the link takes its place
/// (`Interfaces::resolve_pci_identifier`).
fn lost_to_profile(wanted: &Value, there: Option<&Value>) -> Option<String> {
    let (there, place) = (there?, |one: &Value| Address::pci(&one["pci-address"]));
    let is_by_place = identifier(wanted) == Some("pci-address") && place(wanted) == place(there);
    let link = text(&there["name"]);
    let is_lost = is_by_place && !wanted["profile-name"].is_null() && text(&wanted["name"]) != link;
    is_lost.then(|| {
        format!(
            "has no effect here, nmstate would drop the whole entry: remove profile-name, so that name is that of the profile, or set name to {link}, which is the name of the link"
        )
    })
}

/// nmstate refuses to wait for a family of addresses that the state does not enable on an interface
/// that is there.
fn waits_in_vain(wanted: &Value, there: &Value) -> Option<String> {
    let wait = text(&wanted["wait-ip"]);
    let is_enabled = |family: &str| {
        wanted[family].is_object()
            && match &wanted[family]["enabled"] {
                Value::Null => there[family]["enabled"] == true,
                enabled => *enabled == true,
            }
    };
    wait.split('+')
        .find(|family| matches!(*family, "ipv4" | "ipv6") && !is_enabled(family))
        .map(|family| format!("waits for {family}, which is not enabled: write {family}.enabled: true in the same state"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(desired: Value) -> Vec<String> {
        let current = json!({"interfaces": [
            {
                "name": "eth1", "type": "ethernet", "state": "up", "mtu": 1500, "min-mtu": 68,
                "max-mtu": 9000, "mac-address": "02:00:00:00:00:01",
                "ethtool": {"feature": {"rx-gro": true}}
            },
            {
                "name": "eth2", "type": "ethernet", "state": "up", "profile-name": "uplink",
                "alt-names": [{"name": "enp0s2"}]
            },
            {
                "name": "veth1", "type": "veth", "state": "up", "min-mtu": 68, "max-mtu": 65535,
                "mac-address": "02:00:00:00:00:02"
            },
            {
                "name": "veth2", "type": "veth", "state": "up", "mac-address": "02:00:00:00:00:02"
            },
            {"name": "lo", "type": "loopback", "state": "up", "ipv6": {"enabled": true}},
            {
                "name": "eth1.9", "type": "vlan", "state": "up",
                "vlan": {"base-iface": "eth1", "id": 9}
            },
            {
                "name": "bond1", "type": "bond", "state": "up",
                "link-aggregation": {"mode": "802.3ad"}
            },
        ]});
        refusals(&json!({ "interfaces": desired }), &Index::of(&current))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn bridge(name: &str, port: &str) -> Value {
        json!({
            "name": name, "type": "linux-bridge", "state": "up",
            "bridge": {"port": [{"name": port}]}
        })
    }

    fn vlan(name: &str, base: &str, mtu: u64) -> Value {
        json!({
            "name": name, "type": "vlan", "state": "up", "mtu": mtu,
            "vlan": {"base-iface": base, "id": 5}
        })
    }

    #[test]
    fn each_refusal_of_nmstate_is_known_before() {
        for (desired, expected) in [
            (
                json!([{"name": "eth7", "type": "ethernet", "state": "up"}]),
                "interfaces[eth7]: there is no such interface, and one of type ethernet cannot be made",
            ),
            (
                json!([{"name": "eth7", "mtu": 1500}]),
                "interfaces[eth7]: there is no such interface, and one of type ethernet cannot be made",
            ),
            (
                json!([bridge("br1", "eth7")]),
                "interfaces[br1].bridge.port[eth7]: there is no interface eth7, and none is wanted",
            ),
            (
                json!([{"name": "eth1", "dispatch": {"post-activation": "reboot"}}]),
                "interfaces[eth1].dispatch.post-activation: is a script that NetworkManager would run as root, and Weft writes no programs to \
                 hosts: remove it from the state, and put the script on the host by the means that you manage hosts with",
            ),
            (
                json!([bridge("br1", "eth1"), bridge("br2", "eth1")]),
                "interfaces[br2].bridge.port[eth1]: eth1 is to be a port of br1, too",
            ),
            (
                json!([{"name": "bond0", "type": "bond", "link-aggregation": {"port": ["eth1"]}}]),
                "interfaces[bond0].link-aggregation.mode: is missing, and a new bond needs it",
            ),
            (
                json!([{"name": "veth1", "mtu": 65536}]),
                "interfaces[veth1].mtu: must be 68 to 65535 for this interface, not 65536",
            ),
            (
                json!([{
                    "name": "up0", "type": "bond", "identifier": "mac-address",
                    "mac-address": "02:00:00:00:00:01"
                }]),
                "interfaces[up0].mac-address: no interface of type bond of this host has the address 02:00:00:00:00:01",
            ),
            (
                json!([{
                    "name": "up0", "identifier": "mac-address",
                    "mac-address": "02:00:00:00:00:02"
                }]),
                "interfaces[up0].mac-address: 02:00:00:00:00:02 is the address of veth1 and veth2: say the type of the one that is meant, or its name instead of identifier",
            ),
            (
                json!([{"name": "eth1", "ethtool": {"feature": {"no-such-feature": false}}}]),
                "interfaces[eth1].ethtool.feature.no-such-feature: eth1 has no feature no-such-feature that can be changed",
            ),
            (
                json!([{"name": "eth1", "mtu": 9001}]),
                "interfaces[eth1].mtu: must be 68 to 9000 for this interface, not 9001",
            ),
            (
                json!([{"name": "eth1", "type": "dummy", "state": "up"}]),
                "interfaces[eth1].type: cannot become dummy: there is an interface of this name, of type ethernet: remove it first, or choose another name",
            ),
            (
                json!([vlan("eth8.5", "eth8", 1500)]),
                "interfaces[eth8.5].vlan.base-iface: there is no interface eth8, and none is wanted",
            ),
            (
                json!([vlan("eth1.5", "eth1", 4000)]),
                "interfaces[eth1.5].mtu: must be at most the MTU of its base eth1, 1500, not 4000: raise the MTU of eth1 in the same state",
            ),
            (
                json!([{"name": "eth1.9", "mtu": 1501}]),
                "interfaces[eth1.9].mtu: must be at most the MTU of its base eth1, 1500, not 1501: raise the MTU of eth1 in the same state",
            ),
            (
                json!([{"name": "eth1", "wait-ip": "ipv4+ipv6", "ipv4": {"enabled": true}}]),
                "interfaces[eth1].wait-ip: waits for ipv6, which is not enabled: write ipv6.enabled: true in the same state",
            ),
            (
                json!([{"name": "lo", "type": "loopback", "ipv6": {"enabled": false}}]),
                "interfaces[lo].ipv6.enabled: must be true for the loopback interface",
            ),
            (
                json!([{
                    "name": "br-x", "type": "ovs-bridge", "state": "up",
                    "bridge": {"port": [{"name": "patch-of-another-program"}]}
                }]),
                "interfaces[br-x (ovs-bridge)].bridge.port[patch-of-another-program]: \"patch-of-another-program\" has more than 15 characters, so NetworkManager cannot make it: if another program makes this port, leave it out and write allow-extra-patch-ports: true",
            ),
        ] {
            assert_eq!(said(desired.clone()), [expected], "{desired}");
        }
    }

    #[test]
    fn a_state_that_nmstate_takes_is_not_refused() {
        for desired in [
            json!([
                {"name": "eth7", "type": "ethernet", "state": "absent"},
                {"name": "eth8", "type": "dummy", "state": "up"}, bridge("br1", "eth8")
            ]),
            json!([
                {"name": "bond1", "type": "bond", "link-aggregation": {"port": ["eth1", "eth2"]}}
            ]),
            json!([{"name": "eth1", "mtu": 9000}, {"name": "eth2", "mtu": 65000}]),
            json!([
                {
                    "name": "ovs0", "type": "ovs-bridge", "state": "up",
                    "bridge": {"port": [{"name": "ovs0"}, {"name": "eth1"}]}
                }
            ]),
            json!([
                {"name": "sriov:eth1:0", "type": "ethernet", "state": "up"},
                bridge("br1", "sriov:eth1:1")
            ]),
            json!([
                {"name": "eth1", "ethernet": {"sr-iov": {"total-vfs": 2}}},
                {"name": "eth1v0", "type": "ethernet", "state": "up"}
            ]),
            json!([
                {
                    "name": "ib0.8001", "type": "infiniband", "state": "up",
                    "infiniband": {"base-iface": "ib0", "pkey": "0x8001"}
                }
            ]),
            json!([bridge("br1", "uplink")]),
            json!([vlan("eth1.5", "eth1", 4000), {"name": "eth1", "mtu": 4000}]),
            json!([vlan("uplink.5", "uplink", 1500)]),
            json!([{"name": "eth1.9", "mtu": 1400}]),
            json!([{"name": "eth1", "type": "veth", "state": "up"}]),
            json!([{"name": "eth1", "wait-ip": "any"}]),
            json!([bridge("br1", "enp0s2")]),
            json!([
                {"name": "v0", "type": "veth", "state": "up", "veth": {"peer": "v1"}},
                {"name": "v1", "type": "ethernet", "state": "up"}, bridge("br1", "v1")
            ]),
            json!([
                {"name": "v0", "type": "veth", "state": "up", "veth": {"peer": "v1"}},
                bridge("br1", "v1")
            ]),
            json!([
                {
                    "name": "up0", "type": "ethernet", "identifier": "mac-address",
                    "mac-address": "02:00:00:00:00:01", "state": "absent"
                }
            ]),
        ] {
            assert_eq!(said(desired.clone()), [""; 0], "{desired}");
        }
    }
}
