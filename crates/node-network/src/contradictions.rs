//! A state that contradicts itself: one interface with two values, an interface that is its own
//! port or base, a port of two interfaces, interfaces that are the bases of each other.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
};

use serde_json::Value;

use crate::{
    canonical::same,
    index::Index,
    link::base,
    listed_ports,
    path::{Path, entries, interface_key, interfaces, text},
    resolve::identifier,
    state_error::StateError,
};

/// Finds the contradictions of a state that has only known keys.
pub(crate) fn mistakes(state: &Value) -> Vec<StateError> {
    let mut by_key: HashMap<Cow<'_, str>, Vec<&Value>> = HashMap::new();
    let mut found = Vec::new();
    for interface in interfaces(state) {
        let key = interface_key(interface);
        let path = Path::default().key("interfaces").item(&key);
        let earlier = by_key.entry(key).or_default();
        for other in &*earlier {
            two_values(&path, other, interface, &mut found);
        }
        earlier.push(interface);
        own_port(&path, interface, &mut found);
        found.extend(without_address(&path, interface));
    }
    found.extend(shared_ports(state));
    found.extend(loops_of_bases(state, None));
    found
}

/// The interfaces whose bases lead back to themselves, each loop once. nmstate 2.2.62 takes them
/// (`NetworkState::validate`), and the kernel makes none of them. With a host, an interface that
/// says no base keeps the one that it has there.
pub(crate) fn loops_of_bases(desired: &Value, host: Option<&Index>) -> Vec<StateError> {
    let wanted = Index::of(desired);
    let base_of = |name: &str| {
        let (wish, there) = (
            wanted.any_name(name),
            host.and_then(|host| host.any_name(name)),
        );
        if wish.is_some_and(|wish| wish["state"].as_str().unwrap_or("up") != "up") {
            return None;
        }
        let base = wish.and_then(base).or_else(|| there.and_then(base));
        base.map(|(_, base)| base)
    };
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for interface in interfaces(desired).iter().filter(|one| base(one).is_some()) {
        let mut names = Vec::new();
        let mut next = Some(text(&interface["name"]));
        while let Some(name) = next.clone().filter(|name| seen.insert(name.clone())) {
            next = base_of(&name);
            names.push(name);
        }
        let start = next.and_then(|name| names.iter().position(|other| *other == name));
        let ring = start.map_or(&[][..], |start| &names[start..]);
        let wish = |name: &String| {
            let wish = wanted.any_name(name)?;
            base(wish).map(|(section, base)| (wish, section, base))
        };
        let first = ring.iter().position(|name| wish(name).is_some());
        // One that is its own base has a message of its own.
        let Some(first) = first.filter(|_| ring.len() > 1) else {
            continue;
        };
        let mut ring = ring.to_vec();
        ring.rotate_left(first);
        if let Some((interface, section, base)) = ring.first().and_then(wish) {
            let (name, way) = (&ring[0], ring.join(" is on "));
            found.push(StateError::Invalid {
                path: Path::of_interface(interface).key(section).key("base-iface"),
                message: format!(
                    "cannot be {base}: no interface can be below itself, and {way} is on {name}. Give one of them another base"
                ),
            });
        }
    }
    found
}

/// The ports that two interfaces list.
pub(crate) fn shared_ports(state: &Value) -> Vec<StateError> {
    let mut controllers: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Vec::new();
    let all = interfaces(state).iter();
    for interface in all.filter(|one| one["state"].as_str().unwrap_or("up") == "up") {
        let name = text(&interface["name"]);
        for (path, port) in listed_ports::ports(&Path::of_interface(interface), interface) {
            let other = controllers.insert(port.clone(), name.clone());
            if let Some(other) = other.filter(|other| *other != name) {
                let message = format!("{port} is to be a port of {other}, too");
                found.push(StateError::Invalid { path, message });
            }
        }
    }
    found
}

