//! Reads `spec.match.interfaces`, and says which interfaces of a node match.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::Value;
use weft_api::node_network::{InterfaceMatch, NodeNetworkConfigurationPolicySpec as Spec};
use weft_operands::problems::given;

use crate::{
    glob::{GlobError, glob},
    lldp::{Neighbor, neighbors},
    path::text,
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
        "spec.match.interfaces is empty: give a name (`*` matches anything, `?` one character, `[ab]` one of these), a type, or what neighbors announce (lldp)"
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

/// The condition of `spec.match.interfaces`.
pub(crate) struct Filter {
    name: Option<Regex>,
    kind: Option<String>,
    /// The VLANs of which a neighbor must announce one. Empty if any will do.
    pub(crate) vlans: Vec<i64>,
    /// The MAC addresses of which a neighbor must have one, in lower case. Empty if any will do.
    macs: BTreeSet<String>,
    /// True if only interfaces with neighbors match.
    pub(crate) asks_for_lldp: bool,
}

impl Filter {
    pub(crate) fn new(rule: &InterfaceMatch) -> Result<Self, MatchError> {
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

    /// Reports whether a neighbor with one of the wanted MAC addresses announces a VLAN.
    pub(crate) fn is_announced_by(&self, neighbor: &Neighbor, vlan: i64) -> bool {
        neighbor.vlans.contains(&vlan) && self.has_mac_of(neighbor)
    }

    fn has_mac_of(&self, neighbor: &Neighbor) -> bool {
        self.macs.is_empty() || !self.macs.is_disjoint(&neighbor.macs)
    }

    /// Reports whether an interface matches. Unmanaged interfaces, the ends of pods' connections
    /// above all, never do.
    pub(crate) fn matches(&self, interface: &Value) -> bool {
        let is_wanted = |neighbor: &Neighbor| match self.vlans.is_empty() {
            true => self.has_mac_of(neighbor),
            false => self
                .vlans
                .iter()
                .any(|vlan| self.is_announced_by(neighbor, *vlan)),
        };
        self.has_name_and_type(interface)
            && !matches!(interface["state"].as_str(), Some("ignore" | "absent"))
            && (!self.asks_for_lldp || neighbors(interface).iter().any(is_wanted))
    }
}

/// Returns the condition of a policy. `None` if it has none.
pub(crate) fn filter(spec: &Spec) -> Result<Option<Filter>, MatchError> {
    let rule = spec.match_.as_ref();
    rule.and_then(|rule| rule.interfaces.as_ref())
        .map(Filter::new)
        .transpose()
}

/// nmstate takes one end of a veth pair for an Ethernet interface.
fn is_of_type(interface: &Value, kind: &str) -> bool {
    let found = interface["type"].as_str();
    found == Some(kind) || (kind == "ethernet" && found == Some("veth"))
}
