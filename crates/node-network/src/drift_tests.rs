#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::json;

/// The report of a host, in nmstate's words.
fn current() -> Value {
    json!({
        "hostname": {"running": "node-a", "config": "node-a"},
        "dns-resolver": {
            "running": {"server": ["10.0.0.53"]},
            "config": {"server": ["10.0.0.53", "2001:db8::53"], "search": []}
        },
        "route-rules": {
            "config": [
                {"priority": 30000, "ip-from": "192.0.2.2/32", "route-table": 200, "family": "ipv4"}
            ]
        },
        "routes": {
            "running": [],
            "config": [
                {
                    "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
                    "next-hop-address": "10.0.0.1", "metric": 100, "table-id": 254
                },
                {
                    "destination": "10.9.0.0/16", "next-hop-interface": "eth1",
                    "next-hop-address": "10.1.0.254", "metric": 150, "table-id": 254
                },
            ],
        },
        "interfaces": [
            {"name": "eth0", "type": "ethernet", "state": "up", "mac-address": "02:00:00:00:00:0A", "mtu": 1500,
             "ipv4": {
                 "enabled": true, "dhcp": true,
                 "address": [{"ip": "10.0.0.5", "prefix-length": 24, "valid-life-time": "3000sec"}]
             },
             "ipv6": {"enabled": true, "address": [{"ip": "fe80::1", "prefix-length": 64}]}},
            {"name": "eth1", "type": "veth", "state": "up", "mtu": 1500, "mac-address": "02:00:00:00:00:0B",
             "ipv4": {
                 "enabled": true,
                 "address": [
                     {"ip": "10.1.0.1", "prefix-length": 24},
                     {"ip": "10.1.0.99", "prefix-length": 32}
                 ]
             }},
            {
                "name": "bond0", "type": "bond", "state": "up",
                "link-aggregation": {
                    "mode": "active-backup", "port": ["eth3", "eth2"], "options": {"miimon": 100}
                }
            },
            {"name": "br1", "type": "linux-bridge", "state": "up", "bridge": {
                "options": {"stp": {"enabled": false, "forward-delay": 15}, "mac-ageing-time": 300},
                "port": [
                    {
                        "name": "bond0", "stp-path-cost": 100,
                        "vlan": {
                            "mode": "trunk", "trunk-tags": [{"id-range": {"min": 2, "max": 4094}}]
                        }
                    },
                    {"name": "veth9f", "stp-path-cost": 2},
                ]}},
            {"name": "veth9f", "type": "veth", "state": "ignore"},
            {"name": "eth5", "type": "ethernet", "state": "up", "alt-names": [{"name": "old"}],
             "ipv6": {"enabled": true, "autoconf": true, "auto-dns": true}},
            {"name": "eth9", "type": "ethernet", "state": "down"},
        ],
    })
}

fn paths(desired: Value) -> Vec<String> {
    differences(&desired, &current())
        .iter()
        .map(|difference| difference.path.to_string())
        .collect()
}

fn on(name: &str, kind: &str, rest: Value) -> Value {
    let mut interface = json!({"name": name, "type": kind, "state": "up"});
    interface
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    json!({ "interfaces": [interface] })
}

