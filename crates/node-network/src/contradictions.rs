//! A state that contradicts itself: one interface with two values, an interface that is its own
//! port or base, a port of two interfaces.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use serde_json::Value;

use crate::{
    canonical::same,
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
