//! The state that takes back what a policy did.

use crate::{
    claims::{Layer, Owner, Rank},
    drift::OVS_SECTIONS,
    index::Index,
    link::{is_card, is_virtual},
    losses,
    merge::merge,
    path::{entries, interface_key, interfaces, text},
    removal::{OVN_MAPPINGS, is_purge},
    resolve::named,
    route, state,
};
use serde_json::{Map, Value, json};
use std::{borrow::Cow, collections::HashSet};

/// The state that makes the node what it was `before`, as far as `applied` changed it. The wishes
/// of others, `keep`, stay. They win at a place that both define.
///
/// Interfaces that were not there become absent, routes that were not there too, and of interfaces
/// that were there each property that `applied` names gets its former value. An interface that
/// became a port gets its addresses and routes back.
#[must_use]
pub fn revert(before: &Value, applied: &Value, keep: &Value) -> Value {
    let undone = Layer {
        owner: Owner::Policy(String::new()),
        rank: Rank::Policy(0),
        state: undo(before, applied),
    };
    let kept = Layer {
        owner: Owner::Node,
        rank: Rank::Node,
        state: keep.clone(),
    };
    // Only places that the undoing touches: the rest of what others want is there already.
    let merged = merge([&undone, &kept]);
    restrict(merged.state, &undone.state)
}

/// The places of `state` that `scope` has too, by interface and by section.
fn restrict(mut state: Value, scope: &Value) -> Value {
    let Some(map) = state.as_object_mut() else {
        return state::empty();
    };
    map.retain(|section, _| !scope[section.as_str()].is_null());
    let keys: HashSet<Cow<'_, str>> = interfaces(scope).iter().map(interface_key).collect();
    if let Some(list) = map.get_mut("interfaces").and_then(Value::as_array_mut) {
        list.retain(|interface| keys.contains(&*interface_key(interface)));
    }
    state
}

fn undo(before: &Value, applied: &Value) -> Value {
    let mut undone = Map::new();
    let index = Index::of(before);
    let mut changed: Vec<Value> = interfaces(applied)
        .iter()
        .filter_map(|interface| undo_interface(&index, interface))
        .collect();
    let taken = losses::taken(applied, before);
    for port in &taken {
        give_back(port, &mut changed);
    }
    if !changed.is_empty() {
        undone.insert("interfaces".to_owned(), changed.into());
    }
    for route::List {
        section, matches, ..
    } in route::LISTS
    {
        let was = entries(&before[section]["config"]);
        let mut entries = undo_entries(was, entries(&applied[section]["config"]), matches);
        // The routes of a port went with its addresses.
        for route in was {
            let is_of_port = taken
                .iter()
                .any(|port| port["name"] == route["next-hop-interface"]);
            if is_of_port && !entries.contains(route) {
                entries.push(route.clone());
            }
        }
        if !entries.is_empty() {
            undone.insert(section.to_owned(), json!({ "config": entries }));
        }
    }
    if !applied["dns-resolver"]["config"].is_null() {
        let config = &before["dns-resolver"]["config"];
        let list = |key: &str| {
            if config[key].is_null() {
                json!([])
            } else {
                config[key].clone()
            }
        };
        undone.insert(
            "dns-resolver".to_owned(),
            json!({
                "config": {
                    "server": list("server"), "search": list("search"), "options": list("options")
                }
            }),
        );
    }
    if let Some(hostname) = applied["hostname"].as_object() {
        undone.insert(
            "hostname".to_owned(),
            former(hostname, &before["hostname"], &Value::Null),
        );
    }
    if let Some(keys) = open_vswitch(before, applied) {
        undone.insert("ovs-db".to_owned(), keys);
    }
    let mappings: Vec<Value> = entries(&applied["ovn"]["bridge-mappings"])
        .iter()
        .filter_map(|mapping| {
            let there = entries(&before["ovn"]["bridge-mappings"]);
            let was = named(there, "localnet", &mapping["localnet"]);
            match (was, route::is_absent(mapping)) {
                (Some(was), _) => Some(was.clone()),
                (None, false) => Some(json!({"localnet": mapping["localnet"], "state": "absent"})),
                (None, true) => None,
            }
        })
        .collect();
    if !mappings.is_empty() {
        undone.insert("ovn".to_owned(), json!({ "bridge-mappings": mappings }));
    }
    Value::Object(undone)
}

