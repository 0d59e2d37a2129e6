//! The verdict of `weft validate` and `weft plan`, against nmstate with the state of the host. A
//! difference is on purpose and listed, with the reason.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use nmstate::{InterfaceType, NetworkState};
use proptest::prelude::*;
use serde_json::{Value, json};
use weft_api::node_network::NodeNetworkConfigurationPolicySpec;
use weft_node_network::{check, feasible, render, review, state, verdict};

/// Parts of refusals of Weft that nmstate does not share, with the reason.
const OF_WEFT: [(&str, &str); 13] = [
    (
        "must be an object, not []",
        "nmstate reads an empty list as an empty object",
    ),
    (
        "The interface  required by route rule",
        "nmstate finds an interface of no name on any host",
    ),
    (
        "is missing: give the interface a name",
        "nmstate takes an empty name, and finds no such interface",
    ),
    (
        "is no type of interface that nmstate knows",
        "nmstate takes any text for a type that it cannot make",
    ),
    (
        "nmstate knows no",
        "nmstate reads no more than the name of an interface without a type that goes",
    ),
    (
        "in one entry of this interface and",
        "nmstate takes the last entry, and drops the wishes of the others",
    ),
    (
        "cannot be its own",
        "nmstate takes it, and the kernel refuses it",
    ),
    (
        "there is no interface ",
        "nmstate takes a base that is not there, and NetworkManager waits for it",
    ),
    (
        "must be at most the MTU of its base",
        "the kernel refuses it, and nmstate finds that after the change",
    ),
    (
        "is nothing that nmstate can do without dhcp",
        "nmstate says so when it writes the profile for NetworkManager",
    ),
    (
        "must be 0 to",
        "nmstate takes numbers that no VLAN can have, and the kernel refuses them",
    ),
    (
        "is no hardware address",
        "nmstate takes any text, and NetworkManager refuses it",
    ),
    (
        "characters, and Linux takes at most",
        "nmstate takes any name, and the kernel refuses it",
    ),
];

/// A host with cards, and with an interface of each kind that has ports.
fn host() -> Value {
    let card = |name: &str| {
        json!({
            "name": name, "type": "ethernet", "state": "up", "mtu": 1500, "min-mtu": 68,
            "max-mtu": 9000, "ipv4": {"enabled": false}, "ipv6": {"enabled": false}
        })
    };
    let mut eth1 = card("eth1");
    eth1["ipv4"] = json!({
        "enabled": true, "dhcp": false, "address": [{"ip": "192.0.2.11", "prefix-length": 24}]
    });
    let port = |name: &str, controller: &str| {
        let mut port = card(name);
        port["controller"] = controller.into();
        port
    };
    let mut red = port("eth5", "red");
    red["ipv4"] = json!({"enabled": true, "dhcp": true});
    json!({"interfaces": [
        eth1, card("eth2"), port("eth3", "bond1"), port("eth4", "br1"), red, port("eth6", "ovs1"),
        {"name": "lo", "type": "loopback", "state": "up", "ipv4": {
            "enabled": true, "address": [{"ip": "127.0.0.1", "prefix-length": 8}]
        }, "ipv6": {"enabled": true, "address": [{"ip": "::1", "prefix-length": 128}]}},
        {"name": "br1", "type": "linux-bridge", "state": "up", "bridge": {"port": [{"name": "eth4"}]}},
        {"name": "bond1", "type": "bond", "state": "up", "link-aggregation": {
            "mode": "802.3ad", "options": {"miimon": 100, "lacp_rate": "slow"}, "port": ["eth3"]
        }},
        {"name": "red", "type": "vrf", "state": "up", "vrf": {"port": ["eth5"], "route-table-id": 70}},
        {"name": "ovs1", "type": "ovs-bridge", "state": "up", "bridge": {"port": [{"name": "eth6"}]}},
        {"name": "eth1.7", "type": "vlan", "state": "up", "mtu": 1500, "vlan": {
            "base-iface": "eth1", "id": 7
        }},
    ]})
}

