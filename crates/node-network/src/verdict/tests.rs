//! Kinds of refusals, each at its place, and states that nmstate takes.

use serde_json::{Value, json};

use super::verdict;

fn said(desired: &Value, current: Option<&Value>) -> Vec<String> {
    verdict(desired, current)
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// A refusal of a state without a host: its place, and a part of nmstate's words.
#[track_caller]
fn refused(desired: &Value, place: &str, words: &str) {
    one(&said(desired, None), place, words);
}

#[track_caller]
fn one(said: &[String], place: &str, words: &str) {
    let [message] = said else {
        panic!("{said:?}");
    };
    let beginning = format!("{place}: nmstate refuses it: ");
    assert!(message.starts_with(&beginning), "{message}");
    assert!(message.contains(words), "{message}");
}

#[track_caller]
fn taken(desired: &Value, current: Option<&Value>) {
    assert_eq!(said(desired, current), [""; 0], "{desired}");
}

fn interface(interface: Value) -> Value {
    json!({ "interfaces": [interface] })
}

fn bond(mode: &str, options: Value) -> Value {
    interface(json!({
        "name": "bond7", "type": "bond", "state": "up",
        "link-aggregation": {"mode": mode, "options": options, "port": ["p1", "p2"]}
    }))
}

fn bridge(kind: &str, ports: Value) -> Value {
    interface(json!({
        "name": "br7", "type": kind, "state": "up", "bridge": {"port": ports}
    }))
}

fn linux_bridge(options: Value) -> Value {
    interface(json!({
        "name": "br7", "type": "linux-bridge", "state": "up",
        "bridge": {"options": options, "port": [{"name": "p1"}]}
    }))
}

#[test]
fn options_of_bonds_that_exclude_each_other_are_refused() {
    let options = "interfaces[bond7].link-aggregation.options";
    refused(
        &bond("balance-rr", json!({"lacp_rate": "slow"})),
        &format!("{options}.lacp_rate"),
        "802.3ad",
    );
    refused(
        &bond("802.3ad", json!({"arp_interval": 100})),
        &format!("{options}.arp_interval"),
        "802.3ad",
    );
    refused(
        &bond(
            "active-backup",
            json!({"miimon": 100, "arp_interval": 50, "arp_ip_target": "192.0.2.9"}),
        ),
        &format!("{options}.arp_interval"),
        "not compatible",
    );
    taken(&bond("802.3ad", json!({"lacp_rate": "slow"})), None);
}

#[test]
fn vlan_tags_of_ports_are_judged_at_their_port() {
    let ports = |vlan: Value| json!([{"name": "p1"}, {"name": "p2", "vlan": vlan}]);
    for (kind, vlan, key) in [
        (
            "linux-bridge",
            json!({"mode": "access", "tag": 7, "trunk-tags": [{"id": 9}]}),
            ".trunk-tags",
        ),
        (
            "linux-bridge",
            json!({
                "mode": "trunk", "trunk-tags": [{"id-range": {"min": 30, "max": 40}}, {"id": 31}]
            }),
            ".trunk-tags",
        ),
        (
            "ovs-bridge",
            json!({"mode": "trunk", "tag": 7, "trunk-tags": [{"id": 9}]}),
            ".tag",
        ),
    ] {
        let state = bridge(kind, ports(vlan));
        let bridge = match kind {
            "ovs-bridge" => "br7 (ovs-bridge)",
            _ => "br7",
        };
        let place = format!("interfaces[{bridge}].bridge.port[p2].vlan{key}");
        refused(&state, &place, "VLAN");
    }
    taken(
        &bridge("ovs-bridge", ports(json!({"mode": "access", "tag": 7}))),
        None,
    );
}

#[test]
fn a_port_that_is_listed_twice_is_refused() {
    let twice = interface(json!({
        "name": "bond7", "type": "bond", "state": "up",
        "link-aggregation": {"mode": "balance-xor", "port": ["p3", "p3"]}
    }));
    refused(&twice, "interfaces[bond7].link-aggregation.port", "p3");
}

#[test]
fn options_of_bridges_have_their_ranges() {
    for (key, value) in [("forward-delay", 40), ("hello-time", 11), ("max-age", 5)] {
        refused(
            &linux_bridge(json!({"stp": {"enabled": true, key: value}})),
            &format!("interfaces[br7].bridge.options.stp.{key}"),
            "not in the range",
        );
    }
    taken(
        &linux_bridge(json!({"stp": {"enabled": true, "forward-delay": 4}})),
        None,
    );
}

#[test]
fn ipv6_needs_its_mtu() {
    let card = |mtu: u64| {
        interface(json!({
            "name": "p1", "type": "ethernet", "state": "up", "mtu": mtu,
            "ipv6": {"enabled": true, "address": [{"ip": "2001:db8::7", "prefix-length": 64}]}
        }))
    };
    refused(&card(1279), "interfaces[p1].mtu", "1280");
    taken(&card(1280), None);
}

#[test]
fn a_port_has_no_addresses() {
    let state = |kind: &str, enabled: bool| {
        json!({"interfaces": [
            {"name": "p1", "type": "ethernet", "state": "up", "ipv4": {
                "enabled": enabled, "address": [{"ip": "192.0.2.7", "prefix-length": 24}]
            }},
            {"name": "br7", "type": kind, "state": "up", "bridge": {"port": [{"name": "p1"}]}},
        ]})
    };
    refused(
        &state("linux-bridge", true),
        "interfaces[p1].ipv4",
        "give the addresses to the controller",
    );
    taken(&state("linux-bridge", false), None);
    let vrf = json!({"interfaces": [
        {"name": "p1", "type": "ethernet", "state": "up", "ipv4": {"enabled": true, "dhcp": true}},
        {"name": "red", "type": "vrf", "state": "up", "vrf": {"port": ["p1"], "route-table-id": 70}},
    ]});
    taken(&vrf, None);
}

#[test]
fn mappings_of_ovn_need_a_bridge_of_open_vswitch() {
    let mapping = |mapping: Value| json!({"ovn": {"bridge-mappings": [mapping]}});
    refused(
        &mapping(json!({"localnet": "outside"})),
        "ovn.bridge-mappings[0]",
        "missing the `bridge`",
    );
    let mut of_linux = bridge("linux-bridge", json!([]));
    of_linux["ovn"] = json!({"bridge-mappings": [{"localnet": "outside", "bridge": "br7"}]});
    refused(&of_linux, "ovn.bridge-mappings[0]", "name a bridge of type");
    refused(
        &json!({"ovs-db": {"external_ids": {"ovn-bridge-mappings": "outside:br7"}}}),
        "ovs-db.external_ids.ovn-bridge-mappings",
        "`ovn`",
    );
    // The bridge may be on the host.
    let known = mapping(json!({"localnet": "outside", "bridge": "br7"}));
    taken(&known, None);
    let host = |kind: &str| bridge(kind, json!([]));
    taken(&known, Some(&host("ovs-bridge")));
    one(
        &said(&known, Some(&host("linux-bridge"))),
        "ovn.bridge-mappings[0]",
        "There is no OVS bridge",
    );
}

#[test]
fn rules_routes_and_name_servers_are_judged_one_by_one() {
    let rules = json!({"route-rules": {"config": [
        {"ip-from": "192.0.2.0/24", "route-table": 70}, {"priority": 700}
    ]}});
    refused(&rules, "route-rules.config[1]", "ip-from");
    let routes = json!({"routes": {"config": [
        {"destination": "198.51.100.0/24", "next-hop-interface": "p1", "next-hop-address": "192.0.2.1"},
        {"destination": "0.0.0.0/8", "next-hop-interface": "p1"}
    ]}});
    refused(&routes, "routes.config[1]", "0.0.0.0/8");
    let option = |option: &str| {
        json!({"dns-resolver": {"config": {
            "server": ["192.0.2.53"], "options": ["rotate", option]
        }}})
    };
    refused(&option("ndots"), "dns-resolver.config.options[1]", "ndots");
    taken(&option("ndots:2"), None);
    taken(
        &json!({"dns-resolver": {"config": {"search": ["example.org"]}}}),
        None,
    );
}

#[test]
fn the_names_of_a_set_have_one_order() {
    let words = |set: &str| format!("ports {{{set}}} and {{\"b0\"}} are \"up\"");
    let (one, other) = (words("\"eth1\", \"eth0\""), words("\"eth0\", \"eth1\""));
    assert_eq!(super::place::sorted(&one), other);
    assert_eq!(super::place::sorted(&other), other);
    assert_eq!(super::place::sorted("{\"cut"), "{\"cut");
}

#[test]
fn every_mistake_is_named() {
    let state = json!({
        "interfaces": [
            {"name": "p1", "type": "ethernet", "state": "up", "mtu": 1000, "ipv6": {"enabled": true}},
            {"name": "bond7", "type": "bond", "state": "up", "link-aggregation": {
                "mode": "balance-rr", "options": {"lacp_rate": "fast"}
            }},
        ],
        "route-rules": {"config": [{"priority": 700}]},
    });
    let said = said(&state, None);
    let places: Vec<&str> = said
        .iter()
        .filter_map(|message| message.split(": ").next())
        .collect();
    assert_eq!(
        places,
        [
            "interfaces[p1].mtu",
            "interfaces[bond7].link-aggregation.options.lacp_rate",
            "route-rules.config[0]"
        ]
    );
}

#[test]
fn everything_that_a_host_may_have_counts_as_being_there() {
    for state in [
        interface(json!({
            "name": "bond7", "type": "bond", "state": "up", "link-aggregation": {"port": ["p1"]}
        })),
        interface(json!({"name": "p1", "mtu": 1500})),
        interface(json!({"name": "lo", "ipv4": {
            "enabled": true, "address": [{"ip": "203.0.113.1", "prefix-length": 32}]
        }})),
        interface(json!({"name": "lo", "state": "absent"})),
        interface(json!({
            "name": "bond7", "type": "bond", "link-aggregation": {"options": {"balance_slb": true}}
        })),
        json!({"interfaces": [
            {"name": "bond7", "type": "bond", "link-aggregation": {"port": ["ib1"]}},
            {
                "name": "ib1", "type": "infiniband", "state": "up",
                "infiniband": {"mode": "datagram", "pkey": "0xffff"}
            },
        ]}),
        json!({"interfaces": [
            {
                "name": "br-ex", "type": "ovs-bridge", "state": "up",
                "bridge": {"port": [{"name": "br-ex"}, {"name": "p1"}, {"name": "int1"}]}
            },
            {"name": "int1", "ipv4": {"enabled": true, "dhcp": true}},
        ], "routes": {"config": [{
            "destination": "198.51.100.0/24", "next-hop-interface": "br-ex",
            "next-hop-address": "192.0.2.1"
        }]}, "dns-resolver": {"config": {"server": ["fe80::53%br-ex"]}}}),
        json!({"interfaces": [
            {"name": "p1", "controller": "red", "ipv4": {"enabled": true, "dhcp": true}},
            {"name": "red", "mtu": 1500},
        ]}),
        json!({"interfaces": [{"name": "red", "mtu": 1500}], "routes": {"config": [{
            "destination": "198.51.100.0/24", "next-hop-interface": "p1", "vrf-name": "red"
        }]}}),
        interface(json!({"name": "p1.7", "type": "vlan", "state": "up", "vlan": {"id": 7}})),
        interface(json!({"name": "p1", "type": "ethernet", "controller": "br7"})),
        interface(json!({
            "name": "red", "type": "vrf", "state": "up", "vrf": {"port": ["p1"]}
        })),
        interface(json!({
            "name": "p1", "type": "ethernet", "ipv6": {"enabled": true, "autoconf": true}
        })),
        interface(json!({
            "name": "bond7", "type": "bond", "state": "up", "copy-mac-from": "p1",
            "link-aggregation": {"mode": "802.3ad", "port": ["p1", "p2"]}
        })),
        interface(json!({
            "name": "br-ex", "type": "ovs-interface", "state": "up", "controller": "br-ex"
        })),
        json!({"routes": {"config": [
            {"destination": "2001:db8::/32", "next-hop-interface": "p1", "next-hop-address": "fe80::1"},
            {"destination": "198.51.100.0/24", "next-hop-interface": "p1", "vrf-name": "red"},
            {"destination": "203.0.113.0/24", "route-type": "blackhole"},
        ]}}),
        json!({"route-rules": {"config": [{"iif": "p1", "ip-to": "192.0.2.0/24"}]}}),
        json!({"dns-resolver": {"config": {"server": [
            "192.0.2.53", "2001:db8::53", "192.0.2.54", "fe80::53%p1"
        ]}}}),
        json!({"ovs-db": {"external_ids": {"a": null}, "other_config": {}}}),
        json!({}),
    ] {
        taken(&state, None);
    }
}

#[test]
fn few_mistakes_in_a_long_list_need_few_questions() {
    use std::cell::Cell;
    let asked = Cell::new(0);
    let wrong = [3, 1700];
    let found = super::refused_alone(3000, |range| {
        asked.set(asked.get() + 1);
        wrong.iter().any(|one| range.contains(one))
    });
    assert_eq!(found.into_iter().collect::<Vec<_>>(), wrong);
    assert!(asked.get() < 60, "{} questions", asked.get());
    assert_eq!(
        super::refused_alone(3000, |_| true).len(),
        super::MOST_REFUSALS
    );
    assert!(super::refused_alone(0, |_| true).is_empty());
}

/// A host with a bridge that has one port, and a card with an address.
fn host() -> Value {
    json!({"interfaces": [
        {"name": "p1", "type": "ethernet", "state": "up", "mtu": 1500, "controller": "br7"},
        {"name": "p2", "type": "ethernet", "state": "up", "mtu": 1500, "ipv4": {
            "enabled": true, "dhcp": false, "address": [{"ip": "192.0.2.8", "prefix-length": 24}]
        }},
        {"name": "br7", "type": "linux-bridge", "state": "up", "bridge": {"port": [{"name": "p1"}]}},
        {"name": "bond7", "type": "bond", "state": "up", "link-aggregation": {"mode": "802.3ad"}},
    ]})
}

#[test]
fn the_facts_of_the_host_count() {
    let host = host();
    let with_address = json!({
        "name": "p1", "type": "ethernet", "state": "up", "ipv4": {"enabled": true, "dhcp": true}
    });
    one(
        &said(&interface(with_address.clone()), Some(&host)),
        "interfaces[p1].ipv4",
        "br7",
    );
    let leaves = json!({"interfaces": [
        with_address,
        {"name": "br7", "type": "linux-bridge", "bridge": {"port": []}}
    ]});
    taken(&leaves, Some(&host));
    let route = |via: &str| {
        json!({"routes": {"config": [{
            "destination": "198.51.100.0/24", "next-hop-interface": via, "next-hop-address": "192.0.2.1"
        }]}})
    };
    taken(&route("p2"), Some(&host));
    one(
        &said(&route("p9"), Some(&host)),
        "routes.config[0]",
        "not found",
    );
    one(
        &said(&route("p1"), Some(&host)),
        "routes.config[0]",
        "IPv4 disabled",
    );
    let lacp = |mode: Option<&str>| {
        let mut bond = json!({"options": {"lacp_rate": "fast"}});
        if let Some(mode) = mode {
            bond["mode"] = mode.into();
        }
        interface(json!({
            "name": "bond7", "type": "bond", "state": "up", "link-aggregation": bond
        }))
    };
    taken(&lacp(None), Some(&host));
    one(
        &said(&lacp(Some("balance-rr")), Some(&host)),
        "interfaces[bond7].link-aggregation.options.lacp_rate",
        "802.3ad",
    );
}

/// nmstate makes the functions before it judges the rest.
#[test]
fn a_state_may_use_the_functions_that_it_makes() {
    let host = host();
    let with = |count: u32, more: &[Value]| {
        let card = json!({
            "name": "p2", "type": "ethernet", "state": "up", "ethernet": {"sr-iov": {"total-vfs": count}}
        });
        let all: Vec<&Value> = more.iter().chain([&card]).collect();
        json!({ "interfaces": all })
    };
    let function = |name: &str| json!({"name": name, "type": "ethernet", "state": "up"});
    let bond = |port: &str| {
        json!({
            "name": "bond9", "type": "bond", "state": "up",
            "link-aggregation": {"mode": "active-backup", "port": [port]}
        })
    };
    for more in [
        vec![function("sriov:p2:0"), function("sriov:p2:1")],
        vec![function("p2v0")],
        vec![function("sriov:p2:0"), bond("sriov:p2:1")],
        vec![function("p2v0"), bond("p2v1")],
    ] {
        taken(&with(2, &more), Some(&host));
        let said = said(&with(0, &more), Some(&host));
        assert!(!said.is_empty(), "{more:?}");
    }
    let beyond = said(&with(2, &[function("sriov:p2:2")]), Some(&host));
    assert!(beyond[0].contains("sriov:p2:2"), "{beyond:?}");
    // Such a state makes none first, so nmstate judges the port by the host as it is.
    let only_port = said(&with(2, &[bond("p2v0")]), Some(&host));
    assert!(only_port[0].contains("p2v0"), "{only_port:?}");
}

/// A report does not say of which type a controller is.
#[test]
fn a_port_of_a_vrf_keeps_its_addresses() {
    let mut host = host();
    host["interfaces"].as_array_mut().unwrap().extend([
        json!({"name": "p3", "type": "ethernet", "state": "up", "controller": "red"}),
        json!({"name": "red", "type": "vrf", "state": "up", "vrf": {"port": ["p3"], "route-table-id": 70}}),
    ]);
    let with_address = |port: &str| {
        interface(
            json!({"name": port, "type": "ethernet", "state": "up", "ipv4": {
                "enabled": true, "address": [{"ip": "192.0.2.9", "prefix-length": 24}]
            }}),
        )
    };
    taken(&with_address("p3"), Some(&host));
    let of_bridge = said(&with_address("p1"), Some(&host));
    one(&of_bridge, "interfaces[p1].ipv4", "br7");
}

#[test]
fn a_report_of_another_release_is_judged_by_what_nmstate_reads() {
    let mut host = host();
    host["interfaces"][1]["ethtool"] = json!({"pause": "of a later release"});
    host["of-a-later-release"] = json!({});
    host["routes"] = json!({"config": [{"destination": 7}, {
        "destination": "198.51.100.0/24", "next-hop-interface": "p2", "next-hop-address": "192.0.2.1"
    }]});
    let joins =
        json!({"name": "br7", "type": "linux-bridge", "bridge": {"port": [{"name": "p9"}]}});
    let said = said(&interface(joins), Some(&host));
    assert!(said[0].contains("p9"), "{said:?}");
    let route = json!({"routes": {"config": [{
        "destination": "203.0.113.0/24", "next-hop-interface": "p2", "next-hop-address": "192.0.2.1"
    }]}});
    taken(&route, Some(&host));
}

#[test]
fn a_controller_keeps_the_ports_that_the_state_does_not_list() {
    let also = |more: Value| {
        json!({"interfaces": [
            {"name": "br7", "type": "linux-bridge", "state": "up", "mtu": 1500}, more
        ]})
    };
    let bond = json!({
        "name": "bond8", "type": "bond", "state": "up",
        "link-aggregation": {"mode": "balance-xor", "port": ["p1"]}
    });
    let host = host();
    let said = said(&also(bond.clone()), Some(&host));
    assert!(said[0].contains("overbooked"), "{said:?}");
    taken(&interface(bond), Some(&host));
    let joins = json!({"name": "p2", "type": "ethernet", "controller": "br7"});
    taken(&also(joins), Some(&host));
}

#[test]
fn a_secret_is_not_judged() {
    let macsec = interface(json!({
        "name": "sec7", "type": "macsec", "state": "up", "macsec": {
            "base-iface": "p1", "encrypt": true, "port": 0, "validation": "strict",
            "send-sci": true, "mka-ckn": "0123456789abcdef", "mka-cak": crate::secrets::HIDDEN
        }
    }));
    taken(&macsec, None);
}