/// Returns the keys of Open vSwitch's database that `applied` names or purges, as they were `before`.
/// Null removes a key. Returns `None` without any key, as an empty `ovs-db` would purge the database.
pub fn open_vswitch(before: &Value, applied: &Value) -> Option<Value> {
    let wanted = applied["ovs-db"].as_object()?;
    let is_purge = is_purge(wanted);
    let of_section = |section: &str| {
        let was = before["ovs-db"][section].as_object();
        let named = wanted.get(section).and_then(Value::as_object);
        let keys = if is_purge { was } else { named };
        let keys = keys.into_iter().flatten().map(|(key, _)| key);
        let former = |key: &String| {
            let value = was.and_then(|was| was.get(key)).cloned();
            (key.clone(), value.unwrap_or_default())
        };
        let former: Map<String, Value> = keys
            .filter(|key| *key != OVN_MAPPINGS)
            .map(former)
            .collect();
        (!former.is_empty()).then(|| (section.to_owned(), Value::Object(former)))
    };
    let sections: Map<String, Value> = OVS_SECTIONS.into_iter().filter_map(of_section).collect();
    (!sections.is_empty()).then_some(Value::Object(sections))
}

fn undo_interface(before: &Index, applied: &Value) -> Option<Value> {
    let was = before.meant(applied);
    let gone = applied["state"] == "absent";
    match was {
        // It was neither there before nor is it wanted.
        None if gone => None,
        // An interface that did not exist or that nobody managed loses its configuration. A network
        // card itself stays.
        None => Some(json!({"name": applied["name"], "type": applied["type"], "state": "absent"})),
        Some(was) if was["state"] == "ignore" => {
            Some(json!({"name": was["name"], "type": was["type"], "state": "absent"}))
        }
        Some(was) if gone => Some(without_reports(was)),
        // Down, a card keeps the profile that the policy has given it. Only without the profile it
        // is as before.
        Some(was) if was["state"] == "down" && is_card(applied, was) => {
            let kind = if is_virtual(was) {
                &applied["type"]
            } else {
                &was["type"]
            };
            Some(json!({"name": was["name"], "type": kind, "state": "absent"}))
        }
        Some(was) => {
            let mut undone = Map::new();
            for key in ["name", "type", "state"] {
                undone.insert(key.to_owned(), was[key].clone());
            }
            for (key, value) in applied.as_object()? {
                if undone.contains_key(key) {
                    continue;
                }
                match (key.as_str(), value) {
                    // All of a stack: one property of it can change the others.
                    ("ipv4" | "ipv6", _) if was[key.as_str()].is_null() => {
                        undone.insert(key.clone(), json!({"enabled": false}));
                    }
                    ("ipv4" | "ipv6", _) => {
                        undone.insert(key.clone(), stack(&was[key.as_str()]));
                    }
                    (_, Value::Object(map)) if !was[key.as_str()].is_null() => {
                        undone.insert(key.clone(), former(map, &was[key.as_str()], &Value::Null));
                    }
                    _ if !was[key.as_str()].is_null() => {
                        undone.insert(key.clone(), was[key.as_str()].clone());
                    }
                    ("description", _) => {
                        undone.insert(key.clone(), "".into());
                    }
                    ("lldp", _) => {
                        undone.insert(key.clone(), json!({"enabled": false}));
                    }
                    ("controller", _) => {
                        undone.insert(key.clone(), "".into());
                    }
                    // How it is found, and what cannot be unset.
                    _ => {}
                }
            }
            Some(Value::Object(undone))
        }
    }
}

