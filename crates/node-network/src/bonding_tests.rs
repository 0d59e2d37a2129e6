#![allow(clippy::unwrap_used)]

use super::*;
use crate::{
    drift::differences,
    interfaces::{bonds, expand},
    render::{Given, render},
};

/// A card with the VLANs that its neighbor announces. `None`: it hears nothing.
fn card(name: &str, vlans: Option<&[i64]>) -> Value {
    let mut card = json!({
        "name": name, "type": "ethernet", "state": "up",
        "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
        "lldp": {"enabled": true}
    });
    if let Some(vlans) = vlans {
        let vlans: Vec<_> = vlans
            .iter()
            .map(|vid| json!({"name": "", "vid": vid}))
            .collect();
        card["lldp"]["neighbors"] = json!([[
            {"type": 5, "system-name": "switch-1"},
            {"type": 2, "port-id": "7", "port-id-type": 5},
            {"type": 127, "oui": "00:80:c2", "subtype": 3, "ieee-802-1-vlans": vlans}
        ]]);
    }
    card
}

/// The same at a port that is part of an aggregation.
fn aggregated(name: &str) -> Value {
    let mut card = card(name, Some(&[101]));
    let tlvs = card["lldp"]["neighbors"][0].as_array_mut().unwrap();
    tlvs.push(json!({
        "type": 127, "oui": "00:12:0f", "subtype": 3,
        "ieee-802-3-link-aggregation": {"capable": true, "enabled": true}
    }));
    card
}

fn bond(ports: &[&str], mode: &str) -> Value {
    json!({
        "name": "bond101", "type": "bond", "state": "up",
        "link-aggregation": {"mode": mode, "port": ports}
    })
}

/// The example of kubernetes-nmstate's first README, with an addressing.
fn policy() -> Spec {
    serde_json::from_value(json!({
        "priority": 99,
        "match": {"interfaces": {"type": "ethernet", "lldp": {"vlan-ids": [101]}}},
        "autoConfig": {"autoBonding": true},
        "desiredState": {"interfaces": [{"ipv4": {"enabled": true, "dhcp": true}, "mtu": 9000}]},
    }))
    .unwrap()
}

fn of(spec: &Spec, current: &[Value], leaving: &[&str]) -> Bonding {
    let desired = spec.desired_state.clone().unwrap_or_else(|| json!({}));
    let leaving = leaving.iter().map(|name| (*name).to_owned()).collect();
    bonds(spec, &desired, &json!({"interfaces": current}), &leaving)
        .unwrap()
        .unwrap()
}

fn parts(bonding: &Bonding) -> Vec<String> {
    let line = |(card, part): (&String, &Part)| format!("{card} {part}");
    bonding.cards.iter().map(line).collect()
}

fn in_doubt(bonding: &Bonding) -> Vec<&str> {
    let cards = bonding.cards.iter();
    cards
        .filter(|(_, part)| matches!(part, Part::InDoubt { .. }))
        .map(|(card, _)| card.as_str())
        .collect()
}

fn ports(bonding: &Bonding) -> Value {
    bonding
        .interfaces
        .first()
        .map_or(Value::Null, |bond| bond["link-aggregation"]["port"].clone())
}

#[test]
fn cards_whose_neighbors_announce_the_vlan_are_bonded() {
    let current = [
        card("eth1", Some(&[101])),
        card("eth2", Some(&[7, 101])),
        card("eth3", Some(&[102])),
        card("eth4", None),
    ];
    let bonding = of(&policy(), &current, &[]);
    assert_eq!(
        parts(&bonding),
        [
            "eth1 joins bond101: switch-1 (port 7) announces VLAN 101",
            "eth2 joins bond101: switch-1 (port 7) announces VLAN 101",
            "eth3 does not join: its neighbor does not announce VLAN 101",
            "eth4 listens to LLDP and hears no neighbor: switch LLDP on at the other end",
        ]
    );
    assert_eq!(
        bonding.interfaces,
        [
            json!({
                "name": "bond101", "type": "bond", "state": "up", "mtu": 9000,
                "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
                "link-aggregation": {
                    "mode": "active-backup", "options": {"miimon": 100}, "port": ["eth1", "eth2"]
                },
            }),
            json!({
                "name": "bond101.101", "type": "vlan", "state": "up", "mtu": 9000,
                "ipv4": {"enabled": true, "dhcp": true},
                "vlan": {"base-iface": "bond101", "id": 101},
            }),
            json!({"name": "eth1", "type": "ethernet", "state": "up", "lldp": {"enabled": true}}),
            json!({"name": "eth2", "type": "ethernet", "state": "up", "lldp": {"enabled": true}}),
        ]
    );
}

