//! Where an apply would take something away, or rebind it, that the comparison for drift leaves
//! alone.
//!
//! Drift is what nmstate's verification calls wrong. An apply does more: a list of addresses
//! replaces the one that is there, an empty section clears it, and properties that say how an
//! interface is found or made count once. A plan shows these changes as well.

use serde_json::{Map, Value, json};

use crate::{
    canonical::same,
    drift::{
        Difference, address_text, differences, find_interface, is_automatic, is_card,
        is_same_address,
    },
    path::{Path, entries, interface_key, interfaces, text},
};

/// Sections of `ovs-db`.
const OVS_SECTIONS: [&str; 2] = ["external_ids", "other_config"];
/// OVN's own key of `external_ids`, which an empty `ovs-db` leaves alone: the section `ovn` is for
/// it.
const OVN_MAPPINGS: &str = "ovn-bridge-mappings";

/// All that an apply of `desired` would change on a host that is like `current`: the drift, and the
/// removals.
///
/// Both are states in nmstate's form. `current` may be a report with additions. Profiles of
/// NetworkManager that are missing cannot be seen in a report, so an apply can still write one
/// where this is empty.
pub fn changes(desired: &Value, current: &Value) -> Vec<Difference> {
    let mut found = differences(desired, current);
    found.extend(removals(desired, current));
    found
}

/// The part of [`changes`] that is no drift.
pub fn removals(desired: &Value, current: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    for wanted in interfaces(desired) {
        let path = Path::default()
            .key("interfaces")
            .item(&interface_key(wanted));
        if let Some(there) = find_interface(wanted, current) {
            interface(&path, wanted, there, current, &mut found);
        }
    }
    dns(desired, current, &mut found);
    open_vswitch(desired, current, &mut found);
    found
}

fn interface(
    path: &Path,
    wanted: &Value,
    there: &Value,
    current: &Value,
    found: &mut Vec<Difference>,
) {
    if let state @ ("absent" | "down") = wanted["state"].as_str().unwrap_or("up") {
        // Virtual interfaces go, which counts as drift. A card stays, without its configuration.
        if is_card(wanted, there) && there["state"] == "up" {
            found.push(Difference {
                path: path.key("state"),
                wanted: state.into(),
                found: there["state"].clone(),
            });
        }
        return;
    }
    for family in ["ipv4", "ipv6"] {
        addresses(&path.key(family), &wanted[family], &there[family], found);
    }
    let mut rebound = |key: &str, wanted: &str, is: &str| {
        if wanted != is {
            found.push(Difference {
                path: path.key(key),
                wanted: wanted.into(),
                found: is.into(),
            });
        }
    };
    if let Some(controller) = wanted["controller"].as_str() {
        rebound(
            "controller",
            controller,
            there["controller"].as_str().unwrap_or_default(),
        );
    }
    if let Some(identifier) = wanted["identifier"].as_str() {
        rebound(
            "identifier",
            identifier,
            there["identifier"].as_str().unwrap_or("name"),
        );
    }
    // A report leaves out the name of a profile that is the name of its interface.
    if let Some(profile) = wanted["profile-name"].as_str() {
        rebound(
            "profile-name",
            profile,
            there["profile-name"]
                .as_str()
                .or(there["name"].as_str())
                .unwrap_or_default(),
        );
    }
    if let Some(source) = wanted["copy-mac-from"].as_str() {
        let source = interfaces(current)
            .iter()
            .find(|interface| interface["name"] == source);
        if let Some(mac) = source
            .map(|source| &source["mac-address"])
            .filter(|mac| !mac.is_null() && !same(mac, &there["mac-address"]))
        {
            found.push(Difference {
                path: path.key("mac-address"),
                wanted: mac.clone(),
                found: there["mac-address"].clone(),
            });
        }
    }
}

/// Addresses that are there and that the list leaves out: nmstate removes them unless they are
/// given by DHCP or a router.
fn addresses(path: &Path, wanted: &Value, is: &Value, found: &mut Vec<Difference>) {
    let Some(listed) = wanted["address"]
        .as_array()
        .filter(|_| wanted["enabled"] != false)
    else {
        return;
    };
    // `false` makes them drift, which is compared already.
    if wanted["allow-extra-address"] == false {
        return;
    }
    for extra in entries(&is["address"]) {
        if !is_automatic(extra) && !listed.iter().any(|address| is_same_address(address, extra)) {
            let text = address_text(extra);
            found.push(Difference {
                path: path.key("address").item(&text),
                wanted: Value::Null,
                found: text.into(),
            });
        }
    }
}

/// A configuration that says nothing clears all of it.
fn dns(desired: &Value, current: &Value, found: &mut Vec<Difference>) {
    let path = Path::default().key("dns-resolver").key("config");
    if desired["dns-resolver"]["config"]
        .as_object()
        .is_some_and(Map::is_empty)
    {
        for key in ["server", "search", "options"] {
            let is = &current["dns-resolver"]["config"][key];
            if !entries(is).is_empty() {
                found.push(Difference {
                    path: path.key(key),
                    wanted: json!([]),
                    found: is.clone(),
                });
            }
        }
    }
}

