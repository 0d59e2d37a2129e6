#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::{drift::differences, path::entries, removal::changes, translate::translate};

/// Reports of nmstate, each with other spellings of it in a policy.
fn spellings() -> Vec<(Value, Vec<Value>)> {
    let interface = |kind: &str, more: Value| {
        let mut interface = json!({"name": "x1", "type": kind, "state": "up"});
        interface
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"interfaces": [interface]})
    };
    let bond = |options: Value| {
        interface(
            "bond",
            json!({"link-aggregation": {"mode": "802.3ad", "options": options, "port": ["eth1"]}}),
        )
    };
    let router = |value: Value| {
        interface(
            "linux-bridge",
            json!({"bridge": {"options": {"multicast-router": value}, "port": []}}),
        )
    };
    let rule = |mark: Value| {
        json!({"route-rules": {"config": [
            {"ip-from": "192.0.2.0/24", "route-table": 100, "priority": 10, "fwmark": mark}
        ]}})
    };
    let infiniband = |key: &str| {
        interface(
            "infiniband",
            json!({"infiniband": {"base-iface": "ib0", "mode": "datagram", "pkey": key}}),
        )
    };
    let dns =
        |server: &str| json!({"dns-resolver": {"config": {"server": [server], "search": []}}});
    vec![
        (
            interface(
                "ethernet",
                json!({"mtu": 1500, "accept-all-mac-addresses": true}),
            ),
            vec![
                interface(
                    "ethernet",
                    json!({"mtu": "1500", "accept-all-mac-addresses": 1}),
                ),
                interface(
                    "ethernet",
                    json!({"mtu": 1500, "accept-all-mac-addresses": "yes"}),
                ),
            ],
        ),
        (
            interface("ethernet", json!({"lldp": {"enabled": true}})),
            vec![interface("ethernet", json!({"lldp": {"enabled": 1}}))],
        ),
        (
            bond(json!({"use_carrier": true, "lacp_active": "on"})),
            vec![
                bond(json!({"use_carrier": 1, "lacp_active": 1})),
                bond(json!({"use_carrier": "1", "lacp_active": "1"})),
            ],
        ),
        (router(json!("auto")), vec![router(json!(1))]),
        (
            rule(json!("0x20")),
            vec![rule(json!(32)), rule(json!("32"))],
        ),
        (infiniband("0x8001"), vec![infiniband("32769")]),
        (
            dns("2001:db8::1"),
            vec![dns("2001:DB8::1"), dns("2001:0db8:0:0::1")],
        ),
    ]
}

#[test]
fn a_value_in_another_spelling_is_in_place() {
    for (report, policies) in spellings() {
        for policy in policies.iter().chain([&report]) {
            let found = changes(policy, &report);
            assert!(found.is_empty(), "{policy} on {report}: {found:?}");
        }
    }
}

#[test]
fn another_value_is_a_change_in_every_spelling() {
    let host = json!({"interfaces": [
        {"name": "eth1", "type": "ethernet", "state": "up", "mtu": 1500, "accept-all-mac-addresses": true}
    ]});
    for (key, value) in [
        ("mtu", json!("1400")),
        ("accept-all-mac-addresses", json!(0)),
        ("accept-all-mac-addresses", json!("no")),
    ] {
        let wanted = json!({"interfaces": [{"name": "eth1", key: value}]});
        let found = differences(&wanted, &host);
        assert_eq!(found.len(), 1, "{wanted}: {found:?}");
    }
}

#[test]
fn nmstate_ignores_the_mtu_and_the_addresses_of_an_ovs_bridge() {
    let host = json!({"interfaces": [{"name": "br1", "type": "ovs-bridge", "state": "up"}]});
    let wanted = |kind: Option<&str>| {
        let mut bridge = json!({"name": "br1", "state": "up", "mtu": 9000});
        bridge["ipv4"] = json!({"enabled": true, "dhcp": true});
        if let Some(kind) = kind {
            bridge["type"] = kind.into();
        }
        json!({ "interfaces": [bridge] })
    };
    assert_eq!(changes(&wanted(Some("ovs-bridge")), &host), []);
    assert_eq!(changes(&wanted(None), &host), []);
    assert!(!changes(&wanted(Some("ovs-interface")), &host).is_empty());
}

#[test]
fn a_part_that_nmstate_does_not_read_stays_as_it_is() {
    let report = json!({"interfaces": [{
        "name": "eth1", "type": "ethernet", "state": "up", "mtu": "1500", "of-the-future": {"a": 1}
    }]});
    let formed = of_host(&report);
    assert_eq!(formed["interfaces"][0]["mtu"], 1500);
    assert_eq!(formed["interfaces"][0]["of-the-future"], json!({"a": 1}));
    assert_eq!(formed["interfaces"][0].as_object().unwrap().len(), 5);
}