/// The refusals of Weft for a state on a host: of `weft validate`, or else of `weft plan`.
fn of_weft(desired: &Value, host: &Value) -> Vec<String> {
    let found = check::desired_state("desiredState", desired, false);
    if !found.is_empty() {
        return found.iter().map(ToString::to_string).collect();
    }
    let translated = match render::own(desired) {
        Ok(translated) => translated,
        Err(error) => return vec![error.to_string()],
    };
    if let Some(refusal) = feasible::refusal(&translated, host) {
        return refusal.split("; ").map(str::to_owned).collect();
    }
    verdict::verdict(&translated, Some(host))
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// A host as nmstate itself reads it from the kernel: with the type of each port's controller, which
/// no report says.
fn as_read(host: &Value) -> NetworkState {
    let mut state: NetworkState = serde_json::from_value(host.clone()).unwrap();
    for (name, kind) in [
        ("eth3", InterfaceType::Bond),
        ("eth4", InterfaceType::LinuxBridge),
        ("eth5", InterfaceType::Vrf),
        ("eth6", InterfaceType::OvsBridge),
    ] {
        let port = state.interfaces.iter_mut().find(|port| port.name() == name);
        if let Some(port) = port.map(nmstate::Interface::base_iface_mut) {
            assert!(port.controller.is_some(), "{name} is a port");
            port.controller_type = Some(kind);
        }
    }
    state
}

/// The verdict of nmstate on it.
fn of_nmstate(desired: &Value, host: &NetworkState) -> Result<(), String> {
    // As kubernetes-nmstate hands it over. JSON is YAML.
    let desired = NetworkState::new_from_yaml(&desired.to_string())
        .map_err(|error| error.msg().to_owned())?;
    desired
        .validate(Some(host))
        .map_err(|error| error.msg().to_owned())
}

/// The reason of a difference, by nmstate's or Weft's words.
fn listed(list: &[(&str, &'static str)], words: &str) -> Option<&'static str> {
    list.iter()
        .find(|(part, _)| words.contains(part))
        .map(|(_, reason)| *reason)
}

/// Why the two differ, or nothing if they agree. `Err` if the difference is in no list.
fn difference(desired: &Value, host: &Value) -> Result<Option<&'static str>, String> {
    difference_on(desired, host, &as_read(host))
}

/// The same, on a host as nmstate reads it.
fn difference_on(
    desired: &Value,
    host: &Value,
    read: &NetworkState,
) -> Result<Option<&'static str>, String> {
    let (weft, nmstate) = (of_weft(desired, host), of_nmstate(desired, read));
    let reason = match (&nmstate, weft.as_slice()) {
        (Ok(()), []) | (Err(_), [_, ..]) => return Ok(None),
        (Ok(()), said) => said
            .iter()
            .map(|words| listed(&OF_WEFT, words))
            .collect::<Option<Vec<_>>>()
            .and_then(|reasons| reasons.first().copied()),
        (Err(_), []) => None,
    };
    reason
        .map(Some)
        .ok_or_else(|| format!("{desired}\nnmstate: {nmstate:?}\nweft: {weft:?}"))
}

#[track_caller]
fn agree(desired: &Value, host: &Value) {
    if let Err(found) = difference(desired, host) {
        panic!("{found}");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect()
}

/// The policies of all examples, each with its file and its name.
fn examples() -> Vec<(PathBuf, String, NodeNetworkConfigurationPolicySpec)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found = Vec::new();
    for file in files(&folder) {
        let text = std::fs::read_to_string(&file).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        for document in documents {
            if document["kind"] == "NodeNetworkConfigurationPolicy" {
                let name = document["metadata"]["name"].as_str().unwrap().to_owned();
                let spec = serde_json::from_value(document["spec"].clone()).unwrap();
                found.push((file.clone(), name, spec));
            }
        }
    }
    assert!(found.len() > 20, "only {} policies are found", found.len());
    found
}

/// No example asks for what a host of its own could refuse, so `weft validate` takes each.
#[test]
fn every_example_is_taken() {
    for (file, name, spec) in examples() {
        let found: Vec<String> = review::policy(&name, &spec)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, [""; 0], "{}", file.display());
    }
}

/// The cards that a policy names: wanted ones, and ports, bases and next hops that it does not make.
fn cards_of(state: &Value) -> BTreeSet<String> {
    fn named(value: &Value, found: &mut BTreeSet<String>) {
        for (key, value) in value.as_object().into_iter().flatten() {
            match (key.as_str(), value) {
                ("base-iface" | "next-hop-interface", Value::String(name)) => {
                    found.insert(name.clone());
                }
                ("port" | "ports", Value::Array(ports)) => {
                    // The bond of a bridge of Open vSwitch has its own ports.
                    let alone = ports
                        .iter()
                        .filter(|port| port["link-aggregation"].is_null());
                    let names = alone.filter_map(|port| port["name"].as_str().or(port.as_str()));
                    found.extend(names.map(str::to_owned));
                    ports.iter().for_each(|port| named(port, found));
                }
                (_, Value::Array(list)) => list.iter().for_each(|one| named(one, found)),
                (_, value) => named(value, found),
            }
        }
    }
    let mut found = BTreeSet::new();
    named(state, &mut found);
    for wanted in state["interfaces"].as_array().into_iter().flatten() {
        let name = wanted["name"].as_str().unwrap_or_default().to_owned();
        match wanted["type"].as_str() {
            Some("ethernet") | None => found.insert(name),
            Some(_) => found.remove(&name),
        };
    }
    found.retain(|name| !name.is_empty() && !name.contains("{{"));
    found
}

/// A host with these cards, of which each has its addresses, and the first one the way out.
fn with_cards(cards: &BTreeSet<String>) -> Value {
    let card = |(name, number): (&String, u32)| {
        json!({
            "name": name, "type": "ethernet", "state": "up", "mtu": 1500,
            "mac-address": format!("02:00:00:00:00:{number:02X}"), "lldp": {"enabled": false},
            "ipv4": {"enabled": true, "dhcp": true, "address": [
                {"ip": format!("192.0.{number}.11"), "prefix-length": 24}
            ]},
            "ipv6": {"enabled": true, "autoconf": true, "dhcp": true, "address": [
                {"ip": format!("2001:db8:{number}::11"), "prefix-length": 64}
            ]}
        })
    };
    let way_out = cards.first().map(|name| {
        json!({
            "destination": "0.0.0.0/0", "next-hop-interface": name, "next-hop-address": "192.0.2.1",
            "table-id": 254, "metric": 100
        })
    });
    let running: Vec<Value> = way_out.into_iter().collect();
    json!({
        "interfaces": cards.iter().zip(2..).map(card).collect::<Vec<_>>(),
        "routes": {"running": running, "config": []},
        "dns-resolver": {"running": {"server": ["192.0.2.53"], "search": ["example.org"]}, "config": {}}
    })
}

/// nmstate and Weft take each example on a host with its cards, and say the same on a host without
/// any card.
#[test]
fn every_example_has_nmstates_verdict() {
    let values = json!({
        "name": "node-1", "annotations": {"example.com/storage-address": "198.51.100.7"},
        "pools": {"storage": {"ip": "198.51.100.7", "prefixLength": 24}}
    });
    let given = render::Given {
        values: serde_json::from_value(values).unwrap(),
        ..render::Given::default()
    };
    let bare = with_cards(&BTreeSet::new());
    let mut refused = 0;
    for (file, _, spec) in examples() {
        let state = spec.desired_state.clone().unwrap_or_default();
        let mut cards = cards_of(&state);
        // A policy that finds its cards by itself finds these.
        cards.extend(["eth1".to_owned(), "eth2".to_owned()]);
        let host = with_cards(&cards);
        let file = file.display();
        let desired = match render::render(&spec, &host, &given) {
            Ok(rendered) => rendered.desired,
            Err(error) => panic!("{file}: {error}"),
        };
        let read: NetworkState = serde_json::from_value(host.clone()).unwrap();
        assert_eq!(of_nmstate(&desired, &read), Ok(()), "{file}: {desired}");
        assert_eq!(of_weft(&desired, &host), [""; 0], "{file}: {desired}");

        let read: NetworkState = serde_json::from_value(bare.clone()).unwrap();
        if let Err(found) = difference_on(&desired, &bare, &read) {
            panic!("{file}: {found}");
        }
        refused += usize::from(of_nmstate(&desired, &read).is_err());
    }
    assert!(refused > 10, "only {refused} need a card");
}

/// States like those that nmstate's documentation shows, and what is wrong with some of them.
fn documents() -> Vec<Value> {
    let interfaces = [
        json!([{"name": "bond1", "link-aggregation": {"options": {"lacp_rate": "fast"}}}]),
        json!([{"name": "bond1", "link-aggregation": {"mode": "balance-rr", "options": {"lacp_rate": "fast"}}}]),
        json!([{"name": "bond2", "type": "bond", "link-aggregation": {"port": ["eth2"]}}]),
        json!([{"name": "bond2", "type": "bond", "state": "up", "link-aggregation": {
            "mode": "balance-xor", "options": {"balance_slb": true}, "port": ["eth2"]
        }}]),
        json!([{"name": "br2", "type": "linux-bridge", "bridge": {"port": [
            {"name": "eth2", "vlan": {"mode": "trunk", "trunk-tags": []}}
        ]}}]),
        json!([{"name": "br2", "type": "linux-bridge", "bridge": {"options": {"vlan-default-pvid": 5}}}]),
        json!([{"name": "eth4", "type": "ethernet", "ipv4": {"enabled": true, "dhcp": true}}]),
        json!([{"name": "eth4", "controller": "", "ipv4": {"enabled": true, "dhcp": true}}]),
        json!([{"name": "eth5", "ipv4": {"enabled": true, "dhcp": true}}]),
        json!([{"name": "eth2", "controller": "br9"}]),
        json!([{"name": "eth2", "controller": "br1", "ipv4": {"enabled": true, "dhcp": true}}]),
        json!([{"name": "br1", "type": "bond", "state": "absent"}]),
        json!([{"name": "bond1", "state": "absent"}, {"name": "v9", "type": "vlan", "vlan": {"base-iface": "bond1", "id": 9}}]),
        json!([{"name": "eth1.7", "type": "vlan", "vlan": {"id": 7}}]),
        json!([{"name": "eth1", "wait-ip": "ipv6"}]),
        json!([{"name": "lo", "type": "loopback", "ipv4": {"enabled": false}}]),
        json!([{"name": "blue", "type": "vrf", "vrf": {"port": ["eth2"]}}]),
        json!([{"name": "red", "type": "vrf", "vrf": {"port": ["eth2"]}}]),
        json!([{"name": "ovs1", "type": "ovs-bridge", "mac-address": "02:00:00:00:00:07"}]),
        json!([{"name": "m1", "type": "mac-vlan", "accept-all-mac-addresses": false, "mac-vlan": {"base-iface": "eth2", "mode": "bridge"}}]),
        json!([{"name": "eth2", "mptcp": {"address-flags": ["signal", "fullmesh"]}}]),
        json!([{"name": "br2", "type": "linux-bridge", "copy-mac-from": "eth9"}]),
        json!([{"name": "eth2", "alt-names": [{"name": "eth3"}]}]),
        json!([{"name": "lo", "ipv4": {"enabled": true, "address": [{"ip": "203.0.113.1", "prefix-length": 32}]}}]),
        json!([{"name": "lo", "state": "absent"}]),
        json!([
            {"name": "ovs2", "type": "ovs-bridge", "state": "up", "bridge": {"port": [{"name": "int1"}, {"name": "eth2"}]}},
            {"name": "int1", "type": "ovs-interface", "state": "up", "ipv4": {"enabled": true, "dhcp": true}}
        ]),
        json!([{"name": "red", "mtu": 1500}, {"name": "eth2", "controller": "red", "ipv4": {"enabled": true, "dhcp": true}}]),
    ];
    let others = [
        json!({"routes": {"config": [{"destination": "198.51.100.0/24", "next-hop-interface": "eth1"}]}}),
        json!({"routes": {"config": [{"destination": "2001:db8::/32", "next-hop-interface": "eth1"}]}}),
        json!({"routes": {"config": [{"destination": "198.51.100.0/24", "next-hop-interface": "eth9"}]}}),
        json!({"routes": {"config": [{"destination": "198.51.100.0/24", "next-hop-interface": "eth1", "vrf-name": "blue"}]}}),
        json!({"routes": {"config": [{"destination": "198.51.100.0/24", "next-hop-interface": "eth1", "vrf-name": "red"}]}}),
        json!({"routes": {"config": [{"destination": "198.51.100.0/24", "next-hop-interface": "eth1", "vrf-name": "red", "table-id": 71}]}}),
        json!({"routes": {"config": [{"destination": "198.51.100.0/24", "next-hop-interface": "eth1", "weight": 257}]}}),
        json!({"routes": {"config": [
            {"destination": "198.51.100.0/24", "route-type": "blackhole"},
            {"destination": "198.51.100.0/24", "route-type": "prohibit"}
        ]}}),
        json!({"route-rules": {"config": [{"fwmask": 1, "ip-to": "192.0.2.0/24"}]}}),
        json!({"route-rules": {"config": [{"family": "ipv6", "ip-to": "192.0.2.0/24"}]}}),
        json!({"dns-resolver": {"config": {"server": ["192.0.2.999"]}}}),
        json!({"dns-resolver": {"config": {"server": ["fe80::1%eth9"]}}}),
        json!({"dns-resolver": {"config": {"options": ["rotate:1"]}}}),
        json!({"ovn": {"bridge-mappings": [{"localnet": "a", "bridge": "ovs1"}]}}),
        json!({"ovn": {"bridge-mappings": [{"localnet": "a", "bridge": "ovs2"}]}}),
        json!({"ovn": {"bridge-mappings": [
            {"localnet": "a", "bridge": "ovs1"}, {"localnet": "a", "bridge": "ovs1"}
        ]}}),
        json!({"ovs-db": {"external_ids": {"ovn-bridge-mappings": "a:ovs1"}}}),
    ];
    // One of each kind, with much of what it can have.
    let rich = [
        json!([{
            "name": "eth2", "type": "ethernet", "state": "up", "mtu": 1500, "description": "uplink",
            "mac-address": "02:00:00:00:00:17", "accept-all-mac-addresses": true, "wait-ip": "ipv4",
            "lldp": {"enabled": true}, "alt-names": [{"name": "uplink2"}],
            "ethernet": {"speed": 1000, "duplex": "full", "auto-negotiation": false},
            "ethtool": {
                "pause": {"autoneg": false, "rx": true, "tx": true}, "feature": {"rx-checksum": true},
                "ring": {"rx": 256, "tx": 256}, "coalesce": {"rx-usecs": 50}, "fec": {"mode": "auto"}
            },
            "ipv4": {
                "enabled": true, "dhcp": false, "forwarding": true,
                "address": [{"ip": "198.51.100.7", "prefix-length": 24}]
            },
            "ipv6": {
                "enabled": true, "dhcp": true, "autoconf": true, "auto-dns": true,
                "auto-routes": true, "auto-gateway": false, "auto-route-table-id": 70,
                "auto-route-metric": 200, "addr-gen-mode": "eui64", "token": "::7",
                "dhcp-duid": "llt", "address": [{"ip": "2001:db8::7", "prefix-length": 64}]
            }
        }]),
        json!([{
            "name": "bond2", "type": "bond", "state": "up", "link-aggregation": {
                "mode": "802.3ad", "port": ["eth2", "eth6"],
                "options": {
                    "miimon": 100, "lacp_rate": "fast", "xmit_hash_policy": "layer3+4",
                    "ad_select": "bandwidth", "min_links": 1, "updelay": 200
                },
                "ports-config": [
                    {"name": "eth2", "queue-id": 1, "priority": 10}, {"name": "eth6", "queue-id": 2}
                ]
            }
        }]),
        json!([{
            "name": "br2", "type": "linux-bridge", "state": "up", "mtu": 1500,
            "bridge": {
                "options": {
                    "group-forward-mask": 0, "mac-ageing-time": 300, "multicast-snooping": true,
                    "multicast-router": "auto", "vlan-protocol": "802.1q",
                    "stp": {
                        "enabled": true, "forward-delay": 15, "hello-time": 2, "max-age": 20,
                        "priority": 32768
                    }
                },
                "port": [{
                    "name": "eth2", "stp-hairpin-mode": false, "stp-path-cost": 100,
                    "stp-priority": 32, "vlan": {
                        "mode": "trunk", "enable-native": true, "tag": 7,
                        "trunk-tags": [{"id": 9}, {"id-range": {"min": 20, "max": 29}}]
                    }
                }]
            }
        }]),
        json!([
            {
                "name": "ovs2", "type": "ovs-bridge", "state": "up",
                "bridge": {
                    "options": {
                        "fail-mode": "secure", "mcast-snooping-enable": true, "rstp": false, "stp": true
                    },
                    "port": [
                        {"name": "int1", "vlan": {"mode": "access", "tag": 7}},
                        {"name": "bond9", "link-aggregation": {
                            "mode": "balance-slb", "port": [{"name": "eth2"}, {"name": "eth6"}],
                            "bond-updelay": 100
                        }}
                    ]
                },
                "ovs-db": {"external_ids": {"a": "b"}, "other_config": {"c": "d"}}
            },
            {
                "name": "int1", "type": "ovs-interface", "state": "up",
                "ipv4": {"enabled": true, "dhcp": true}, "ovs-db": {"external_ids": {"a": "b"}}
            },
            {
                "name": "patch1", "type": "ovs-interface", "state": "up", "controller": "ovs2",
                "patch": {"peer": "patch2"}
            }
        ]),
        json!([
            {
                "name": "v9", "type": "vlan", "state": "up",
                "vlan": {
                    "base-iface": "eth2", "id": 9, "protocol": "802.1ad", "reorder-headers": true,
                    "loose-binding": false, "registration-protocol": "gvrp",
                    "ingress-qos-map": [{"from": 1, "to": 2}]
                }
            },
            {
                "name": "vx9", "type": "vxlan", "state": "up", "vxlan": {
                    "base-iface": "eth2", "id": 9, "remote": "192.0.2.9", "local": "192.0.2.11",
                    "destination-port": 4789, "learning": true
                }
            },
            {"name": "mv9", "type": "mac-vlan", "state": "up", "mac-vlan": {
                "base-iface": "eth2", "mode": "vepa", "promiscuous": true
            }},
            {"name": "mt9", "type": "mac-vtap", "state": "up", "mac-vtap": {
                "base-iface": "eth2", "mode": "private", "promiscuous": false
            }}
        ]),
        json!([
            {"name": "iv9", "type": "ipvlan", "state": "up", "ipvlan": {
                "base-iface": "eth2", "mode": "l3", "private": false, "vepa": false
            }},
            {"name": "va", "type": "veth", "state": "up", "veth": {"peer": "vb"}},
            {"name": "vb", "type": "veth", "state": "up", "veth": {"peer": "va"}},
            {"name": "d9", "type": "dummy", "state": "up", "mtu": 1400},
            {"name": "t9", "type": "ip-tunnel", "state": "up", "ip-tunnel": {
                "mode": "ipip", "base-iface": "eth2", "remote": "192.0.2.9", "local": "192.0.2.11",
                "ttl": 64, "tos": 0, "path-mtu-discovery": true
            }},
            {"name": "h9", "type": "hsr", "state": "up", "hsr": {
                "port1": "eth2", "port2": "eth6", "multicast-spec": 40, "protocol": "prp"
            }}
        ]),
        json!([{
            "name": "sec9", "type": "macsec", "state": "up", "macsec": {
                "base-iface": "eth2", "encrypt": true, "port": 0, "validation": "strict",
                "send-sci": true, "mka-cak": "50b71a8ef0bd5751ea76de6d6c98c03a",
                "mka-ckn": "f2b4297d39da7330910a74abc0449feb45b5c0b9fc23df1430e1898fcf1c4550"
            }
        }]),
        json!([{
            "name": "eth2", "type": "ethernet", "state": "up", "ethernet": {"sr-iov": {
                "total-vfs": 2, "vfs": [{
                    "id": 0, "mac-address": "02:00:00:00:00:18", "spoof-check": true, "trust": false,
                    "min-tx-rate": 0, "max-tx-rate": 0, "vlan-id": 7, "qos": 5
                }]
            }},
            "802.1x": {
                "identity": "client", "eap-methods": ["tls"], "ca-cert": "/etc/ca.crt",
                "client-cert": "/etc/client.crt", "private-key": "/etc/client.key",
                "private-key-password": "password"
            }
        }]),
    ];
    let sections = [
        json!({"routes": {"config": [
            {
                "destination": "198.51.100.0/24", "next-hop-interface": "eth1",
                "next-hop-address": "192.0.2.1", "metric": 150, "table-id": 254, "cwnd": 20,
                "weight": 10, "source": "192.0.2.11", "mtu": 1400
            },
            {"destination": "203.0.113.0/24", "route-type": "unreachable"}
        ]}}),
        json!({"route-rules": {"config": [{
            "ip-from": "192.0.2.0/24", "ip-to": "198.51.100.0/24", "priority": 1000,
            "route-table": 70, "fwmark": 16, "fwmask": 240, "iif": "eth1", "suppress-prefix-length": 0
        }]}}),
        json!({"dns-resolver": {"config": {
            "server": ["192.0.2.53"], "search": ["example.org"],
            "options": ["rotate", "timeout:2", "ndots:3"]
        }}}),
        json!({"hostname": {"running": "node-1", "config": "node-1.example.org"}}),
        json!({
            "ovs-db": {
                "external_ids": {"a": "b", "gone": null}, "other_config": {"stats-update-interval": "1000"}
            },
            "ovn": {"bridge-mappings": [{"localnet": "a", "bridge": "ovs1", "state": "present"}]}
        }),
    ];
    let interfaces = interfaces
        .into_iter()
        .chain(rich)
        .map(|interfaces| json!({ "interfaces": interfaces }));
    interfaces.chain(others).chain(sections).collect()
}

#[test]
fn states_of_each_kind_have_nmstates_verdict() {
    let host = host();
    for state in documents() {
        agree(&state, &host);
    }
}

/// Changes one place of a state.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Remove,
    Rename,
    Number(i64),
    Text(&'static str),
    Truth,
    List,
    Object,
    Twice,
}

const DAMAGES: [Damage; 11] = [
    Damage::Remove,
    Damage::Rename,
    Damage::Number(0),
    Damage::Number(-1),
    Damage::Number(70_000),
    Damage::Text(""),
    Damage::Text("x"),
    Damage::Truth,
    Damage::List,
    Damage::Object,
    Damage::Twice,
];

/// All places below a value, as JSON pointers.
fn places(value: &Value) -> Vec<String> {
    let below = |step: String, value: &Value| {
        let step = format!("/{}", step.replace('~', "~0").replace('/', "~1"));
        let mut all = vec![step.clone()];
        all.extend(
            places(value)
                .into_iter()
                .map(|place| format!("{step}{place}")),
        );
        all
    };
    match value {
        Value::Object(map) => map
            .iter()
            .flat_map(|(key, value)| below(key.clone(), value))
            .collect(),
        Value::Array(list) => {
            let all = list.iter().enumerate();
            all.flat_map(|(index, value)| below(index.to_string(), value))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The state with this damage. `None` if the place cannot have it.
fn damaged(state: &Value, place: &str, damage: Damage) -> Option<Value> {
    let mut state = state.clone();
    let (above, step) = place.rsplit_once('/')?;
    let above = state.pointer_mut(above)?;
    match (damage, above) {
        (Damage::Remove, Value::Object(map)) => {
            map.remove(step)?;
        }
        (Damage::Rename, Value::Object(map)) => {
            let value = map.remove(step)?;
            map.insert(format!("{step}-x"), value);
        }
        (Damage::Remove | Damage::Twice, Value::Array(list)) => {
            let index: usize = step.parse().ok()?;
            let value = list.remove(index);
            if matches!(damage, Damage::Twice) {
                list.extend([value.clone(), value]);
            }
        }
        (Damage::Rename | Damage::Twice, _) => return None,
        (_, _) => {
            let other = match damage {
                Damage::Number(number) => number.into(),
                Damage::Text(text) => text.into(),
                Damage::Truth => true.into(),
                Damage::List => json!([]),
                _ => json!({}),
            };
            let value = state.pointer_mut(place)?;
            if *value == other {
                return None;
            }
            *value = other;
        }
    }
    Some(state)
}

#[test]
fn damaged_states_have_nmstates_verdict() {
    let host = host();
    let mut count = 0;
    let mut differences = Vec::new();
    for state in documents() {
        for place in places(&state) {
            for damage in DAMAGES {
                let Some(damaged) = damaged(&state, &place, damage) else {
                    continue;
                };
                count += 1;
                if let Err(found) = difference(&damaged, &host) {
                    differences.push(format!("{place} {damage:?}\n{found}"));
                }
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {count}:\n{}",
        differences.len(),
        differences.join("\n\n")
    );
    assert!(count > 6000, "only {count} states");
}

/// nmstate reads numbers and booleans of Open vSwitch's database from YAML, as kubernetes-nmstate
/// hands it over.
#[test]
fn numbers_of_open_vswitchs_database_are_read_as_from_yaml() {
    let text = "ovs-db: {external_ids: {n: 1}, other_config: {hw-offload: true}}\n";
    let of_yaml = NetworkState::new_from_yaml(text).unwrap();
    let desired =
        json!({"ovs-db": {"external_ids": {"n": 1}, "other_config": {"hw-offload": true}}});
    let found = check::desired_state("desiredState", &desired, false);
    assert!(found.is_empty(), "{found:?}");
    let translated = render::own(&desired).unwrap();
    assert_eq!(state::parse::<NetworkState>(&translated).unwrap(), of_yaml);
}

/// A card, with wishes that a host can refuse.
fn card() -> impl Strategy<Value = Value> {
    let family = |extra: &'static str| {
        (
            prop::option::of(any::<bool>()),
            prop::option::of(any::<bool>()),
            prop::option::of(any::<bool>()),
        )
            .prop_map(move |(enabled, dhcp, other)| {
                let mut family = json!({});
                for (key, value) in [("enabled", enabled), ("dhcp", dhcp), (extra, other)] {
                    if let Some(value) = value {
                        family[key] = value.into();
                    }
                }
                family
            })
    };
    (
        prop::sample::select(vec!["eth1", "eth2", "eth3", "eth4", "eth5", "eth9"]),
        prop::option::of(prop::sample::select(vec![1000, 1280, 1500, 9000, 9001])),
        prop::option::of(prop::sample::select(vec!["", "br1", "bond1", "red", "br9"])),
        prop::option::of(family("auto-dns")),
        prop::option::of(family("autoconf")),
    )
        .prop_map(|(name, mtu, controller, ipv4, ipv6)| {
            let mut card = json!({"name": name, "type": "ethernet", "state": "up"});
            let mut set = |key: &str, value: Option<Value>| {
                if let Some(value) = value {
                    card[key] = value;
                }
            };
            set("mtu", mtu.map(Value::from));
            set("controller", controller.map(Value::from));
            set("ipv4", ipv4);
            set("ipv6", ipv6);
            card
        })
}

fn some_ports() -> impl Strategy<Value = Option<Vec<&'static str>>> {
    prop::option::of(prop::collection::vec(
        prop::sample::select(vec!["eth1", "eth2", "eth3", "eth4", "eth5", "eth9"]),
        0..3,
    ))
}

/// An interface with ports.
fn controller() -> impl Strategy<Value = Value> {
    let bond = (
        prop::sample::select(vec!["bond1", "bond2"]),
        prop::option::of(prop::sample::select(vec![
            "802.3ad",
            "balance-rr",
            "active-backup",
        ])),
        prop::option::of(prop::sample::select(vec![
            json!({"lacp_rate": "fast"}),
            json!({"miimon": 100}),
            json!({"arp_interval": 100, "arp_ip_target": "192.0.2.9"}),
            json!({"miimon": 100, "arp_interval": 100, "arp_ip_target": "192.0.2.9"}),
        ])),
        some_ports(),
    )
        .prop_map(|(name, mode, options, ports)| {
            let mut bond =
                json!({"name": name, "type": "bond", "state": "up", "link-aggregation": {}});
            for (key, value) in [
                ("mode", mode.map(Value::from)),
                ("options", options),
                ("port", ports.map(Value::from)),
            ] {
                if let Some(value) = value {
                    bond["link-aggregation"][key] = value;
                }
            }
            bond
        });
    let vlan = prop::option::of(prop::sample::select(vec![
        json!({"mode": "access", "tag": 7}),
        json!({"mode": "access", "tag": 7, "trunk-tags": [{"id": 9}]}),
        json!({"mode": "trunk", "tag": 7, "trunk-tags": [{"id": 9}]}),
        json!({"mode": "trunk", "tag": 7, "enable-native": true, "trunk-tags": [{"id": 9}]}),
        json!({"mode": "trunk", "trunk-tags": [{"id": 9}, {"id": 9}]}),
    ]));
    let bridge = (
        prop::sample::select(vec!["br1", "br2"]),
        vlan,
        prop::option::of(prop::sample::select(vec![1, 2, 30, 31])),
        some_ports(),
    )
        .prop_map(|(name, vlan, delay, ports)| {
            let mut bridge = json!({"name": name, "type": "linux-bridge", "state": "up"});
            if let Some(delay) = delay {
                bridge["bridge"]["options"]["stp"] =
                    json!({"enabled": true, "forward-delay": delay});
            }
            if let Some(ports) = ports {
                let port = |name: &str| match &vlan {
                    Some(vlan) => json!({"name": name, "vlan": vlan}),
                    None => json!({"name": name}),
                };
                bridge["bridge"]["port"] = ports.into_iter().map(port).collect();
            }
            bridge
        });
    let vrf = (
        prop::sample::select(vec!["red", "blue"]),
        prop::option::of(prop::sample::select(vec![70, 71])),
        some_ports(),
    )
        .prop_map(|(name, table, ports)| {
            let mut vrf = json!({"name": name, "type": "vrf", "state": "up", "vrf": {}});
            if let Some(table) = table {
                vrf["vrf"]["route-table-id"] = table.into();
            }
            if let Some(ports) = ports {
                vrf["vrf"]["port"] = ports.into();
            }
            vrf
        });
    prop_oneof![bond, bridge, vrf]
}

/// An interface that stands on another one, goes, or has another type than the host's.
fn other() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({"name": "eth1.7", "type": "vlan", "state": "up", "mtu": 1500, "vlan": {"base-iface": "eth1", "id": 7}}),
        json!({"name": "v9", "type": "vlan", "state": "up", "vlan": {"base-iface": "bond1", "id": 9}}),
        json!({"name": "v9", "type": "vlan", "state": "up", "mtu": 9000, "vlan": {"base-iface": "eth2", "id": 9}}),
        json!({"name": "v9", "type": "vlan", "state": "up", "vlan": {"base-iface": "eth9", "id": 9}}),
        json!({"name": "eth1.7", "type": "dummy", "state": "up"}),
        json!({"name": "br1", "type": "linux-bridge", "state": "absent"}),
        json!({"name": "bond1", "state": "absent"}),
        json!({"name": "bond1", "type": "bond", "state": "absent"}),
        json!({"name": "red", "type": "vrf", "state": "absent"}),
        json!({"name": "br1", "type": "bond", "state": "absent"}),
        json!({"name": "eth9", "type": "ethernet", "state": "absent"}),
        json!({"name": "lo", "type": "loopback", "state": "up", "ipv4": {"enabled": false}}),
    ])
}

fn sections() -> impl Strategy<Value = Value> {
    let route = prop::sample::select(vec![
        json!({"destination": "198.51.100.0/24", "next-hop-interface": "eth1", "next-hop-address": "192.0.2.1"}),
        json!({"destination": "198.51.100.0/24", "next-hop-interface": "eth2"}),
        json!({"destination": "2001:db8::/32", "next-hop-interface": "eth1"}),
        json!({"destination": "198.51.100.0/24", "next-hop-interface": "eth9"}),
        json!({"destination": "0.0.0.0/8", "next-hop-interface": "eth1"}),
        json!({"destination": "198.51.100.0/24", "next-hop-interface": "eth1", "vrf-name": "red"}),
        json!({"destination": "198.51.100.0/24", "next-hop-interface": "eth1", "vrf-name": "blue"}),
        json!({"state": "absent", "next-hop-interface": "eth9"}),
    ]);
    let rule = prop::sample::select(vec![
        json!({"ip-from": "192.0.2.0/24", "route-table": 70}),
        json!({"priority": 700}),
        json!({"ip-to": "2001:db8::/32", "fwmask": 1}),
    ]);
    let mapping = prop::sample::select(vec![
        json!({"localnet": "a", "bridge": "ovs1"}),
        json!({"localnet": "a", "bridge": "br1"}),
        json!({"localnet": "b"}),
        json!({"localnet": "b", "state": "absent"}),
    ]);
    let list = |entry: prop::sample::Select<Value>| prop::collection::vec(entry, 0..2);
    (list(route), list(rule), list(mapping)).prop_map(|(routes, rules, mappings)| {
        json!({
            "routes": {"config": routes}, "route-rules": {"config": rules},
            "ovn": {"bridge-mappings": mappings}
        })
    })
}

fn states() -> impl Strategy<Value = Value> {
    let interface = prop_oneof![3 => card(), 3 => controller(), 2 => other()];
    let list = prop::collection::vec(interface, 0..4);
    (list, prop::option::weighted(0.3, sections())).prop_map(|(list, sections)| {
        let mut state = sections.unwrap_or_else(|| json!({}));
        let mut names = std::collections::BTreeSet::new();
        let once = list
            .into_iter()
            .filter(|interface| names.insert(interface["name"].to_string()));
        state["interfaces"] = once.collect();
        state
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_state_has_nmstates_verdict(desired in states()) {
        let found = difference(&desired, &host());
        prop_assert!(found.is_ok(), "{}", found.unwrap_err());
    }
}