/// An empty section, or both sections empty, clears all keys but OVN's.
fn open_vswitch(desired: &Value, current: &Value, found: &mut Vec<Difference>) {
    let Some(wanted) = desired["ovs-db"].as_object() else {
        return;
    };
    let is_empty = |section: &str| {
        wanted
            .get(section)
            .and_then(Value::as_object)
            .is_some_and(Map::is_empty)
    };
    if !wanted.is_empty() && !OVS_SECTIONS.into_iter().all(is_empty) {
        return;
    }
    for section in OVS_SECTIONS {
        for (key, is) in current["ovs-db"][section]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != OVN_MAPPINGS)
        {
            let path = Path::default().key("ovs-db").key(section).key(key);
            found.push(Difference {
                path,
                wanted: Value::Null,
                found: text(is).into(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn current() -> Value {
        json!({
            "dns-resolver": {"config": {"server": ["192.0.2.53"], "search": []}},
            "ovs-db": {
                "external_ids": {"system-id": "a", "ovn-bridge-mappings": "net:br"},
                "other_config": {"hw-offload": "true"}
            },
            "interfaces": [
                {"name": "eth1", "type": "ethernet", "state": "up", "mac-address": "02:00:00:00:00:01", "identifier": "name", "controller": "br0",
                 "ipv4": {"enabled": true, "address": [
                    {
                        "ip": "10.0.0.1", "prefix-length": 24
                    }, {"ip": "10.0.0.2", "prefix-length": 24},
                    {"ip": "10.0.0.3", "prefix-length": 24, "valid-life-time": "30sec"}]}},
                {"name": "eth2", "type": "ethernet", "state": "down"},
                {
                    "name": "br0", "type": "linux-bridge", "state": "up",
                    "mac-address": "02:00:00:00:00:0B"
                },
            ],
        })
    }

    fn said(desired: Value) -> Vec<String> {
        assert_eq!(
            differences(&desired, &current()),
            [],
            "drift leaves it alone: {desired}"
        );
        changes(&desired, &current())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn eth1(rest: Value) -> Value {
        let mut interface = json!({"name": "eth1", "type": "ethernet", "state": "up"});
        interface
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        json!({ "interfaces": [interface] })
    }

    #[test]
    fn each_removal_is_a_change_and_no_drift() {
        let first = json!([{"ip": "10.0.0.1", "prefix-length": 24}]);
        let bridge = json!({
            "interfaces": [
                {"name": "br0", "type": "linux-bridge", "state": "up", "copy-mac-from": "eth1"}
            ]
        });
        for (desired, expected) in [
            (
                eth1(json!({"ipv4": {"enabled": true, "address": first}})),
                vec![
                    "interfaces[eth1].ipv4.address[10.0.0.2/24]: \"10.0.0.2/24\" should not be there",
                ],
            ),
            (
                eth1(json!({"ipv4": {"enabled": true, "address": []}})),
                vec![
                    "interfaces[eth1].ipv4.address[10.0.0.1/24]: \"10.0.0.1/24\" should not be there",
                    "interfaces[eth1].ipv4.address[10.0.0.2/24]: \"10.0.0.2/24\" should not be there",
                ],
            ),
            (
                eth1(json!({"state": "absent"})),
                vec!["interfaces[eth1].state: \"up\" should be \"absent\""],
            ),
            (
                eth1(json!({"state": "down"})),
                vec!["interfaces[eth1].state: \"up\" should be \"down\""],
            ),
            (
                eth1(json!({"controller": ""})),
                vec!["interfaces[eth1].controller: \"br0\" should be \"\""],
            ),
            (
                eth1(json!({"controller": "br1"})),
                vec!["interfaces[eth1].controller: \"br0\" should be \"br1\""],
            ),
            (
                eth1(json!({"profile-name": "uplink"})),
                vec!["interfaces[eth1].profile-name: \"eth1\" should be \"uplink\""],
            ),
            (
                eth1(json!({"identifier": "mac-address", "mac-address": "02:00:00:00:00:01"})),
                vec!["interfaces[eth1].identifier: \"name\" should be \"mac-address\""],
            ),
            (
                bridge,
                vec![
                    "interfaces[br0].mac-address: \"02:00:00:00:00:0B\" should be \"02:00:00:00:00:01\"",
                ],
            ),
            (
                json!({"dns-resolver": {"config": {}}}),
                vec!["dns-resolver.config.server: [\"192.0.2.53\"] should be []"],
            ),
            (
                json!({"ovs-db": {}}),
                vec![
                    "ovs-db.external_ids.system-id: \"a\" should not be there",
                    "ovs-db.other_config.hw-offload: \"true\" should not be there",
                ],
            ),
        ] {
            assert_eq!(said(desired.clone()), expected, "{desired}");
        }
    }

    #[test]
    fn untouched_parts_of_an_apply_are_no_change() {
        let both = json!([
            {"ip": "10.0.0.1", "prefix-length": 24}, {"ip": "10.0.0.2", "prefix-length": 24}
        ]);
        for desired in [
            eth1(json!({"ipv4": {"enabled": true, "address": both}})),
            eth1(json!({"ipv4": {"enabled": true}})),
            eth1(json!({"controller": "br0", "identifier": "name", "profile-name": "eth1"})),
            json!({"interfaces": [{"name": "eth2", "type": "ethernet", "state": "absent"}]}),
            json!({"interfaces": [{"name": "eth2", "type": "ethernet", "state": "down"}]}),
            json!({
                "dns-resolver": {"config": {"server": ["192.0.2.53"]}},
                "ovs-db": {"other_config": {"hw-offload": "true"}}
            }),
            json!({}),
        ] {
            assert_eq!(said(desired.clone()), Vec::<String>::new(), "{desired}");
        }
    }
}