#[test]
fn an_equal_value_is_no_difference_in_any_spelling() {
    for desired in [
        json!({}),
        on(
            "eth0",
            "ethernet",
            json!({
                "mac-address": "02:00:00:00:00:0a", "mtu": "1500",
                "ipv4": {"enabled": true, "dhcp": "true", "auto-dns": true}
            }),
        ),
        // One end of a veth pair is an Ethernet interface for nmstate. Others may add addresses.
        on(
            "eth1",
            "ethernet",
            json!({
                "ipv4": {
                    "enabled": true, "dhcp": false,
                    "address": [{"ip": "10.1.0.1", "prefix-length": 24}]
                }
            }),
        ),
        on(
            "eth1",
            "ethernet",
            json!({
                "ipv4": {"enabled": true, "auto-routes": false},
                "ipv6": {"enabled": false, "dhcp": true}, "lldp": {"enabled": false}
            }),
        ),
        on(
            "bond0",
            "bond",
            json!({
                "link-aggregation": {
                    "mode": "active-backup", "port": ["eth2", "eth3"],
                    "options": {"miimon": "100", "primary": "eth2"}
                }
            }),
        ),
        // Pods' ports come and go. Ranges of VLANs are sets.
        on(
            "br1",
            "linux-bridge",
            json!({"copy-mac-from": "eth0", "bridge": {"options": {"stp": {"enabled": false}}, "port": [
            {
                "name": "bond0",
                "vlan": {
                    "mode": "trunk",
                    "trunk-tags": [
                        {"id-range": {"min": 2, "max": 100}},
                        {"id-range": {"min": 101, "max": 4094}}
                    ]
                }
            }]}}),
        ),
        on(
            "eth5",
            "ethernet",
            json!({"alt-names": [{"name": "old"}, {"name": "never", "state": "absent"}]}),
        ),
        json!({
            "interfaces": [
                {"name": "gone0", "type": "vlan", "state": "absent"},
                {"name": "eth9", "type": "ethernet", "state": "absent"},
                {"name": "eth9", "type": "ethernet", "state": "down"}
            ]
        }),
        json!({
            "routes": {
                "config": [
                    {
                        "destination": "10.9.0.7/16", "next-hop-interface": "eth1",
                        "next-hop-address": "10.1.0.254", "table-id": 0
                    }
                ]
            }
        }),
        json!({
            "routes": {
                "config": [
                    {"state": "absent", "next-hop-interface": "eth1"},
                    {"destination": "10.9.0.0/16", "next-hop-interface": "eth1"}
                ]
            }
        }),
        json!({"route-rules": {"config": [{"ip-from": "192.0.2.2", "route-table": 200}]}}),
        json!({
            "dns-resolver": {"config": {"server": ["10.0.0.53", "2001:DB8::53"], "options": []}},
            "hostname": {"config": "node-a"}
        }),
    ] {
        assert_eq!(paths(desired.clone()), Vec::<String>::new(), "{desired}");
    }
}

