#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;
use crate::removal;

/// A bridge over `eth1` and a bond over `eth2` and `eth3`, each with a VLAN on top, and what stands
/// on that.
fn host() -> Value {
    let address = |ip: &str, length: u8| {
        json!({
            "enabled": true, "dhcp": false, "address": [{"ip": ip, "prefix-length": length}]
        })
    };
    json!({
        "interfaces": [
            {
                "name": "eth0", "type": "ethernet", "state": "up", "mtu": 1500,
                "ipv4": {
                    "enabled": true, "dhcp": true,
                    "address": [
                        {"ip": "192.0.2.11", "prefix-length": 24, "valid-life-time": "30sec"},
                        {"ip": "192.0.2.99", "prefix-length": 24}
                    ]
                }
            },
            {"name": "eth1", "type": "ethernet", "state": "up", "mtu": 1500, "controller": "br1"},
            {"name": "eth2", "type": "ethernet", "state": "up", "mtu": 9000, "controller": "bond0"},
            {"name": "eth3", "type": "ethernet", "state": "up", "mtu": 9000, "controller": "bond0"},
            {
                "name": "br1", "type": "linux-bridge", "state": "up", "mtu": 1500,
                "bridge": {"port": [{"name": "eth1"}]}
            },
            {
                "name": "br1.7", "type": "vlan", "state": "up", "mtu": 1500,
                "vlan": {"base-iface": "br1", "id": 7}, "ipv4": address("198.51.100.1", 24)
            },
            {
                "name": "bond0", "type": "bond", "state": "up", "mtu": 9000,
                "link-aggregation": {"mode": "802.3ad", "port": ["eth2", "eth3"]}
            },
            {
                "name": "bond0.5", "type": "vlan", "state": "up", "mtu": 9000,
                "vlan": {"base-iface": "bond0", "id": 5}, "controller": "br2"
            },
            {
                "name": "mv0", "type": "mac-vlan", "state": "up", "mtu": 1400,
                "mac-vlan": {"base-iface": "bond0.5", "mode": "bridge"}
            },
            {
                "name": "br2", "type": "linux-bridge", "state": "up", "mtu": 1500,
                "bridge": {"port": [{"name": "bond0.5"}]}
            },
            {"name": "va", "type": "veth", "state": "up", "veth": {"peer": "vb"}},
            {"name": "vb", "type": "veth", "state": "up", "veth": {"peer": "va"}},
            {
                "name": "ovs0", "type": "ovs-bridge", "state": "up",
                "bridge": {"port": [{"name": "ovs0"}, {"name": "int1"}]}
            },
            {"name": "ovs0", "type": "ovs-interface", "state": "up", "controller": "ovs0"},
            {"name": "int1", "type": "ovs-interface", "state": "up", "controller": "ovs0"},
        ],
        "routes": {
            "config": [
                {
                    "destination": "203.0.113.0/24", "next-hop-interface": "br1.7",
                    "next-hop-address": "198.51.100.254"
                },
                {
                    "destination": "198.18.0.0/15", "next-hop-interface": "eth0",
                    "next-hop-address": "192.0.2.9"
                }
            ],
            "running": [
                {
                    "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
                    "next-hop-address": "192.0.2.1", "metric": 100
                },
                {
                    "destination": "192.0.2.0/24", "next-hop-interface": "eth0",
                    "next-hop-address": ""
                }
            ]
        }
    })
}

fn said(desired: &Value) -> Vec<String> {
    let changes = removal::changes(desired, &host());
    let found = consequences(desired, &host(), &changes, None);
    let lines = found.iter().map(|one| one.difference.to_string());
    lines.collect()
}

fn interface(interface: Value) -> Value {
    json!({ "interfaces": [interface] })
}

fn absent(name: &str, kind: &str) -> Value {
    interface(json!({"name": name, "type": kind, "state": "absent"}))
}

const NO_ROUTE: &str = "routes.config[203.0.113.0/24 via 198.51.100.254 dev br1.7]";

/// The places of the consequences.
fn places(desired: &Value) -> Vec<String> {
    let changes = removal::changes(desired, &host());
    let found = consequences(desired, &host(), &changes, None);
    let places = found.iter().map(|one| one.difference.path.to_string());
    places.collect()
}

