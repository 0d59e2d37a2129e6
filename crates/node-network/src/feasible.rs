//! Refusals of nmstate on a host that is like this: interfaces that cannot be made, ports that are
//! not there or have two controllers, a new bond without a mode, an MTU that the interface does not
//! take.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    drift::{find_interface, is_virtual},
    path::{Path, entries, interface_key, interfaces, text},
    state_error::StateError,
};

/// [`refusals`] in one message. None if there are none.
pub fn refusal(desired: &Value, current: &Value) -> Option<String> {
    let refusals = refusals(desired, current);
    let words: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    (!words.is_empty()).then(|| format!("this host would refuse it: {}", words.join("; ")))
}

/// Where a host that is like `current` does not take `desired`. Both are states in nmstate's form,
/// `current` with all interfaces of the host.
pub(crate) fn refusals(desired: &Value, current: &Value) -> Vec<StateError> {
    let mut found = Vec::new();
    // nmstate finds a virtual function by such a name, and by its own once the same state has made
    // it.
    let makes_functions = interfaces(desired)
        .iter()
        .any(|interface| !interface["ethernet"]["sr-iov"]["total-vfs"].is_null());
    let is_function = |name: &str| makes_functions || name.starts_with("sriov:");
    // The same state makes the other end of a veth pair. nmstate also finds a port by its profile
    // or by an alternative name.
    let is_peer = |name: &str| {
        interfaces(desired)
            .iter()
            .any(|interface| interface["veth"]["peer"] == name)
    };
    let is_called = |interface: &Value, name: &str| {
        text(&interface["name"]) == name
            || interface["profile-name"] == name
            || entries(&interface["alt-names"])
                .iter()
                .any(|other| other["name"] == name)
    };
    let mut controllers: BTreeMap<String, String> = BTreeMap::new();
    for wanted in interfaces(desired) {
        let path = Path::default()
            .key("interfaces")
            .item(&interface_key(wanted));
        if matches!(wanted["state"].as_str(), Some("absent" | "down" | "ignore")) {
            continue;
        }
        let mut refuse =
            |path: Path, message: String| found.push(StateError::Invalid { path, message });
        let (there, kind) = (find_interface(wanted, current), text(&wanted["type"]));
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
                let mtu = wanted["mtu"]
                    .as_u64()
                    .or_else(|| wanted["mtu"].as_str()?.parse().ok());
                if let Some(mtu) = mtu.filter(|mtu| {
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
            }
            _ => {}
        }
        for (place, port) in ports(&path, wanted) {
            let by_name = |interface: &&Value| is_called(interface, &port);
            let is_wanted = interfaces(desired)
                .iter()
                .find(by_name)
                .is_some_and(|interface| interface["state"] != "absent");
            // Open vSwitch makes the internal port of a bridge with the bridge.
            if !is_wanted
                && kind != "ovs-bridge"
                && !is_function(&port)
                && !is_peer(&port)
                && !interfaces(current)
                    .iter()
                    .any(|interface| is_called(interface, &port))
            {
                refuse(
                    place,
                    format!("there is no interface {port}, and none is wanted"),
                );
            } else if let Some(other) = controllers
                .insert(port.clone(), text(&wanted["name"]))
                .filter(|other| *other != text(&wanted["name"]))
            {
                refuse(place, format!("{port} is to be a port of {other}, too"));
            }
        }
    }
    found
}

/// The ports that an interface is to have, each with its place.
fn ports(path: &Path, wanted: &Value) -> Vec<(Path, String)> {
    let mut found = Vec::new();
    for section in ["bridge", "link-aggregation", "vrf"] {
        for key in ["port", "ports"] {
            for port in entries(&wanted[section][key]) {
                let name = if port.is_string() {
                    text(port)
                } else {
                    text(&port["name"])
                };
                // A bond of Open vSwitch is named in its bridge alone.
                let bond = [&port["link-aggregation"], &port["bond"]]
                    .into_iter()
                    .find(|bond| bond.is_object());
                let path = path.key(section).key(key);
                match bond {
                    Some(bond) => found.extend(
                        ["port", "ports"]
                            .into_iter()
                            .flat_map(|key| entries(&bond[key]))
                            .map(|port| {
                                let name = text(&port["name"]);
                                (path.item(&name), name)
                            }),
                    ),
                    None => found.push((path.item(&name), name)),
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(desired: Value) -> Vec<String> {
        let current = json!({"interfaces": [
            {
                "name": "eth1", "type": "ethernet", "state": "up", "mtu": 1500, "min-mtu": 68,
                "max-mtu": 9000
            },
            {
                "name": "eth2", "type": "ethernet", "state": "up", "profile-name": "uplink",
                "alt-names": [{"name": "enp0s2"}]
            },
            {"name": "veth1", "type": "veth", "state": "up", "min-mtu": 68, "max-mtu": 65535},
            {
                "name": "bond1", "type": "bond", "state": "up",
                "link-aggregation": {"mode": "802.3ad"}
            },
        ]});
        refusals(&json!({ "interfaces": desired }), &current)
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
                json!([{"name": "eth1", "mtu": 9001}]),
                "interfaces[eth1].mtu: must be 68 to 9000 for this interface, not 9001",
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