#[test]
fn each_difference_has_its_path() {
    for (desired, path) in [
        (
            on("eth0", "ethernet", json!({"mtu": 9000})),
            "interfaces[eth0].mtu",
        ),
        (on("eth7", "ethernet", json!({})), "interfaces[eth7]"),
        (
            on(
                "eth1",
                "ethernet",
                json!({"ipv4": {"enabled": true, "dhcp": true}}),
            ),
            "interfaces[eth1].ipv4.dhcp",
        ),
        (
            on(
                "eth1",
                "ethernet",
                json!({
                    "ipv4": {"enabled": true, "address": [{"ip": "10.1.0.2", "prefix-length": 24}]}
                }),
            ),
            "interfaces[eth1].ipv4.address[10.1.0.2/24]",
        ),
        (
            on(
                "eth1",
                "ethernet",
                json!({
                    "ipv4": {
                        "enabled": true, "allow-extra-address": false,
                        "address": [{"ip": "10.1.0.1", "prefix-length": 24}]
                    }
                }),
            ),
            "interfaces[eth1].ipv4.address[10.1.0.99/32]",
        ),
        (
            on("eth0", "ethernet", json!({"ipv6": {"enabled": false}})),
            "interfaces[eth0].ipv6.enabled",
        ),
        // The options of automatic addresses count where DHCP or SLAAC is on.
        (
            on(
                "eth0",
                "ethernet",
                json!({"ipv4": {"enabled": true, "dhcp": true, "auto-route-table-id": 200}}),
            ),
            "interfaces[eth0].ipv4.auto-route-table-id",
        ),
        (
            on(
                "eth5",
                "ethernet",
                json!({"ipv6": {"enabled": true, "autoconf": true, "auto-dns": false}}),
            ),
            "interfaces[eth5].ipv6.auto-dns",
        ),
        (
            on(
                "eth5",
                "ethernet",
                json!({"alt-names": [{"name": "old", "state": "absent"}]}),
            ),
            "interfaces[eth5].alt-names[old]",
        ),
        (
            on("eth5", "ethernet", json!({"alt-names": [{"name": "new"}]})),
            "interfaces[eth5].alt-names[new]",
        ),
        (
            on(
                "bond0",
                "bond",
                json!({"link-aggregation": {"mode": "802.3ad"}}),
            ),
            "interfaces[bond0].link-aggregation.mode",
        ),
        (
            on(
                "bond0",
                "bond",
                json!({"link-aggregation": {"options": {"miimon": 140}}}),
            ),
            "interfaces[bond0].link-aggregation.options.miimon",
        ),
        (
            on(
                "bond0",
                "bond",
                json!({"link-aggregation": {"port": ["eth2"]}}),
            ),
            "interfaces[bond0].link-aggregation.port",
        ),
        (
            on(
                "br1",
                "linux-bridge",
                json!({"bridge": {"port": [{"name": "bond0", "vlan": {}}]}}),
            ),
            "interfaces[br1].bridge.port[bond0].vlan",
        ),
        (
            on(
                "br1",
                "linux-bridge",
                json!({"bridge": {"port": [{"name": "bond0"}, {"name": "eth5"}]}}),
            ),
            "interfaces[br1].bridge.port[eth5]",
        ),
        (
            on("br1", "linux-bridge", json!({"bridge": {"port": []}})),
            "interfaces[br1].bridge.port[bond0]",
        ),
        (
            on(
                "br1",
                "linux-bridge",
                json!({"bridge": {"options": {"stp": {"enabled": true}}}}),
            ),
            "interfaces[br1].bridge.options.stp.enabled",
        ),
        (
            json!({"interfaces": [{"name": "br1", "type": "linux-bridge", "state": "absent"}]}),
            "interfaces[br1]",
        ),
        (
            json!({"interfaces": [{"name": "br1", "type": "linux-bridge", "state": "down"}]}),
            "interfaces[br1].state",
        ),
        (
            json!({
                "routes": {"config": [{"destination": "10.8.0.0/16", "next-hop-interface": "eth1"}]}
            }),
            "routes.config[10.8.0.0/16 dev eth1]",
        ),
        (
            json!({"routes": {"config": [{"state": "absent", "next-hop-interface": "eth1"}]}}),
            "routes.config[10.9.0.0/16 via 10.1.0.254 dev eth1]",
        ),
        (
            json!({"route-rules": {"config": [{"ip-from": "192.0.2.3", "route-table": 200}]}}),
            "route-rules.config[ip-from 192.0.2.3 route-table 200]",
        ),
        (
            json!({"dns-resolver": {"config": {"server": ["2001:db8::53", "10.0.0.53"]}}}),
            "dns-resolver.config.server",
        ),
        (
            json!({"hostname": {"running": "node-b"}}),
            "hostname.running",
        ),
        (
            json!({"ovn": {"bridge-mappings": [{"localnet": "net1", "bridge": "br-ex"}]}}),
            "ovn.bridge-mappings[net1].bridge",
        ),
        (
            json!({"ovs-db": {"external_ids": {"system-id": "x"}}}),
            "ovs-db.external_ids.system-id",
        ),
    ] {
        assert_eq!(paths(desired.clone()), [path], "{desired}");
    }
}

#[test]
fn a_key_of_open_vswitch_that_is_null_must_not_be_there() {
    let removed = json!({"ovs-db": {"external_ids": {"rack": null}, "other_config": null}});
    let host = |ids: Value| json!({"ovs-db": {"external_ids": ids, "other_config": {"a": "b"}}});
    let found = differences(&removed, &host(json!({"rack": "7", "row": "1"})));
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["ovs-db.external_ids.rack: \"7\" should not be there"]
    );
    assert_eq!(differences(&removed, &host(json!({"row": "1"}))), []);
}