#[test]
fn an_interface_that_goes_takes_all_that_is_on_top_and_frees_its_ports() {
    assert_eq!(
        places(&absent("br1", "linux-bridge")),
        ["interfaces[br1.7]", "interfaces[eth1].controller", NO_ROUTE]
    );
    assert_eq!(
        said(&absent("bond0", "bond")),
        [
            "interfaces[bond0.5]: \"vlan\" should not be there",
            "interfaces[mv0]: \"mac-vlan\" should not be there",
            "interfaces[eth2].controller: \"bond0\" should be \"\"",
            "interfaces[eth3].controller: \"bond0\" should be \"\"",
            "interfaces[br2].bridge.port[bond0.5]: \"a port\" should not be there",
        ]
    );
    assert_eq!(places(&absent("va", "veth")), ["interfaces[vb]"]);
    assert_eq!(
        places(&absent("ovs0", "ovs-bridge")),
        ["interfaces[int1]", "interfaces[ovs0]"]
    );
}

/// The places of the consequences on a host, for this applier.
fn places_by(desired: &Value, host: &Value, applier: Applier) -> Vec<String> {
    let changes = removal::changes(desired, host);
    let found = consequences(desired, host, &changes, Some(applier));
    let places = found.iter().map(|one| one.difference.path.to_string());
    places.collect()
}

#[test]
fn an_interface_that_is_set_down_takes_along_all_that_is_on_top() {
    let down =
        |name: &str, kind: &str| interface(json!({"name": name, "type": kind, "state": "down"}));
    let mut host = host();
    let list = host["interfaces"].as_array_mut().unwrap();
    for (name, base) in [("eth0.9", "eth0"), ("eth0.9.8", "eth0.9")] {
        list.push(json!({
            "name": name, "type": "vlan", "state": "up", "vlan": {"base-iface": base, "id": 9}
        }));
    }
    list.push(json!({
        "name": "loose", "type": "vlan", "state": "up",
        "vlan": {"base-iface": "eth0", "id": 7, "loose-binding": true}
    }));
    list.push(json!({
        "name": "mv1", "type": "mac-vlan", "state": "up", "mac-vlan": {"base-iface": "eth0"}
    }));
    let by_manager = |desired: &Value| places_by(desired, &host, Applier::NetworkManager);
    // nmstate deletes it, so all happens as if it was absent.
    for (name, kind) in [("bond0", "bond"), ("br1", "linux-bridge")] {
        let with = places_by(&absent(name, kind), &host, Applier::NetworkManager);
        assert_eq!(by_manager(&down(name, kind)), with, "{name}");
        assert!(with.len() > 2, "{with:?}");
    }
    // NetworkManager leaves the link of a card up, and the VLANs on top of it.
    let of_card = by_manager(&down("eth0", "ethernet"));
    assert!(
        of_card.iter().all(|place| place.starts_with("routes.")),
        "{of_card:?}"
    );

    let by_kernel = |desired: &Value| places_by(desired, &host, Applier::Kernel);
    assert_eq!(
        by_kernel(&down("br1", "linux-bridge")),
        ["interfaces[br1.7].state", NO_ROUTE]
    );
    let both = ["interfaces[eth0.9].state", "interfaces[eth0.9.8].state"];
    assert_eq!(by_kernel(&down("eth0", "ethernet"))[..2], both);
    assert_eq!(by_kernel(&down("eth0", "ethernet")).len(), 4, "two routes");
    let mut named = down("br1", "linux-bridge");
    let vlan = json!({"name": "br1.7", "type": "vlan", "state": "up"});
    named["interfaces"].as_array_mut().unwrap().push(vlan);
    assert_eq!(by_kernel(&named), [""; 0], "the state has its own wish");

    let vlan = host["interfaces"].as_array_mut().unwrap();
    vlan.iter_mut()
        .filter(|one| one["name"] == "br1")
        .for_each(|one| one["state"] = "down".into());
    for applier in [Applier::NetworkManager, Applier::Kernel] {
        let again = places_by(&down("br1", "linux-bridge"), &host, applier);
        assert_eq!(again, [""; 0], "it is down already");
    }
    let up = interface(json!({"name": "br1", "type": "linux-bridge", "state": "up"}));
    assert_eq!(
        places_by(&up, &host, Applier::Kernel),
        [""; 0],
        "the VLAN is up"
    );
    let list = host["interfaces"].as_array_mut().unwrap();
    list.iter_mut()
        .filter(|one| one["name"] == "br1.7")
        .for_each(|one| one["state"] = "down".into());
    let follows = ["interfaces[br1.7].state"];
    assert_eq!(places_by(&up, &host, Applier::Kernel), follows);
    assert_eq!(places_by(&up, &host, Applier::NetworkManager), [""; 0]);
}

