//! `spec.match.interfaces`: interfaces of a desired state that have no name get those of the
//! interfaces that match on the node now.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weft_api::node_network::NodeNetworkConfigurationPolicySpec as Spec;

use crate::{
    bonding::{self, Bonding, Part, is_card},
    lldp::neighbors,
    matching::{MatchError, filter},
    path::{interfaces, text},
};

/// The bonds that follow from what neighbors announce. `None` if the policy does not ask for them.
/// See [`bonding::bonding`] for the arguments.
pub(crate) fn bonds(
    spec: &Spec,
    desired: &Value,
    current: &Value,
    leaving: &BTreeSet<String>,
) -> Result<Option<Bonding>, MatchError> {
    if spec
        .auto_config
        .as_ref()
        .is_some_and(|auto| auto.auto_vlan == Some(true))
    {
        return Err(MatchError::Unsupported("spec.autoConfig.autoVlan"));
    }
    if !bonding::is_asked_for(spec) {
        return Ok(None);
    }
    let filter = filter(spec)?.filter(|filter| !filter.vlans.is_empty());
    let filter = filter.ok_or(MatchError::NoVlans)?;
    bonding::bonding(&filter, desired, current, leaving).map(Some)
}

/// See [`crate::render::without_neighbors`].
pub(crate) fn without_neighbors(spec: &Spec, current: &Value) -> BTreeMap<String, Part> {
    let Some(filter) = filter(spec).ok().flatten().filter(|one| one.asks_for_lldp) else {
        return BTreeMap::new();
    };
    let deaf = interfaces(current).iter().filter(|interface| {
        filter.has_name_and_type(interface) && is_card(interface) && neighbors(interface).is_empty()
    });
    deaf.map(|interface| (text(&interface["name"]), Part::without_neighbors(interface)))
        .collect()
}

/// The desired state with a name in each interface, and the part of each card in automatic bonding.
/// `current` is the state of the node. The caller repeats the call when the interfaces of the node
/// change. See [`bonding::bonding`] for `leaving`.
pub(crate) fn expand(
    spec: &Spec,
    desired: &Value,
    current: &Value,
    leaving: &BTreeSet<String>,
) -> Result<(Value, BTreeMap<String, Part>), MatchError> {
    let unnamed = |interface: &Value| text(&interface["name"]).is_empty();
    let (mut expanded, mut cards) = (Vec::new(), BTreeMap::new());
    if let Some(bonding) = bonds(spec, desired, current, leaving)? {
        let named = interfaces(desired).iter().filter(|one| !unnamed(one));
        expanded.extend(named.cloned().chain(bonding.interfaces));
        cards = bonding.cards;
    } else {
        let Some(filter) = filter(spec)? else {
            return match interfaces(desired).iter().position(unnamed) {
                Some(index) => Err(MatchError::Unnamed(index)),
                None => Ok((desired.clone(), cards)),
            };
        };
        for interface in interfaces(desired) {
            if !unnamed(interface) {
                expanded.push(interface.clone());
                continue;
            }
            for found in interfaces(current).iter().filter(|one| filter.matches(one)) {
                let mut named = interface.clone();
                named["name"] = found["name"].clone();
                if named["type"].is_null() {
                    named["type"] = found["type"].clone();
                }
                expanded.push(named);
            }
        }
    }
    let mut desired = desired.clone();
    if !expanded.is_empty() || desired.get("interfaces").is_some() {
        desired["interfaces"] = Value::Array(expanded);
    }
    Ok((desired, cards))
}

#[cfg(test)]
mod tests {
    use weft_api::node_network::InterfaceMatch;

    use super::*;
    use crate::matching::Filter;
    use serde_json::json;

    fn current() -> Value {
        json!({"interfaces": [
            {"name": "lo", "type": "loopback", "state": "up"},
            {"name": "eth0", "type": "ethernet", "state": "up"},
            {"name": "eth1", "type": "veth", "state": "down"},
            {"name": "veth12ab", "type": "veth", "state": "ignore"},
            {"name": "bond0", "type": "bond", "state": "up"},
        ]})
    }

    fn expanded(spec: Value) -> Result<Value, MatchError> {
        let spec: Spec = serde_json::from_value(spec).unwrap();
        let desired = spec.desired_state.clone().unwrap();
        expand(&spec, &desired, &current(), &BTreeSet::new()).map(|(expanded, _)| expanded)
    }

