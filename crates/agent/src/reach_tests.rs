//! The interfaces, routes, and rules that an entry of a state reaches, as `weft_node_network` finds
//! them, against nmstate's own answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use nmstate::NetworkState;
use serde_json::{Map, Value, json};
use weft_node_network::{check, drift, feasible, removal, resolve, verdict};

const FIRST: &str = "02:00:00:00:00:01";
const SECOND: &str = "02:00:00:00:00:0a";
const THIRD: &str = "02:00:00:00:00:03";

/// Each interface has an MTU of its own, so that the MTU identifies it.
fn current() -> Value {
    json!({
        "interfaces": [
            {
                "name": "bond0", "type": "bond", "state": "up", "mtu": 1500, "mac-address": FIRST,
                "link-aggregation": {"mode": "active-backup", "port": ["eth1", "eth2"]}
            },
            {
                "name": "eth2", "type": "ethernet", "state": "up", "mtu": 1502,
                "mac-address": FIRST, "permanent-mac-address": SECOND,
                "pci-address": "0000:0a:09.7", "alt-names": [{"name": "enp10s9f7"}],
                "controller": "bond0"
            },
            {
                "name": "eth1", "type": "ethernet", "state": "up", "mtu": 1501,
                "mac-address": FIRST, "permanent-mac-address": FIRST, "controller": "bond0"
            },
            {
                "name": "eth3", "type": "ethernet", "state": "up", "mtu": 1503,
                "mac-address": THIRD, "identifier": "mac-address", "profile-name": "wan0",
                "ipv4": {"enabled": true, "dhcp": false}, "ipv6": {"enabled": true}
            },
            {
                "name": "dummy0", "type": "dummy", "state": "up", "mtu": 1504,
                "ipv4": {"enabled": true, "dhcp": false}, "ipv6": {"enabled": true}
            }
        ],
        "routes": {"config": [
            {
                "destination": "192.0.2.0/24", "next-hop-address": "10.0.0.1",
                "next-hop-interface": "eth3", "metric": 150, "table-id": 254
            },
            {
                "destination": "192.0.2.0/24", "next-hop-address": "10.0.0.2",
                "next-hop-interface": "dummy0", "metric": 100, "table-id": 254
            },
            {
                "destination": "198.51.100.0/24", "next-hop-address": "10.0.0.1",
                "next-hop-interface": "eth3", "metric": 150, "table-id": 100
            },
            {
                "destination": "2001:db8::/32", "next-hop-address": "fe80::1",
                "next-hop-interface": "eth3", "metric": 1024, "table-id": 254
            }
        ]},
        "route-rules": {"config": [
            {"ip-from": "192.0.2.0/24", "priority": 100, "route-table": 100},
            {"ip-from": "192.0.2.0/24", "ip-to": "198.51.100.0/24", "priority": 101, "route-table": 254},
            {"ip-to": "2001:db8::/32", "priority": 100, "route-table": 254, "fwmark": "0x20"},
            {"family": "ipv4", "priority": 102, "route-table": 100, "iif": "eth3"}
        ]}
    })
}