#[test]
fn a_new_port_of_a_vrf_is_named() {
    let listed = interface(json!({
        "name": "red", "type": "vrf", "state": "up", "vrf": {"port": ["eth0"], "route-table-id": 70}
    }));
    assert_eq!(
        said(&listed),
        ["interfaces[eth0].controller: \"\" should be \"red\""]
    );
    let mut host = host();
    host["interfaces"][0]["controller"] = "red".into();
    let vrf = json!({
        "name": "red", "type": "vrf", "state": "up", "vrf": {"port": ["eth0"], "route-table-id": 71}
    });
    host["interfaces"].as_array_mut().unwrap().push(vrf);
    assert_eq!(
        places_by(&listed, &host, Applier::NetworkManager),
        [""; 0],
        "it is one already"
    );
}

#[test]
fn an_interface_of_the_desired_state_is_no_consequence() {
    let both = json!({"interfaces": [
        {"name": "br1", "type": "linux-bridge", "state": "absent"},
        {"name": "br1.7", "type": "vlan", "state": "absent"},
        {"name": "eth1", "type": "ethernet", "state": "up", "controller": ""},
    ]});
    assert_eq!(places(&both), [NO_ROUTE]);
    // A card stays.
    assert_eq!(
        places(&absent("eth1", "ethernet")),
        ["interfaces[br1].bridge.port[eth1]"]
    );
}

#[test]
fn a_bridge_of_open_vswitch_that_leaves_out_an_internal_port_removes_it() {
    let bridge = |more: Value| {
        let mut bridge = json!({"port": [{"name": "ovs0"}]});
        bridge
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        interface(json!({
            "name": "ovs0", "type": "ovs-bridge", "state": "up", "bridge": bridge
        }))
    };
    assert_eq!(places(&bridge(json!({}))), ["interfaces[int1]"]);
    assert_eq!(places(&bridge(json!({"allow-extra-ports": true}))), [""; 0]);
    // It is no patch port.
    assert_eq!(
        places(&bridge(json!({"allow-extra-patch-ports": true}))),
        ["interfaces[int1]"]
    );
}

#[test]
fn a_port_that_another_controller_takes_leaves_its_own() {
    let bridge = |name: &str, port: &str| {
        interface(json!({
            "name": name, "type": "linux-bridge", "state": "up", "bridge": {"port": [{"name": port}]}
        }))
    };
    assert_eq!(
        places(&bridge("br9", "eth1")),
        ["interfaces[br1].bridge.port[eth1]"]
    );
    assert_eq!(
        places(&bridge("br9", "eth2")),
        ["interfaces[bond0].link-aggregation.port[eth2]"]
    );
    assert_eq!(places(&bridge("br9", "eth0")), [""; 0], "it had none");
    let mut both = bridge("br9", "eth1");
    let other = bridge("br1", "va")["interfaces"][0].clone();
    both["interfaces"].as_array_mut().unwrap().push(other);
    assert_eq!(places(&both), [""; 0], "the other one says so itself");
}

