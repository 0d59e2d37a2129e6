//! `spec.match.interfaces`: interfaces of a desired state that have no name get those of the
//! interfaces that match on the node now.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::Value;
use weft_api::node_network::{InterfaceMatch, NodeNetworkConfigurationPolicySpec as Spec};
use weft_operands::problems::given;

use crate::{
    bonding::{self, Bonding, Part, is_card},
    glob::{GlobError, glob},
    lldp::{Neighbor, neighbors},
    path::{interfaces, text},
};

/// A match that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    /// An interface without a name, in a policy that does not say which are meant.
    #[error(
        "spec.desiredState.interfaces[{0}].name is missing: give a name, or say in spec.match.interfaces which interfaces are meant"
    )]
    Unnamed(usize),
    /// A part of the early design that is not there yet.
    #[error("{0} is not supported: remove it, and name the interfaces in spec.desiredState")]
    Unsupported(&'static str),
    /// A match that says nothing would match all interfaces, those of pods included.
    #[error(
        "spec.match.interfaces is empty: give a name (`*` stands for anything, `?` for one character, `[ab]` for one of these), a type, or what neighbors announce (lldp)"
    )]
    Empty,
    /// A match by LLDP that says nothing.
    #[error("spec.match.interfaces.lldp is empty: give vlan-ids or mac-addresses")]
    EmptyLldp,
    /// A pattern that cannot be read.
    #[error("spec.match.interfaces.name: {0}")]
    Pattern(#[from] GlobError),
    /// Automatic bonding without the VLANs whose cards are meant.
    #[error(
        "spec.autoConfig.autoBonding needs spec.match.interfaces.lldp.vlan-ids: list the VLANs whose cards are bonded"
    )]
    NoVlans,
    /// An interface without a name that automatic bonding has no use for.
    #[error(
        "spec.desiredState.interfaces[{index}].type is {kind:?}: with spec.autoConfig.autoBonding an interface without a name is for the VLAN interface (no type, or vlan) or for the bond (type bond)"
    )]
    NeitherBondNorVlan {
        /// The index of the interface.
        index: usize,
        /// Its type.
        kind: String,
    },
    /// Another interface has the name of a bond.
    #[error(
        "spec.autoConfig.autoBonding: the node has an interface {bond} of type {kind}, and the bond would have this name: rename or remove that interface"
    )]
    NameTaken {
        /// The name of the bond.
        bond: String,
        /// The type of the interface.
        kind: String,
    },
}

/// What `spec.match.interfaces` asks for, read.
pub(crate) struct Filter {
    name: Option<Regex>,
    kind: Option<String>,
    /// The VLANs of which a neighbor must announce one. Empty if any will do.
    pub(crate) vlans: Vec<i64>,
    /// The MAC addresses of which a neighbor must have one, in lower case. Empty if any will do.
    macs: BTreeSet<String>,
    asks_for_lldp: bool,
}

impl Filter {
    fn new(rule: &InterfaceMatch) -> Result<Self, MatchError> {
        let name = given(&rule.name).map(glob).transpose()?;
        let kind = given(&rule.type_).map(str::to_owned);
        let (vlans, macs) = rule.lldp.as_ref().map_or_else(Default::default, |lldp| {
            let macs = lldp.mac_addresses.iter().flatten();
            (
                lldp.vlan_ids.clone().unwrap_or_default(),
                macs.map(|mac| mac.to_ascii_lowercase()).collect(),
            )
        });
        let filter = Self {
            name,
            kind,
            vlans,
            macs,
            asks_for_lldp: rule.lldp.is_some(),
        };
        if filter.asks_for_lldp && filter.vlans.is_empty() && filter.macs.is_empty() {
            return Err(MatchError::EmptyLldp);
        }
        if !filter.asks_for_lldp && filter.name.is_none() && filter.kind.is_none() {
            return Err(MatchError::Empty);
        }
        Ok(filter)
    }

    /// Reports whether an interface has the wanted name and type.
    pub(crate) fn has_name_and_type(&self, interface: &Value) -> bool {
        self.name
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(&text(&interface["name"])))
            && self
                .kind
                .as_ref()
                .is_none_or(|kind| is_of_type(interface, kind))
    }

    /// Reports whether a neighbor has one of the wanted MAC addresses.
    pub(crate) fn has_mac_of(&self, neighbor: &Neighbor) -> bool {
        self.macs.is_empty() || !self.macs.is_disjoint(&neighbor.macs)
    }

    /// Reports whether an interface matches. Those that nobody manages, the ends of pods'
    /// connections above all, never do.
    fn matches(&self, interface: &Value) -> bool {
        let is_wanted = |neighbor: &Neighbor| {
            self.has_mac_of(neighbor)
                && (self.vlans.is_empty()
                    || self.vlans.iter().any(|vlan| neighbor.vlans.contains(vlan)))
        };
        self.has_name_and_type(interface)
            && !matches!(interface["state"].as_str(), Some("ignore" | "absent"))
            && (!self.asks_for_lldp || neighbors(interface).iter().any(is_wanted))
    }
}

fn filter(spec: &Spec) -> Result<Option<Filter>, MatchError> {
    let rule = spec.match_.as_ref();
    rule.and_then(|rule| rule.interfaces.as_ref())
        .map(Filter::new)
        .transpose()
}

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

/// The desired state with a name in each interface. `current` is the state of the node. The caller
/// repeats the call when the interfaces of the node change.
pub(crate) fn expand(
    spec: &Spec,
    desired: &Value,
    current: &Value,
    leaving: &BTreeSet<String>,
) -> Result<Value, MatchError> {
    let unnamed = |interface: &Value| text(&interface["name"]).is_empty();
    let mut expanded = Vec::new();
    if let Some(bonding) = bonds(spec, desired, current, leaving)? {
        let named = interfaces(desired).iter().filter(|one| !unnamed(one));
        expanded.extend(named.cloned().chain(bonding.interfaces));
    } else {
        let Some(filter) = filter(spec)? else {
            return match interfaces(desired).iter().position(unnamed) {
                Some(index) => Err(MatchError::Unnamed(index)),
                None => Ok(desired.clone()),
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
    Ok(desired)
}

/// nmstate takes one end of a veth pair for an Ethernet interface.
fn is_of_type(interface: &Value, kind: &str) -> bool {
    let found = interface["type"].as_str();
    found == Some(kind) || (kind == "ethernet" && found == Some("veth"))
}

#[cfg(test)]
mod tests {
    use super::*;
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
        expand(&spec, &desired, &current(), &BTreeSet::new())
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