/// Gives an interface that became a port the addresses back that it had. An apply takes them away
/// without a word of the policy about them.
fn give_back(port: &Value, changed: &mut Vec<Value>) {
    let had = |family: &str| {
        let is = &port[family];
        let is_automatic = is["dhcp"] == true || is["autoconf"] == true;
        let stack = stack(is);
        let has_any = is_automatic || !entries(&stack["address"]).is_empty();
        (is["enabled"] == true && has_any).then_some(stack)
    };
    let stacks: Vec<(&str, Value)> = ["ipv4", "ipv6"]
        .into_iter()
        .filter_map(|family| Some((family, had(family)?)))
        .collect();
    if port["state"] != "up" || stacks.is_empty() {
        return;
    }
    let is_port = |interface: &Value| interface_key(interface) == interface_key(port);
    let index = changed.iter().position(is_port).unwrap_or_else(|| {
        changed.push(json!({
            "name": port["name"], "type": port["type"], "state": port["state"]
        }));
        changed.len() - 1
    });
    for (family, stack) in stacks {
        if changed[index][family].is_null() {
            changed[index][family] = stack;
        }
    }
}

/// The former values of the keys that are named. Keys without one are left out, or have `nothing`
/// if that means something.
fn former(named: &Map<String, Value>, was: &Value, nothing: &Value) -> Value {
    let mut values = Map::new();
    for (key, value) in named {
        let was = &was[key.as_str()];
        match (value, was) {
            (Value::Object(inner), Value::Object(_)) => {
                drop(values.insert(key.clone(), former(inner, was, nothing)))
            }
            (_, Value::Null) if nothing.is_null() => {}
            (_, Value::Null) => drop(values.insert(key.clone(), nothing.clone())),
            _ => drop(values.insert(key.clone(), was.clone())),
        }
    }
    Value::Object(values)
}

/// A stack without the addresses that another user gives and takes.
fn stack(was: &Value) -> Value {
    let mut stack = was.clone();
    let automatic = was["dhcp"] == true || was["autoconf"] == true;
    if let Some(addresses) = stack.get_mut("address").and_then(Value::as_array_mut) {
        addresses.retain(|address| {
            address["valid-life-time"].is_null() && !text(&address["ip"]).starts_with("fe80:")
        });
        if addresses.is_empty() && automatic {
            stack.as_object_mut().map(|map| map.remove("address"));
        }
    }
    stack
}

/// An interface as it can be wanted again, without what only a report has.
fn without_reports(was: &Value) -> Value {
    let mut wanted = was.clone();
    if let Some(map) = wanted.as_object_mut() {
        for key in [
            "min-mtu",
            "max-mtu",
            "permanent-mac-address",
            "driver",
            "ifIndex",
            "ethtool",
        ] {
            map.remove(key);
        }
        for family in ["ipv4", "ipv6"] {
            if let Some(was) = map.get(family).map(stack) {
                map.insert(family.to_owned(), was);
            }
        }
    }
    wanted
}

