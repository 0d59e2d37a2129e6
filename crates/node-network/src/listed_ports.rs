//! The ports that an interface lists: of a bridge, a bond, a VRF or an HSR interface (nmstate 2.2.62,
//! `Interface::ports`).

use serde_json::Value;

use crate::path::{Path, entries, name_of};

/// The ports that an interface is to have, each with its place.
pub(crate) fn ports(path: &Path, wanted: &Value) -> Vec<(Path, String)> {
    let mut found = Vec::new();
    for section in ["bridge", "link-aggregation", "vrf"] {
        add(&path.key(section), &wanted[section], &mut found);
    }
    for key in ["port1", "port2"] {
        let port = wanted["hsr"][key].as_str();
        let port = port.filter(|port| !port.is_empty());
        found.extend(port.map(|port| (path.key("hsr").key(key), port.to_owned())));
    }
    found
}

/// The names of these ports.
pub(crate) fn names(wanted: &Value) -> impl Iterator<Item = String> + use<> {
    let ports = ports(&Path::default(), wanted);
    ports.into_iter().map(|(_, name)| name)
}

/// Adds the ports of a section. A bond of Open vSwitch is named in its bridge alone, so its ports
/// stand for it.
fn add(path: &Path, section: &Value, found: &mut Vec<(Path, String)>) {
    for key in ["port", "ports"] {
        for port in entries(&section[key]) {
            let name = name_of(port);
            let path = path.key(key).item(&name);
            let bond = ["link-aggregation", "bond"]
                .into_iter()
                .find(|bond| port[bond].is_object());
            match bond {
                Some(bond) => add(&path.key(bond), &port[bond], found),
                None => found.push((path, name)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn listed(wanted: Value) -> Vec<String> {
        let ports = ports(&Path::default(), &wanted);
        let ports = ports.iter().map(|(path, name)| format!("{path} {name}"));
        ports.collect()
    }

    #[test]
    fn each_port_has_its_place() {
        assert_eq!(
            listed(json!({"link-aggregation": {"port": ["eth1", "eth2"]}})),
            [
                "link-aggregation.port[eth1] eth1",
                "link-aggregation.port[eth2] eth2"
            ]
        );
        let members = json!([{"name": "eth2"}, {"name": "eth3"}]);
        let bridge = json!({"bridge": {"port": [
            {"name": "eth1"}, {"name": "bond0", "link-aggregation": {"port": members}}
        ]}});
        assert_eq!(
            listed(bridge),
            [
                "bridge.port[eth1] eth1",
                "bridge.port[bond0].link-aggregation.port[eth2] eth2",
                "bridge.port[bond0].link-aggregation.port[eth3] eth3"
            ]
        );
        assert_eq!(
            listed(json!({"hsr": {"port1": "eth1", "port2": "eth2", "interlink": "eth3"}})),
            ["hsr.port1 eth1", "hsr.port2 eth2"]
        );
    }
}
