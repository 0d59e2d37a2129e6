//! A state that contradicts itself: one interface with two values, an interface that is its own
//! port or base.

use serde_json::Value;

use crate::{
    canonical::same,
    path::{Path, entries, interface_key, interfaces, text},
    state_error::StateError,
};

/// Finds the contradictions of a state that has only known keys.
pub(crate) fn mistakes(state: &Value) -> Vec<StateError> {
    let all = interfaces(state);
    let mut found = Vec::new();
    for (index, interface) in all.iter().enumerate() {
        let (key, path) = (
            interface_key(interface),
            Path::default()
                .key("interfaces")
                .item(&interface_key(interface)),
        );
        for earlier in all[..index]
            .iter()
            .filter(|earlier| interface_key(earlier) == key)
        {
            two_values(&path, earlier, interface, &mut found);
        }
        own_port(&path, interface, &mut found);
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