#[test]
fn addresses_and_routes_of_a_client_go_with_the_client() {
    let eth0 = |ipv4: Value| {
        interface(json!({"name": "eth0", "type": "ethernet", "state": "up", "ipv4": ipv4}))
    };
    let leased = "interfaces[eth0].ipv4.address[192.0.2.11/24]";
    let default = "routes.config[0.0.0.0/0 via 192.0.2.1 dev eth0]";
    assert_eq!(
        places(&eth0(json!({"enabled": true, "dhcp": false}))),
        [leased, default]
    );
    assert_eq!(
        places(&eth0(json!({"enabled": false}))),
        [
            "interfaces[eth0].ipv4.dhcp",
            leased,
            "interfaces[eth0].ipv4.address[192.0.2.99/24]",
            "routes.config[198.18.0.0/15 via 192.0.2.9 dev eth0]",
            default
        ]
    );
    let mut kept = eth0(json!({
        "enabled": true, "dhcp": false,
        "address": [
            {"ip": "192.0.2.11", "prefix-length": 24}, {"ip": "192.0.2.99", "prefix-length": 24}
        ]
    }));
    kept["routes"] = json!({"config": [
        {
            "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
            "next-hop-address": "192.0.2.1"
        }
    ]});
    assert_eq!(places(&kept), [""; 0], "all of it is wanted");
    assert_eq!(
        places(&eth0(json!({
            "enabled": true, "address": [{"ip": "192.0.2.7", "prefix-length": 24}]
        }))),
        [""; 0],
        "the client stays"
    );
    assert_eq!(
        places(&interface(
            json!({"name": "eth0", "type": "ethernet", "state": "down"})
        )),
        [
            "routes.config[198.18.0.0/15 via 192.0.2.9 dev eth0]",
            default
        ]
    );
}

#[test]
fn mtus_follow_the_base_and_the_bond() {
    let bond =
        |mtu: u32| interface(json!({"name": "bond0", "type": "bond", "state": "up", "mtu": mtu}));
    assert_eq!(
        said(&bond(8000)),
        [
            "interfaces[bond0.5].mtu: 9000 should be 8000",
            "interfaces[eth2].mtu: 9000 should be 8000",
            "interfaces[eth3].mtu: 9000 should be 8000",
        ]
    );
    // The VLAN has its own wish, and what is on top of it follows that.
    let mut with_vlan = bond(1300);
    let vlan = json!({"name": "bond0.5", "type": "vlan", "state": "up", "mtu": 1300});
    with_vlan["interfaces"].as_array_mut().unwrap().push(vlan);
    assert_eq!(
        places(&with_vlan),
        [
            "interfaces[eth2].mtu",
            "interfaces[eth3].mtu",
            "interfaces[mv0].mtu"
        ]
    );
    let joined = interface(json!({
        "name": "bond0", "type": "bond", "state": "up", "mtu": 9000,
        "link-aggregation": {"mode": "802.3ad", "port": ["eth0", "eth2", "eth3"]}
    }));
    assert!(
        places(&joined).contains(&"interfaces[eth0].mtu".to_owned()),
        "{:?}",
        places(&joined)
    );
    let br1 = |mtu: u32| interface(json!({"name": "br1", "type": "linux-bridge", "mtu": mtu}));
    assert_eq!(places(&br1(1400)), ["interfaces[br1.7].mtu"]);
    assert_eq!(places(&br1(9000)), [""; 0], "nothing grows");
}

#[test]
fn a_new_port_gets_the_mtu_of_its_bond() {
    let bond = |name: &str, ports: Value| {
        interface(json!({
            "name": name, "type": "bond", "state": "up",
            "link-aggregation": {"mode": "802.3ad", "port": ports}
        }))
    };
    let mtus = |desired: &Value| -> Vec<String> {
        let said = said(desired).into_iter();
        said.filter(|line| line.contains(".mtu")).collect()
    };
    // No MTU is wanted, so the bond keeps its own.
    let joins = "interfaces[eth0].mtu: 1500 should be 9000";
    assert_eq!(
        mtus(&bond("bond0", json!(["eth0", "eth2", "eth3"]))),
        [joins]
    );
    let by_port = interface(json!({
        "name": "eth0", "type": "ethernet", "state": "up", "controller": "bond0"
    }));
    assert_eq!(mtus(&by_port), [joins]);
    // The kernel makes a bond with an MTU of 1500.
    assert_eq!(
        mtus(&bond("bond9", json!(["eth0", "eth2"]))),
        ["interfaces[eth2].mtu: 9000 should be 1500"]
    );
    let mut with_mtu = bond("bond9", json!(["eth2"]));
    with_mtu["interfaces"][0]["mtu"] = json!(8000);
    assert_eq!(
        mtus(&with_mtu),
        ["interfaces[eth2].mtu: 9000 should be 8000"]
    );
    let mut port_with_mtu = bond("bond9", json!(["eth2"]));
    let eth2 = json!({"name": "eth2", "type": "ethernet", "state": "up", "mtu": 9000});
    port_with_mtu["interfaces"]
        .as_array_mut()
        .unwrap()
        .push(eth2);
    assert_eq!(mtus(&port_with_mtu), [""; 0], "the port has its own wish");
    let bridge = interface(json!({
        "name": "br9", "type": "linux-bridge", "state": "up", "bridge": {"port": [{"name": "eth2"}]}
    }));
    assert_eq!(mtus(&bridge), [""; 0], "a bridge leaves its ports alone");
}