#[test]
fn a_card_is_found_by_its_address() {
    let desired = json!({
        "interfaces": [
            {
                "name": "uplink", "identifier": "mac-address", "mac-address": "02:00:00:00:00:0a",
                "state": "up", "mtu": 1400
            }
        ]
    });
    assert_eq!(
        differences(&desired, &current())[0].to_string(),
        "interfaces[uplink].mtu: 1500 should be 1400"
    );
    // A bridge on top of it has the same address.
    let bridge = json!({
        "name": "br0", "type": "linux-bridge", "state": "up", "mac-address": "02:00:00:00:00:0A",
        "mtu": 1400
    });
    let mut current = current();
    current["interfaces"]
        .as_array_mut()
        .unwrap()
        .insert(0, bridge);
    assert_eq!(
        differences(&desired, &current)[0].to_string(),
        "interfaces[uplink].mtu: 1500 should be 1400"
    );
}

#[test]
fn a_feature_that_no_report_lists_is_none_that_is_off() {
    let current = json!({"interfaces": [{
        "name": "eth1", "type": "ethernet", "state": "up",
        "ethtool": {"feature": {"rx-gro": true, "rx-lro": false}}
    }]});
    let said = |features: Value| {
        let wanted = on(
            "eth1",
            "ethernet",
            json!({"ethtool": {"feature": features}}),
        );
        let found = differences(&wanted, &current);
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(said(json!({"rx-gro": true, "rx-lro": "false"})), [""; 0]);
    assert_eq!(
        said(json!({"rx-gro": false})),
        ["interfaces[eth1].ethtool.feature.rx-gro: true should be false"]
    );
    assert_eq!(said(json!({"no-such-feature": false})).len(), 1);
}

#[test]
fn a_state_does_not_differ_from_itself() {
    assert_eq!(differences(&current(), &current()), []);
}

#[test]
fn a_bridge_leaves_the_ports_of_others_if_it_says_so() {
    let host = json!({"interfaces": [
        {"name": "br-ex", "type": "ovs-bridge", "state": "up", "bridge": {"port": [
            {"name": "eth1"}, {"name": "eth2"}, {"name": "patch-of-ovn"}
        ]}},
        {"name": "eth1", "type": "ethernet", "state": "up"},
        {"name": "eth2", "type": "ethernet", "state": "up"},
        {
            "name": "patch-of-ovn", "type": "ovs-interface", "state": "up",
            "patch": {"peer": "patch-to-br-ex"}
        },
    ]});
    let lost = |more: Value| {
        let mut bridge = json!({"port": [{"name": "eth1"}]});
        bridge
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let desired = json!({"interfaces": [
            {"name": "br-ex", "type": "ovs-bridge", "state": "up", "bridge": bridge}
        ]});
        let found = differences(&desired, &host);
        let places = found.iter().map(|found| found.path.to_string());
        places.collect::<Vec<_>>()
    };
    let port = |name: &str| format!("interfaces[br-ex (ovs-bridge)].bridge.port[{name}]");
    assert_eq!(lost(json!({})), [port("eth2"), port("patch-of-ovn")]);
    assert_eq!(
        lost(json!({"allow-extra-patch-ports": true})),
        [port("eth2")]
    );
    assert_eq!(lost(json!({"allow-extra-ports": true})), [""; 0]);
}

#[test]
fn a_key_whose_value_is_hidden_can_be_removed_and_counts_as_wanted() {
    let keys = |key: Value| json!({"ovs-db": {"external_ids": {"ssl_key": key}}});
    let found = |wanted: Value| differences(&keys(wanted), &keys(HIDDEN.into()));
    assert_eq!(found("hunter2".into()), []);
    let removed = found(Value::Null);
    assert_eq!(removed.len(), 1, "{removed:?}");
    assert_eq!(removed[0].path.to_string(), "ovs-db.external_ids.ssl_key");
}