/// The example of the first README has no desired state.
#[test]
fn a_policy_needs_no_desired_state() {
    let spec = Spec {
        desired_state: None,
        ..policy()
    };
    let current = json!({"interfaces": [card("eth1", Some(&[101]))]});
    let rendered = render(&spec, &current, &Given::default()).unwrap().desired;
    let names: Vec<_> = interfaces(&rendered)
        .iter()
        .map(|one| text(&one["name"]))
        .collect();
    assert_eq!(names, ["bond101", "bond101.101", "eth1"]);
    let nothing = json!({"interfaces": [card("eth1", None)]});
    assert_eq!(
        render(&spec, &nothing, &Given::default()).unwrap().desired,
        json!({})
    );
}

#[test]
fn a_card_in_use_does_not_join() {
    let mut first = card("eth1", Some(&[101]));
    first["ipv4"] = json!({"enabled": true, "address": [{"ip": "192.0.2.1", "prefix-length": 24}]});
    let mut second = card("eth2", Some(&[101]));
    second["controller"] = "br0".into();
    let mut deaf = card("eth4", None);
    deaf["lldp"]["enabled"] = false.into();
    let mut local = card("eth5", Some(&[101]));
    local["ipv6"] = json!({"enabled": true, "address": [{"ip": "fe80::1", "prefix-length": 64}]});
    let current = [
        first,
        second,
        card("eth3", Some(&[101])),
        json!({"name": "eth3.5", "type": "vlan", "vlan": {"base-iface": "eth3", "id": 5}}),
        deaf,
        local,
    ];
    let bonding = of(&policy(), &current, &[]);
    assert_eq!(
        parts(&bonding),
        [
            "eth1 does not join: it has the address 192.0.2.1, which a port of a bond loses; remove its addresses first if you do not need them",
            "eth2 does not join: it is a port of br0",
            "eth3 does not join: eth3.5 is on top of it",
            "eth4 does not listen to LLDP: set lldp.enabled to true for it in a policy",
            "eth5 joins bond101: switch-1 (port 7) announces VLAN 101",
        ]
    );
}

#[test]
fn a_port_leaves_only_on_lasting_evidence() {
    let there = bond(&["eth1", "eth2"], "active-backup");
    // A lost frame, or a link that flaps.
    let silent = [
        there.clone(),
        card("eth1", Some(&[101])),
        card("eth2", None),
    ];
    let bonding = of(&policy(), &silent, &["eth2"]);
    assert_eq!(ports(&bonding), json!(["eth1", "eth2"]));
    assert_eq!(in_doubt(&bonding), Vec::<&str>::new());
    // It was plugged in elsewhere.
    let moved = [
        there,
        card("eth1", Some(&[101])),
        card("eth2", Some(&[102])),
    ];
    let bonding = of(&policy(), &moved, &[]);
    assert_eq!(ports(&bonding), json!(["eth1", "eth2"]));
    assert_eq!(in_doubt(&bonding), ["eth2"]);
    let bonding = of(&policy(), &moved, &["eth2"]);
    assert_eq!(ports(&bonding), json!(["eth1"]));
    assert!(bonding.interfaces.iter().all(|one| one["name"] != "eth2"));
}

/// Joining and staying have one condition.
#[test]
fn a_port_whose_neighbor_has_another_address_is_in_doubt() {
    let mut spec = policy();
    let rule = spec
        .match_
        .as_mut()
        .and_then(|rule| rule.interfaces.as_mut());
    rule.unwrap().lldp.as_mut().unwrap().mac_addresses = Some(vec!["00:00:5e:00:53:01".to_owned()]);
    let current = [
        bond(&["eth1", "eth2"], "active-backup"),
        card("eth1", Some(&[101])),
        card("eth2", None),
        card("eth3", Some(&[101])),
    ];
    let bonding = of(&spec, &current, &[]);
    assert_eq!(in_doubt(&bonding), ["eth1"]);
    assert_eq!(ports(&bonding), json!(["eth1", "eth2"]));
}