    #[test]
    fn an_unnamed_interface_becomes_one_for_each_that_matches() {
        // As the first README had it: all Ethernet interfaces by DHCP.
        let policy = json!({
            "priority": 99,
            "match": {"interfaces": {"type": "ethernet"}},
            "desiredState": {
                "interfaces": [
                    {"state": "up", "ipv4": {"enabled": true, "dhcp": true}},
                    {"name": "br0", "type": "linux-bridge"}
                ]
            },
        });
        assert_eq!(
            expanded(policy).unwrap(),
            json!({"interfaces": [
                {
                    "name": "eth0", "type": "ethernet", "state": "up",
                    "ipv4": {"enabled": true, "dhcp": true}
                },
                {
                    "name": "eth1", "type": "veth", "state": "up",
                    "ipv4": {"enabled": true, "dhcp": true}
                },
                {"name": "br0", "type": "linux-bridge"},
            ]})
        );
    }

    #[test]
    fn name_and_type_must_both_match() {
        let names = |name: Option<&str>, kind: Option<&str>| -> Vec<String> {
            let filter = Filter::new(&InterfaceMatch {
                name: name.map(str::to_owned),
                type_: kind.map(str::to_owned),
                lldp: None,
            });
            let (filter, current) = (filter.unwrap(), current());
            let found = interfaces(&current).iter();
            found
                .filter(|interface| filter.matches(interface))
                .map(|interface| text(&interface["name"]))
                .collect()
        };
        assert_eq!(names(Some("eth*"), None), ["eth0", "eth1"]);
        assert_eq!(names(Some("eth?"), Some("bond")), Vec::<String>::new());
        assert_eq!(names(Some("*"), Some("bond")), ["bond0"]);
        assert_eq!(names(Some("eth0"), None), ["eth0"]);
        assert_eq!(names(Some("eth[1-9]"), None), ["eth1"]);
        assert_eq!(names(None, Some("veth")), ["eth1"]);
    }

    #[test]
    fn interfaces_without_a_match_are_reported() {
        let desired = json!({"interfaces": [{"name": "eth0"}, {"state": "up"}]});
        assert_eq!(
            expanded(json!({"desiredState": desired})),
            Err(MatchError::Unnamed(1))
        );
        assert_eq!(
            expanded(json!({"match": {"interfaces": {}}, "desiredState": desired})),
            Err(MatchError::Empty)
        );
        assert_eq!(
            expanded(json!({
                "match": {"interfaces": {"type": "ethernet", "lldp": {}}}, "desiredState": desired
            })),
            Err(MatchError::EmptyLldp)
        );
        assert_eq!(
            expanded(json!({"autoConfig": {"autoVlan": true}, "desiredState": {}})),
            Err(MatchError::Unsupported("spec.autoConfig.autoVlan"))
        );
        assert_eq!(
            expanded(json!({
                "match": {"interfaces": {"type": "ethernet"}},
                "autoConfig": {"autoBonding": true}, "desiredState": {}
            })),
            Err(MatchError::NoVlans)
        );
        let nothing = json!({
            "match": {"interfaces": {"name": "ens*"}},
            "desiredState": {"interfaces": [{"state": "up"}]}
        });
        assert_eq!(expanded(nothing).unwrap(), json!({"interfaces": []}));
    }

    /// The VLANs and MAC addresses of the match: an interface must have a neighbor that announces
    /// one of each.
    #[test]
    fn interfaces_match_by_their_neighbors() {
        let heard = |name: &str, mac: &str, vlans: &[i64]| {
            let vlans: Vec<_> = vlans
                .iter()
                .map(|vid| json!({"vid": vid, "name": ""}))
                .collect();
            json!({
                "name": name, "type": "ethernet", "state": "up",
                "lldp": {"enabled": true, "neighbors": [[
                    {"type": 1, "chassis-id": mac, "chassis-id-type": 4},
                    {"type": 127, "ieee-802-1-vlans": vlans}
                ]]}
            })
        };
        let current = json!({"interfaces": [
            heard("eth1", "00:00:5E:00:53:01", &[101, 102]),
            heard("eth2", "00:00:5E:00:53:02", &[102]),
            heard("eth3", "00:00:5E:00:53:02", &[]),
            {"name": "eth4", "type": "ethernet", "state": "up", "lldp": {"enabled": true}},
        ]});
        let names = |lldp: Value| -> Vec<String> {
            let rule = serde_json::from_value(json!({"type": "ethernet", "lldp": lldp})).unwrap();
            let filter = Filter::new(&rule).unwrap();
            let found = interfaces(&current).iter();
            found
                .filter(|interface| filter.matches(interface))
                .map(|interface| text(&interface["name"]))
                .collect()
        };
        assert_eq!(names(json!({"vlan-ids": [101]})), ["eth1"]);
        assert_eq!(names(json!({"vlan-ids": [101, 102]})), ["eth1", "eth2"]);
        assert_eq!(
            names(json!({"mac-addresses": ["00:00:5e:00:53:02"]})),
            ["eth2", "eth3"]
        );
        assert_eq!(
            names(json!({"vlan-ids": [102], "mac-addresses": ["00:00:5E:00:53:02"]})),
            ["eth2"]
        );
    }
}