/// Values that two entries of one interface give to the same property. nmstate takes the last entry
/// alone.
fn two_values(path: &Path, earlier: &Value, later: &Value, found: &mut Vec<StateError>) {
    for (key, value) in later.as_object().into_iter().flatten() {
        let (path, other) = (path.key(key), &earlier[key.as_str()]);
        match (other, value) {
            (Value::Null, _) | (_, Value::Null) => {}
            (Value::Object(_), Value::Object(_)) => two_values(&path, other, value, found),
            _ if same(other, value) => {}
            _ => {
                let message = format!(
                    "is {other} in one entry of this interface and {value} in another: write one entry"
                );
                found.push(StateError::Invalid { path, message });
            }
        }
    }
}

/// An entry that says that an address finds its interface, and gives no address. nmstate refuses it
/// (`resolve_mac_identifier_in_desired` and `resolve_pci_identifier` of `ifaces/inter_ifaces.rs`).
fn without_address(path: &Path, interface: &Value) -> Option<StateError> {
    let by = identifier(interface)?;
    text(&interface[by]).is_empty().then(|| StateError::Invalid {
        path: path.key("identifier"),
        message: format!(
            "is {by}, which finds the interface by its {by}, and the entry gives none: add {by}, or leave identifier out to use the name"
        ),
    })
}