#[test]
fn interfaces_on_top_of_a_new_port_of_a_bond_follow_it() {
    let mut host = host();
    let vlan = json!({
        "name": "eth9.3", "type": "vlan", "state": "up", "mtu": 9000,
        "vlan": {"base-iface": "eth9", "id": 3}
    });
    let card = json!({"name": "eth9", "type": "ethernet", "state": "up", "mtu": 9000});
    host["interfaces"]
        .as_array_mut()
        .unwrap()
        .extend([card, vlan]);
    let desired = interface(json!({
        "name": "bond9", "type": "bond", "state": "up",
        "link-aggregation": {"mode": "802.3ad", "port": ["eth9"]}
    }));
    let changes = removal::changes(&desired, &host);
    let found = consequences(&desired, &host, &changes, None);
    let said: Vec<(String, String)> = found
        .iter()
        .map(|one| (one.difference.to_string(), one.of.to_string()))
        .collect();
    let of = "interfaces[bond9].link-aggregation.port[eth9]";
    assert_eq!(
        said,
        [
            "interfaces[eth9].mtu: 9000 should be 1500",
            "interfaces[eth9.3].mtu: 9000 should be 1500",
        ]
        .map(|line| (line.to_owned(), of.to_owned()))
    );
}

#[test]
fn nothing_follows_from_a_state_that_the_host_has() {
    let desired = interface(json!({"name": "bond0", "type": "bond", "state": "up", "mtu": 9000}));
    assert_eq!(said(&desired), [""; 0]);
}

#[test]
fn a_consequence_names_the_place_that_it_follows_from() {
    let desired = absent("bond0", "bond");
    let changes = removal::changes(&desired, &host());
    let found = consequences(&desired, &host(), &changes, None);
    assert!(
        found
            .iter()
            .all(|one| one.of.to_string() == "interfaces[bond0]"),
        "{found:?}"
    );
}

#[test]
fn a_new_port_comes_up() {
    let mut host = host();
    host["interfaces"][0] = json!({"name": "eth0", "type": "ethernet", "state": "down"});
    let desired = interface(json!({
        "name": "br9", "type": "linux-bridge", "state": "up", "bridge": {"port": [{"name": "eth0"}]}
    }));
    let changes = removal::changes(&desired, &host);
    for applier in [Applier::NetworkManager, Applier::Kernel] {
        let found = consequences(&desired, &host, &changes, Some(applier));
        let lines: Vec<String> = found.iter().map(|one| one.difference.to_string()).collect();
        assert_eq!(
            lines,
            ["interfaces[eth0].state: \"down\" should be \"up\""],
            "{applier:?}"
        );
    }
}

#[test]
fn a_route_goes_in_the_kernel_with_the_network_of_its_gateway() {
    let vlan = |ip: &str| {
        interface(
            json!({"name": "br1.7", "type": "vlan", "state": "up", "ipv4": {
                "enabled": true, "dhcp": false, "address": [{"ip": ip, "prefix-length": 24}]
            }}),
        )
    };
    let places = |desired: &Value, applier: Applier| places_by(desired, &host(), applier);
    assert_eq!(places(&vlan("192.0.2.77"), Applier::Kernel), [NO_ROUTE]);
    assert_eq!(
        places(&vlan("198.51.100.2"), Applier::Kernel),
        [""; 0],
        "the network stays"
    );
    assert_eq!(
        places(&vlan("192.0.2.77"), Applier::NetworkManager),
        [""; 0],
        "it keeps the route"
    );
}