fn undo_entries(
    before: &[Value],
    applied: &[Value],
    matches: fn(&Value, &Value) -> bool,
) -> Vec<Value> {
    let mut undone = Vec::new();
    for entry in applied.iter().filter(|entry| !route::is_absent(entry)) {
        if !before.iter().any(|was| matches(entry, was)) {
            let mut removal = entry.clone();
            removal["state"] = "absent".into();
            undone.push(removal);
        }
    }
    for was in before {
        if applied
            .iter()
            .any(|entry| route::is_absent(entry) && matches(entry, was))
        {
            undone.push(was.clone());
        }
    }
    undone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drift::differences;

    fn before() -> Value {
        json!({
            "dns-resolver": {"config": {"server": ["10.0.0.53"]}},
            "routes": {
                "config": [
                    {
                        "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
                        "next-hop-address": "10.0.0.1", "table-id": 254
                    }
                ]
            },
            "interfaces": [
                {"name": "eth0", "type": "ethernet", "state": "up", "mtu": 1500, "min-mtu": 68,
                 "ipv4": {
                     "enabled": true, "dhcp": true,
                     "address": [
                         {"ip": "10.0.0.5", "prefix-length": 24, "valid-life-time": "3000sec"}
                     ]
                 }},
                {
                    "name": "eth1", "type": "ethernet", "state": "down", "mtu": 1500,
                    "lldp": {"enabled": false}
                },
                {
                    "name": "br0", "type": "linux-bridge", "state": "up",
                    "bridge": {
                        "options": {"stp": {"enabled": true, "forward-delay": 15}},
                        "port": [{"name": "eth3"}]
                    }
                },
                {"name": "eth9", "type": "ethernet", "state": "ignore"},
            ],
        })
    }

    #[test]
    fn a_host_that_says_nothing_of_lldp_has_it_off_again() {
        let interface = |lldp: bool| {
            json!({
                "name": "eth9", "type": "ethernet", "state": "up", "lldp": {"enabled": lldp}
            })
        };
        let before = json!({"interfaces": [{"name": "eth9", "type": "ethernet", "state": "up"}]});
        let undone = revert(
            &before,
            &json!({"interfaces": [interface(true)]}),
            &json!({}),
        );
        assert_eq!(undone["interfaces"], json!([interface(false)]));
    }

    #[test]
    fn a_port_goes_back_to_its_controller_and_a_free_card_to_none() {
        let card = |controller: &str| {
            json!({
                "name": "eth1", "type": "ethernet", "state": "up", "controller": controller
            })
        };
        let undone = |was: Value, applied: Value| {
            revert(
                &json!({"interfaces": [was]}),
                &json!({"interfaces": [applied]}),
                &json!({}),
            )["interfaces"][0]
                .clone()
        };
        assert_eq!(
            undone(
                json!({"name": "eth1", "type": "ethernet", "state": "up"}),
                card("br0")
            ),
            card("")
        );
        assert_eq!(undone(card("br0"), card("")), card("br0"));
        assert_eq!(
            undone(
                card("br0"),
                json!({"name": "eth1", "type": "ethernet", "state": "absent"})
            ),
            card("br0")
        );
    }

    #[test]
    fn new_parts_go_and_old_parts_get_their_value_back() {
        let applied = json!({
            "dns-resolver": {"config": {"server": ["10.0.0.54"], "search": ["example.org"]}},
            "routes": {
                "config": [
                    {"state": "absent", "next-hop-interface": "eth0"},
                    {"destination": "10.9.0.0/16", "next-hop-interface": "br1"}
                ]
            },
            "interfaces": [
                {
                    "name": "eth0", "type": "ethernet", "state": "up", "mtu": 9000,
                    "ipv4": {"enabled": false}
                },
                {"name": "eth1", "type": "ethernet", "state": "up", "ipv6": {"enabled": true}},
                {
                    "name": "br1", "type": "linux-bridge", "state": "up",
                    "bridge": {"port": [{"name": "eth1"}]}
                },
                {
                    "name": "br0", "type": "linux-bridge", "state": "up",
                    "bridge": {"options": {"stp": {"enabled": false}}}
                },
                {"name": "eth9", "type": "ethernet", "state": "up"},
                {"name": "gone", "type": "dummy", "state": "absent"},
            ],
        });
        let undone = revert(&before(), &applied, &json!({}));
        let expected = json!({
            "dns-resolver": {"config": {"server": ["10.0.0.53"], "search": [], "options": []}},
            "routes": {"config": [
                {
                    "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
                    "next-hop-address": "10.0.0.1", "table-id": 254
                },
                {"destination": "10.9.0.0/16", "next-hop-interface": "br1", "state": "absent"},
            ]},
            "interfaces": [
                {
                    "name": "eth0", "type": "ethernet", "state": "up", "mtu": 1500,
                    "ipv4": {"enabled": true, "dhcp": true}
                },
                {"name": "eth1", "type": "ethernet", "state": "absent"},
                {"name": "br1", "type": "linux-bridge", "state": "absent"},
                {
                    "name": "br0", "type": "linux-bridge", "state": "up",
                    "bridge": {"options": {"stp": {"enabled": true}}}
                },
                {"name": "eth9", "type": "ethernet", "state": "absent"},
            ],
        });
        assert!(crate::canonical::same(&undone, &expected), "{undone:#}");
        assert!(crate::state::check(&undone).is_ok());
        assert_eq!(
            differences(&undone, &before()),
            [],
            "what is undone is what was before"
        );
    }

    #[test]
    fn removed_configuration_comes_back_as_it_was() {
        let undone = revert(
            &before(),
            &json!({"interfaces": [{"name": "br0", "type": "linux-bridge", "state": "absent"}]}),
            &json!({}),
        );
        assert_eq!(
            undone["interfaces"][0]["bridge"],
            before()["interfaces"][2]["bridge"]
        );
    }

    #[test]
    fn a_card_that_became_a_port_gets_its_addresses_and_routes_back() {
        let mut before = before();
        before["interfaces"][0]["ipv6"] = json!({
            "enabled": true, "dhcp": false, "autoconf": false, "address": [
                {"ip": "2001:db8::5", "prefix-length": 64}, {"ip": "fe80::5", "prefix-length": 64}
            ]
        });
        // Only the address that the kernel gives.
        before["interfaces"][1] = json!({
            "name": "eth1", "type": "ethernet", "state": "up", "ipv4": {"enabled": false},
            "ipv6": {"enabled": true, "address": [{"ip": "fe80::6", "prefix-length": 64}]}
        });
        let applied = json!({
            "interfaces": [{
                "name": "br1", "type": "linux-bridge", "state": "up",
                "ipv4": {"enabled": true, "address": [{"ip": "10.0.0.5", "prefix-length": 24}]},
                "bridge": {"port": [{"name": "eth0"}, {"name": "eth1"}]}
            }],
            "routes": {"config": [{
                "destination": "0.0.0.0/0", "next-hop-interface": "br1",
                "next-hop-address": "10.0.0.1"
            }]}
        });
        let undone = revert(&before, &applied, &json!({}));
        let expected = json!({
            "interfaces": [
                {"name": "br1", "type": "linux-bridge", "state": "absent"},
                {
                    "name": "eth0", "type": "ethernet", "state": "up",
                    "ipv4": {"enabled": true, "dhcp": true},
                    "ipv6": {
                        "enabled": true, "dhcp": false, "autoconf": false,
                        "address": [{"ip": "2001:db8::5", "prefix-length": 64}]
                    }
                },
            ],
            "routes": {"config": [
                {
                    "destination": "0.0.0.0/0", "next-hop-interface": "br1",
                    "next-hop-address": "10.0.0.1", "state": "absent"
                },
                {
                    "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
                    "next-hop-address": "10.0.0.1", "table-id": 254
                },
            ]},
        });
        assert!(crate::canonical::same(&undone, &expected), "{undone:#}");
        assert!(crate::state::check(&undone).is_ok());
        assert_eq!(differences(&undone, &before), []);
    }

    /// An empty section would purge the database once more.
    #[test]
    fn a_purge_of_the_database_of_open_vswitch_is_taken_back() {
        let keys = json!({"external_ids": {"a": "1", "ovn-bridge-mappings": "n:b"}, "other_config": {"c": "3"}});
        let host = json!({"ovs-db": keys});
        let purge = json!({"ovs-db": {}});
        let back = revert(&host, &purge, &state::empty());
        let former = json!({"external_ids": {"a": "1"}, "other_config": {"c": "3"}});
        assert_eq!(back["ovs-db"], former);
        let of_nothing = revert(&json!({}), &purge, &state::empty());
        assert_eq!(of_nothing["ovs-db"], Value::Null);
    }

    #[test]
    fn wishes_of_others_are_kept() {
        let applied = json!({
            "interfaces": [
                {"name": "eth0", "type": "ethernet", "state": "up", "mtu": 9000},
                {"name": "br1", "type": "linux-bridge", "state": "up"}
            ]
        });
        let keep = json!({
            "interfaces": [
                {"name": "br1", "type": "linux-bridge", "state": "up", "mtu": 1400},
                {"name": "eth5", "type": "ethernet", "state": "up"}
            ],
            "hostname": {"config": "x"}
        });
        let undone = revert(&before(), &applied, &keep);
        let expected = json!({
            "interfaces": [
                {"name": "eth0", "type": "ethernet", "state": "up", "mtu": 1500},
                {"name": "br1", "type": "linux-bridge", "state": "up", "mtu": 1400}
            ]
        });
        assert!(crate::canonical::same(&undone, &expected), "{undone:#}");
    }
}