#[test]
fn the_last_port_stays() {
    let there = bond(&["eth1", "eth2"], "active-backup");
    let moved = [there, card("eth1", Some(&[7])), card("eth2", Some(&[7]))];
    let bonding = of(&policy(), &moved, &["eth1", "eth2"]);
    assert_eq!(ports(&bonding), json!(["eth2"]));
    // A port that was removed from the machine is no port any more.
    let alone = [bond(&["eth1"], "active-backup"), card("eth1", Some(&[7]))];
    assert_eq!(ports(&of(&policy(), &alone, &["eth1"])), json!(["eth1"]));
}

#[test]
fn a_port_that_the_match_does_not_know_stays() {
    let current = [bond(&["ens9"], "active-backup"), card("eth1", Some(&[101]))];
    assert_eq!(
        ports(&of(&policy(), &current, &[])),
        json!(["ens9", "eth1"])
    );
}

#[test]
fn the_bond_aggregates_if_all_neighbors_do() {
    let mode = |current: &[Value]| {
        let bonding = of(&policy(), current, &[]);
        text(&bonding.interfaces[0]["link-aggregation"]["mode"])
    };
    assert_eq!(mode(&[aggregated("eth1"), aggregated("eth2")]), "802.3ad");
    let half = [aggregated("eth1"), card("eth2", Some(&[101]))];
    assert_eq!(mode(&half), "active-backup");
    let ports = ["eth1", "eth2"];
    let silent = [
        bond(&ports, "802.3ad"),
        card("eth1", None),
        card("eth2", None),
    ];
    assert_eq!(
        mode(&silent),
        "802.3ad",
        "no neighbor announces the end of it"
    );
    let one_silent = [
        bond(&ports, "802.3ad"),
        aggregated("eth1"),
        card("eth2", None),
    ];
    assert_eq!(mode(&one_silent), "802.3ad");
    let ended = [
        bond(&ports, "802.3ad"),
        card("eth1", Some(&[101])),
        card("eth2", Some(&[101])),
    ];
    assert_eq!(mode(&ended), "active-backup");
}

#[test]
fn an_unnamed_bond_adds_to_the_bond() {
    let mut spec = policy();
    spec.desired_state = Some(json!({"interfaces": [
        {"type": "bond", "link-aggregation": {"mode": "balance-rr", "options": {"miimon": 50}}},
        {"name": "eth9", "type": "ethernet", "state": "up"}
    ]}));
    let current = json!({"interfaces": [card("eth1", Some(&[101]))]});
    let desired = spec.desired_state.clone().unwrap();
    let (expanded, _) = expand(&spec, &desired, &current, &BTreeSet::new()).unwrap();
    assert_eq!(expanded["interfaces"][0]["name"], "eth9");
    assert_eq!(
        expanded["interfaces"][1]["link-aggregation"],
        json!({"mode": "balance-rr", "options": {"miimon": 50}, "port": ["eth1"]})
    );
}

#[test]
fn a_taken_name_and_another_type_are_refused() {
    let current = json!({"interfaces": [{"name": "bond101", "type": "dummy", "state": "up"}]});
    let error = bonds(&policy(), &json!({}), &current, &BTreeSet::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec.autoConfig.autoBonding: the node has an interface bond101 of type dummy, and the bond would have this name: rename or remove that interface"
    );
    let bridge = json!({"interfaces": [{"type": "linux-bridge"}]});
    let error = bonds(&policy(), &bridge, &json!({}), &BTreeSet::new()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("interfaces[0].type is \"linux-bridge\""),
        "{error}"
    );
}

/// The agent applies a change of the ports as the repair of drift.
#[test]
fn a_new_card_and_a_lost_one_are_differences() {
    let there = bond(&["eth1"], "active-backup");
    for current in [
        vec![
            there.clone(),
            card("eth1", Some(&[101])),
            card("eth2", Some(&[101])),
        ],
        vec![
            bond(&["eth1", "eth2"], "active-backup"),
            card("eth1", Some(&[101])),
            card("eth2", Some(&[102])),
        ],
    ] {
        let desired = json!({"interfaces": of(&policy(), &current, &["eth2"]).interfaces});
        let found = differences(&desired, &json!({"interfaces": current}));
        assert!(
            found
                .iter()
                .any(|one| one.to_string().contains("link-aggregation.port")),
            "{found:?}"
        );
    }
}