fn own_port(path: &Path, interface: &Value, found: &mut Vec<StateError>) {
    let name = text(&interface["name"]);
    let mut refuse = |path: Path, role: &str| {
        found.push(StateError::Invalid {
            path,
            message: format!("{name} cannot be its own {role}"),
        });
    };
    for (section, keys) in [
        ("bridge", ["port", "ports"]),
        ("link-aggregation", ["port", "ports"]),
        ("vrf", ["port", "ports"]),
    ] {
        // Open vSwitch names the internal port of a bridge as the bridge.
        if interface["type"] == "ovs-bridge" {
            continue;
        }
        for key in keys {
            for (index, port) in entries(&interface[section][key]).iter().enumerate() {
                let path = path.key(section).key(key);
                if port["name"] == name.as_str() {
                    refuse(path.item(&name), "port");
                } else if *port == name.as_str() {
                    refuse(path.item(&index.to_string()), "port");
                }
            }
        }
    }
    for section in ["vlan", "vxlan", "mac-vlan", "mac-vtap", "ipvlan", "macsec"] {
        if interface[section]["base-iface"] == name.as_str() {
            refuse(path.key(section).key("base-iface"), "base-iface");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn said(interfaces: Value) -> Vec<String> {
        let mut said: Vec<String> = mistakes(&json!({ "interfaces": interfaces }))
            .iter()
            .map(ToString::to_string)
            .collect();
        // Feature flags of other crates choose the order of keys.
        said.sort();
        said
    }

    #[test]
    fn a_state_that_contradicts_itself_is_named_by_place() {
        assert_eq!(
            said(json!([
                {"name": "eth1", "mtu": 1500, "ipv4": {"enabled": true}},
                {"name": "eth1", "mtu": 9000, "ipv4": {"enabled": false}}
            ])),
            [
                "interfaces[eth1].ipv4.enabled: is true in one entry of this interface and false in another: write one entry",
                "interfaces[eth1].mtu: is 1500 in one entry of this interface and 9000 in another: write one entry",
            ]
        );
        let bond = json!([
            {"name": "bond0", "type": "bond", "link-aggregation": {"port": ["eth1", "bond0"]}}
        ]);
        assert_eq!(
            said(bond),
            ["interfaces[bond0].link-aggregation.port[1]: bond0 cannot be its own port"]
        );
        let bridge =
            json!([{"name": "br0", "type": "linux-bridge", "bridge": {"port": [{"name": "br0"}]}}]);
        assert_eq!(
            said(bridge),
            ["interfaces[br0].bridge.port[br0]: br0 cannot be its own port"]
        );
        let vlan = json!([{"name": "v1", "type": "vlan", "vlan": {"id": 1, "base-iface": "v1"}}]);
        assert_eq!(
            said(vlan),
            ["interfaces[v1].vlan.base-iface: v1 cannot be its own base-iface"]
        );
    }

    #[test]
    fn an_entry_gives_the_address_by_which_it_is_found() {
        for by in ["mac-address", "pci-address"] {
            let wanted = [format!(
                "interfaces[wan0].identifier: is {by}, which finds the interface by its {by}, and the entry gives none: add {by}, or leave identifier out to use the name"
            )];
            for state in ["up", "down", "ignore"] {
                let without = json!({"name": "wan0", "state": state, "identifier": by});
                assert_eq!(said(json!([without])), wanted);
                let empty = json!({"name": "wan0", "state": state, "identifier": by, by: ""});
                assert_eq!(said(json!([empty])), wanted);
            }
            // An interface is removed by its name.
            let absent = json!({"name": "wan0", "state": "absent", "identifier": by});
            assert_eq!(said(json!([absent])), [""; 0]);
        }
        let link = json!({"name": "eth1", "profile-name": "wan0", "identifier": "mac-address"});
        assert_eq!(said(json!([link])), [""; 0]);
    }

    #[test]
    fn a_loop_of_bases_is_refused_once_with_its_whole_way() {
        let vlan = |name: &str, base: Value| json!({"name": name, "type": "vlan", "vlan": {"base-iface": base, "id": 1}});
        let said = |list: Value, host: Option<Value>| -> Vec<String> {
            let state = json!({ "interfaces": list });
            let host = host.map(|list| json!({ "interfaces": list }));
            let host = host.as_ref().map(Index::of);
            let found = loops_of_bases(&state, host.as_ref());
            found.iter().map(ToString::to_string).collect()
        };
        let two = "interfaces[a.1].vlan.base-iface: cannot be b.2: no interface can be below itself, and a.1 is on b.2 is on a.1. Give one of them another base";
        let (a, b) = (vlan("a.1", json!("b.2")), vlan("b.2", json!("a.1")));
        assert_eq!(said(json!([a, b]), None), [two]);
        assert_eq!(said(json!([a]), None), [""; 0]);
        assert_eq!(
            said(json!([a]), Some(json!([b]))),
            [two],
            "the host has the rest"
        );
        let keeps = json!({"name": "b.2", "type": "vlan", "mtu": 1400});
        assert_eq!(said(json!([a, keeps]), Some(json!([b]))), [two]);
        let goes = json!({"name": "b.2", "type": "vlan", "state": "absent"});
        assert_eq!(said(json!([a, goes]), Some(json!([b]))), [""; 0]);
        let moves = vlan("b.2", json!("eth0"));
        assert_eq!(said(json!([a, moves]), Some(json!([b]))), [""; 0]);
        let mac_vlan = json!({"name": "c", "type": "mac-vlan", "mac-vlan": {"base-iface": "d"}});
        let three = json!([vlan("x", json!("c")), mac_vlan, vlan("d", json!("c"))]);
        let found = said(three, None);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("interfaces[c].mac-vlan.base-iface: cannot be d:"),
            "{found:?}"
        );
        let long = json!([
            vlan("a", json!("b")),
            vlan("b", json!("c")),
            vlan("c", json!("a"))
        ]);
        let found = said(long, None);
        assert!(
            found.len() == 1 && found[0].contains(" a is on b is on c is on a."),
            "{found:?}"
        );
        // `weft validate` asks the one, and `weft plan` the other.
        let found = mistakes(&json!({"interfaces": [a, b]}));
        assert!(found.iter().any(|one| one.to_string() == two), "{found:?}");
        let refusal =
            crate::feasible::refusal(&json!({"interfaces": [a]}), &json!({"interfaces": [b]}));
        assert!(refusal.is_some_and(|refusal| refusal.contains(two)));
    }

    #[test]
    fn a_state_that_agrees_with_itself_is_taken() {
        assert_eq!(
            said(json!([
                {"name": "eth1", "mtu": "1500"},
                {"name": "eth1", "mtu": 1500, "lldp": {"enabled": true}}
            ])),
            [""; 0]
        );
        assert_eq!(
            said(json!([
                {"name": "br0", "type": "ovs-bridge", "bridge": {"port": [{"name": "br0"}]}}
            ])),
            [""; 0]
        );
    }
}