#[test]
fn nothing_is_added_that_nobody_has_said() {
    let bare = json!({"interfaces": [{"name": "eth1"}]});
    let host = json!({"interfaces": [{"name": "eth1", "type": "ethernet", "state": "up"}]});
    assert_eq!(of_desired(&bare, &Index::of(&host)), bare);
}

/// The other forms in which nmstate's parser takes a value, from the schema that was learnt from it.
/// The first one is a form that nmstate writes. None if there is only one form.
fn forms(node: &Value) -> Option<Vec<Value>> {
    let words = || node["one of"].as_array();
    match node.as_str() {
        Some("boolean or text") => Some(
            [
                json!(true),
                json!("true"),
                json!("yes"),
                json!("1"),
                json!(1),
            ]
            .into(),
        ),
        Some(kind) if kind.ends_with(" or text") && kind != "number or text" => {
            Some([json!(7), json!("7"), json!("0x7")].into())
        }
        None if node["numbers"] == true => words().map(|words| {
            let numbers = words
                .iter()
                .filter_map(|word| word.as_str()?.parse::<u64>().ok());
            numbers
                .flat_map(|number| [json!(number), json!(number.to_string())])
                .collect()
        }),
        _ => None,
    }
}

/// All settings below a node that have several forms: the keys that lead there, and the forms.
fn settings(node: &Value, keys: &[String], found: &mut Vec<(Vec<String>, Vec<Value>)>) {
    if let Some(forms) = forms(node) {
        found.push((keys.to_vec(), forms));
    }
    if !node["list"].is_null() {
        settings(&node["list"], &[keys, &["[]".to_owned()]].concat(), found);
    }
    for alternative in entries(&node["any of"]) {
        settings(alternative, keys, found);
    }
    for (key, node) in node["keys"].as_object().into_iter().flatten() {
        settings(node, &[keys, std::slice::from_ref(key)].concat(), found);
    }
}

/// Keys that entries of lists have: each list takes one of these sets.
fn identities() -> [Value; 4] {
    [
        json!({}),
        json!({"name": "eth9"}),
        json!({"ip": "192.0.2.1", "prefix-length": 24}),
        json!({"id": 1}),
    ]
}

/// A value at these keys, in objects and lists whose entries have this identity.
fn at(keys: &[String], value: &Value, identity: &Value) -> Value {
    keys.iter().rev().fold(value.clone(), |value, key| {
        if key == "[]" {
            let mut entry = identity.clone();
            match value.as_object() {
                Some(map) => {
                    entry.as_object_mut().unwrap().extend(map.clone());
                    json!([entry])
                }
                None => json!([value]),
            }
        } else {
            json!({ key.clone(): value })
        }
    })
}

/// The report of a host on which this state is in place. None if nmstate does not read the state.
fn report(state: &Value) -> Option<NetworkState> {
    serde_json::from_value(state.clone()).ok()
}

#[test]
fn every_form_of_a_setting_that_is_in_place_is_no_change() {
    let (mut all, mut unread) = (Vec::new(), Vec::new());
    let schema = &*crate::nmstate_schema::SCHEMA;
    let of_types = schema["types"].as_object().unwrap();
    let sections = |kind: &str| [&schema["interface"], &schema["types"][kind]];
    for kind in of_types.keys() {
        for (key, node) in sections(kind)
            .into_iter()
            .flat_map(|node| node.as_object().unwrap())
        {
            let mut found = Vec::new();
            settings(node, std::slice::from_ref(key), &mut found);
            for (keys, forms) in found {
                let states = |identity: &Value| -> Vec<Value> {
                    let with = |form: &Value| {
                        let mut interface = json!({"name": "x1", "type": kind, "state": "up"});
                        let setting = at(&keys, form, identity);
                        let setting = setting.as_object().unwrap().clone();
                        interface.as_object_mut().unwrap().extend(setting);
                        json!({"interfaces": [interface]})
                    };
                    forms.iter().map(with).collect()
                };
                let identities = identities();
                let read = identities
                    .iter()
                    .map(states)
                    .find(|states| states.iter().any(|state| report(state).is_some()));
                let name = format!("{kind} {}", keys.join("."));
                match read {
                    Some(states) => all.push((name, states)),
                    None => unread.push(name),
                }
            }
        }
    }
    let (mut compared, mut wrong) = (0, Vec::new());
    for (name, states) in all {
        let mut read = states
            .iter()
            .filter_map(|state| Some((state, report(state)?)));
        let Some((_, host)) = read.next() else {
            continue;
        };
        let current = serde_json::to_value(&host).unwrap();
        for (state, _) in read.filter(|(_, wanted)| *wanted == host) {
            compared += 1;
            // Second names of keys become the ones that nmstate reports.
            let state = translate(state).unwrap();
            let found = changes(&state, &current);
            if !found.is_empty() {
                wrong.push(format!("{name}: {state}: {found:?}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        compared >= 150,
        "{compared}, and nmstate does not read {unread:?}"
    );
    // These need more keys, such as the mode of a bond.
    assert!(unread.len() <= compared / 10, "{unread:?}");
}