fn read(state: &Value) -> Option<NetworkState> {
    serde_json::from_value(state.clone()).ok()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_refused(wanted: &Value) -> bool {
    !check::desired_state("desiredState", wanted, false).is_empty()
        || feasible::refusal(wanted, &current()).is_some()
        || !verdict::verdict(wanted, Some(&current())).is_empty()
}

/// Calls `look` with each choice of one value for each key. Null stands for a key that is left out.
fn for_each(
    keys: &[(&str, Vec<Value>)],
    entry: &Map<String, Value>,
    look: &mut impl FnMut(&Value),
) {
    let Some(((key, values), others)) = keys.split_first() else {
        return look(&Value::Object(entry.clone()));
    };
    for value in values {
        let mut entry = entry.clone();
        if !value.is_null() {
            entry.insert((*key).to_owned(), value.clone());
        }
        for_each(others, &entry, look);
    }
}

/// The interface that nmstate would change, or nothing if it refuses.
fn interface_by_nmstate(wanted: &Value) -> Option<String> {
    let difference = read(wanted)?.gen_diff(&read(&current()).unwrap()).ok()?;
    let names: Vec<_> = difference
        .interfaces
        .iter()
        .map(|interface| interface.name().to_owned())
        .collect();
    assert!(names.len() <= 1, "{wanted}: {names:?}");
    Some(names.concat())
}

/// The same by Weft.
fn interface_by_weft(wanted: &Value) -> Option<String> {
    if is_refused(wanted) {
        return None;
    }
    let other_names = resolve::other_names(wanted, &current());
    let names: BTreeSet<String> = removal::changes(wanted, &current())
        .into_iter()
        .map(|change| {
            let place = change.path.to_string();
            let (_, rest) = place.split_once('[').unwrap();
            let (key, _) = rest.split_once(']').unwrap();
            other_names
                .get(key)
                .map_or_else(|| key.to_owned(), Clone::clone)
        })
        .collect();
    Some(names.into_iter().collect::<Vec<_>>().join(", "))
}

#[test]
fn an_interface_is_the_one_that_nmstate_finds() {
    let texts = |texts: &[&str]| texts.iter().map(|text| json!(text)).collect::<Vec<_>>();
    let or_none = |values: &[&str]| [vec![Value::Null], texts(values)].concat();
    let all_at_once = json!({"identifier": "name", "mac-address": FIRST, "pci-address": "0a:09.7"});
    let mut identities = vec![json!({}), all_at_once];
    for (key, values) in [
        (
            "mac-address",
            ["", FIRST, "02:00:00:00:00:0A", "02:00:00:00:00:09"],
        ),
        (
            "pci-address",
            ["0a:09.7", "0000:0a:09.7", "0000:0A:09.7", "0000:0a:09.6"],
        ),
    ] {
        identities.push(json!({ "identifier": key }));
        identities.extend(values.map(|value| json!({"identifier": key, key: value})));
    }
    let keys = [
        (
            "name",
            texts(&["eth1", "eth2", "wan0", "wan9", "enp10s9f7", "dummy0"]),
        ),
        ("type", or_none(&["ethernet", "bond", "dummy"])),
        ("state", texts(&["up", "down", "ignore", "absent"])),
        ("profile-name", or_none(&["up0"])),
        ("mtu", vec![json!(1400)]),
    ];
    let (mut compared, mut wrong) = (0, Vec::new());
    for identity in &identities {
        for_each(&keys, identity.as_object().unwrap(), &mut |entry| {
            let wanted = json!({ "interfaces": [entry] });
            let (weft, nmstate) = (interface_by_weft(&wanted), interface_by_nmstate(&wanted));
            compared += 1;
            // nmstate counts an interface that is removed or down as changed, also if it is so
            // already.
            let by = entry["identifier"].as_str().unwrap_or("name");
            let is_equal = match entry["state"].as_str() {
                // nmstate takes such an entry if an earlier one has bound the name to an address.
                Some("up") if by != "name" && text(&entry[by]).is_empty() && weft.is_none() => true,
                // nmstate drops such an entry without a word, and Weft refuses it.
                Some("up")
                    if by == "pci-address"
                        && !entry["profile-name"].is_null()
                        && weft.is_none() =>
                {
                    nmstate.as_deref().is_none_or(str::is_empty)
                }
                Some("up") => weft == nmstate,
                _ => weft == nmstate || weft.as_deref().is_none_or(str::is_empty),
            };
            if !is_equal {
                wrong.push(format!("{entry}: Weft {weft:?}, nmstate {nmstate:?}"));
            }
        });
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert_eq!(compared, 12 * 6 * 4 * 4 * 2);
}

/// The entries of a list that nmstate would remove, or nothing if it refuses.
fn removed_by_nmstate(section: &str, wanted: &Value) -> Option<BTreeSet<String>> {
    let revert = read(wanted)?
        .generate_revert(&read(&current()).unwrap())
        .ok()?;
    let revert = serde_json::to_value(revert).unwrap();
    Some(keys_of(
        section,
        revert[section]["config"].as_array().into_iter().flatten(),
    ))
}

fn removed_by_weft(section: &str, wanted: &Value) -> Option<BTreeSet<String>> {
    if is_refused(wanted) {
        return None;
    }
    let differences = drift::differences(wanted, &current());
    Some(keys_of(
        section,
        differences.iter().map(|difference| &difference.found),
    ))
}

/// The places in the current list of these entries.
fn keys_of<'a>(section: &str, entries: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    let current = serde_json::to_value(read(&current()).unwrap()).unwrap();
    let all = current[section]["config"].as_array().unwrap().clone();
    let typed = |entry: &Value| {
        let state = read(&json!({section: {"config": [entry]}})).unwrap();
        serde_json::to_value(state).unwrap()[section]["config"][0].clone()
    };
    entries
        .map(|entry| {
            let entry = typed(entry);
            let place = all.iter().position(|one| *one == entry);
            place.map_or_else(|| entry.to_string(), |place| format!("{section} {place}"))
        })
        .collect()
}

#[test]
fn a_removal_reaches_the_routes_and_rules_that_nmstate_removes() {
    let none = Value::Null;
    let routes = [
        (
            "destination",
            vec![
                none.clone(),
                json!(""),
                json!("192.0.2.0/24"),
                json!("2001:db8::/32"),
            ],
        ),
        (
            "next-hop-address",
            vec![none.clone(), json!("10.0.0.1"), json!("fe80::1")],
        ),
        (
            "next-hop-interface",
            vec![none.clone(), json!("eth3"), json!("eth1")],
        ),
        (
            "metric",
            vec![none.clone(), json!(-1), json!(0), json!(150)],
        ),
        (
            "table-id",
            vec![none.clone(), json!(0), json!(254), json!(100)],
        ),
    ];
    let rules = [
        (
            "ip-from",
            vec![none.clone(), json!(""), json!("192.0.2.0/24")],
        ),
        (
            "ip-to",
            vec![none.clone(), json!(""), json!("2001:db8::/32")],
        ),
        ("family", vec![none.clone(), json!("ipv4"), json!("ipv6")]),
        (
            "priority",
            vec![none.clone(), json!(-1), json!(0), json!(100)],
        ),
        (
            "route-table",
            vec![none.clone(), json!(0), json!(254), json!(100)],
        ),
        ("fwmark", vec![none.clone(), json!(0), json!("0x20")]),
        ("iif", vec![none, json!("eth3")]),
    ];
    let absent = json!({"state": "absent"});
    for (section, keys) in [("routes", routes.to_vec()), ("route-rules", rules.to_vec())] {
        let (mut compared, mut wrong) = (0, Vec::new());
        for_each(&keys, absent.as_object().unwrap(), &mut |entry| {
            let wanted = json!({section: {"config": [entry]}});
            let weft = removed_by_weft(section, &wanted);
            let nmstate = removed_by_nmstate(section, &wanted);
            compared += 1;
            if weft != nmstate {
                wrong.push(format!("{entry}: Weft {weft:?}, nmstate {nmstate:?}"));
            }
        });
        assert!(
            wrong.is_empty(),
            "{} of {compared}:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
        assert_eq!(
            compared,
            keys.iter()
                .map(|(_, values)| values.len())
                .product::<usize>()
        );
    }
}
