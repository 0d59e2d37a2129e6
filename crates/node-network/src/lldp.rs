//! The neighbors that an interface hears by LLDP (IEEE 802.1AB), as nmstate reports them: each is a
//! list of TLVs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::path::{entries, text};

/// A neighbor: the port of a switch at the other end of the cable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Neighbor {
    /// The name of the system, or its chassis id. Empty if it announces neither.
    pub(crate) switch: String,
    /// Its port.
    pub(crate) port: String,
    /// The identifiers of the VLANs that it announces (802.1Q, annex D: VLAN names).
    pub(crate) vlans: BTreeSet<i64>,
    /// The MAC addresses that name its chassis or its port, in lower case.
    pub(crate) macs: BTreeSet<String>,
    /// True if it announces that its port is part of an aggregation (802.3, 79.3.3: link
    /// aggregation status).
    pub(crate) is_aggregated: bool,
}

/// Returns the neighbors of an interface.
pub(crate) fn neighbors(interface: &Value) -> Vec<Neighbor> {
    entries(&interface["lldp"]["neighbors"])
        .iter()
        .map(|tlvs| neighbor(entries(tlvs)))
        .collect()
}

/// Reports whether the interface listens to what its neighbor announces.
pub(crate) fn is_listening(interface: &Value) -> bool {
    interface["lldp"]["enabled"] == true
}

/// Notes in the neighbors of these interfaces that they announce aggregation, as a TLV in the form
/// of nmstate, which leaves it out.
pub fn note_aggregation(state: &mut Value, aggregated: &BTreeSet<String>) {
    let interfaces = state.get_mut("interfaces").and_then(Value::as_array_mut);
    for interface in interfaces.into_iter().flatten() {
        if !aggregated.contains(&text(&interface["name"])) {
            continue;
        }
        let neighbors = interface.pointer_mut("/lldp/neighbors");
        for neighbor in neighbors
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(tlvs) = neighbor.as_array_mut() {
                tlvs.push(json!({
                    "type": 127, "oui": "00:12:0f", "subtype": 3,
                    "ieee-802-3-link-aggregation": {"enabled": true}
                }));
            }
        }
    }
}

fn neighbor(tlvs: &[Value]) -> Neighbor {
    let field = |name: &str| {
        tlvs.iter()
            .map(|tlv| text(&tlv[name]))
            .find(|value| !value.is_empty())
    };
    let is_mac = |value: &String| {
        let parts: Vec<_> = value.split(':').collect();
        parts.len() == 6
            && parts
                .iter()
                .all(|part| u8::from_str_radix(part, 16).is_ok())
    };
    Neighbor {
        switch: field("system-name")
            .or_else(|| field("chassis-id"))
            .unwrap_or_default(),
        port: field("port-id").unwrap_or_default(),
        vlans: tlvs
            .iter()
            .flat_map(|tlv| entries(&tlv["ieee-802-1-vlans"]))
            .filter_map(|vlan| vlan["vid"].as_i64())
            .collect(),
        macs: ["chassis-id", "port-id"]
            .into_iter()
            .filter_map(field)
            .filter(is_mac)
            .map(|mac| mac.to_ascii_lowercase())
            .collect(),
        is_aggregated: tlvs
            .iter()
            .any(|tlv| tlv["ieee-802-3-link-aggregation"]["enabled"] == true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As nmstate reports a neighbor, with the entry that the agent adds at the end.
    #[test]
    fn a_neighbor_is_read_from_its_tlvs() {
        let interface = json!({"name": "eth1", "lldp": {"enabled": true, "neighbors": [[
            {"type": 5, "system-name": "switch-1"},
            {"type": 1, "chassis-id": "00:00:5E:00:53:01", "chassis-id-type": 4, "_description": "MAC address"},
            {"type": 2, "port-id": "1/0/7", "port-id-type": 5, "_description": "Interface name"},
            {"type": 127, "oui": "00:80:c2", "subtype": 3, "ieee-802-1-vlans": [
                {"name": "production", "vid": 101}, {"name": "storage", "vid": 102}
            ]},
            {"type": 127, "oui": "00:12:0f", "subtype": 3, "ieee-802-3-link-aggregation": {"capable": true, "enabled": true}}
        ]]}});
        assert!(is_listening(&interface));
        assert_eq!(
            neighbors(&interface),
            [Neighbor {
                switch: "switch-1".to_owned(),
                port: "1/0/7".to_owned(),
                vlans: BTreeSet::from([101, 102]),
                macs: BTreeSet::from(["00:00:5e:00:53:01".to_owned()]),
                is_aggregated: true,
            }]
        );
    }

    #[test]
    fn aggregation_is_noted_in_the_neighbors_of_its_interface() {
        let heard =
            |name: &str| json!({"name": name, "lldp": {"neighbors": [[{"system-name": "a"}]]}});
        let mut state = json!({"interfaces": [heard("eth1"), heard("eth2"), {"name": "eth3"}]});
        let named = ["eth1", "eth3"].map(str::to_owned).into();
        note_aggregation(&mut state, &named);
        let read = |index: usize| neighbors(&state["interfaces"][index]);
        assert!(read(0)[0].is_aggregated && !read(1)[0].is_aggregated);
        assert_eq!(state["interfaces"][2], json!({"name": "eth3"}));
    }

    #[test]
    fn an_interface_without_lldp_has_no_neighbors() {
        for interface in [
            json!({"name": "eth1"}),
            json!({"name": "eth1", "lldp": {"enabled": false}}),
        ] {
            assert!(!is_listening(&interface));
            assert_eq!(neighbors(&interface), []);
        }
        assert_eq!(
            neighbors(&json!({"lldp": {"neighbors": [[]]}})),
            [Neighbor::default()]
        );
    }
}
