//! `spec.autoConfig.autoBonding`: bonds the cards whose neighbors announce the same VLAN, with the
//! VLAN interface on top.
//!
//! The name of the bond of VLAN 101 is `bond101`, that of its VLAN interface `bond101.101`. The
//! host's state says which cards are ports of the bond, so that nothing is remembered but since
//! when a port is in doubt. A card joins as soon as its neighbor announces the VLAN. A port leaves
//! only on evidence: it hears a neighbor, and for [`GRACE`] none of its neighbors has announced the
//! VLAN. A port that hears nothing stays, since a lost frame or a flapping link is no evidence. The
//! last port stays in any case.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::Ipv6Addr,
    time::Duration,
};

use serde_json::{Value, json};
use weft_api::node_network::NodeNetworkConfigurationPolicySpec as Spec;

use crate::{
    lldp::{Neighbor, is_listening, neighbors},
    matching::{Filter, MatchError},
    path::{entries, interfaces, text},
};

/// How long a port of a bond must hear no neighbor that announces the VLAN, while it hears others,
/// until it leaves the bond. Two intervals of LLDP (802.1AB, 9.2.5.7: 30 s).
pub const GRACE: Duration = Duration::from_secs(60);

/// The part of a card in automatic bonding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// It becomes a port of this bond.
    Joins {
        /// The name of the bond.
        bond: String,
        /// The neighbor that announces the VLAN.
        neighbor: String,
    },
    /// It is a port of this bond.
    Stays {
        /// The name of the bond.
        bond: String,
    },
    /// It is a port of this bond, and its neighbors do not announce the VLAN any more. It leaves
    /// after [`GRACE`].
    InDoubt {
        /// The name of the bond.
        bond: String,
    },
    /// It would have to listen to LLDP, and does not.
    IsDeaf,
    /// It listens to LLDP, and no neighbor announces anything.
    HearsNothing,
    /// It does not join, for this reason.
    IsApart(String),
}

impl Part {
    /// The part of a card that has no neighbors.
    pub(crate) fn without_neighbors(interface: &Value) -> Self {
        match is_listening(interface) {
            true => Self::HearsNothing,
            false => Self::IsDeaf,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Joins { bond, neighbor } => write!(f, "joins {bond}: {neighbor}"),
            Self::Stays { bond } => write!(f, "is a port of {bond}"),
            Self::InDoubt { bond } => write!(
                f,
                "leaves {bond} if its neighbor does not announce the VLAN again within {} s",
                GRACE.as_secs()
            ),
            Self::IsDeaf => {
                f.write_str("does not listen to LLDP: set lldp.enabled to true for it in a policy")
            }
            Self::HearsNothing => f.write_str(
                "listens to LLDP and hears no neighbor: switch LLDP on at the other end",
            ),
            Self::IsApart(why) => write!(f, "does not join: {why}"),
        }
    }
}

/// The result of automatic bonding on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bonding {
    /// The part of each card that has the name and type of the policy's match.
    pub(crate) cards: BTreeMap<String, Part>,
    /// The interfaces that the policy wants because of it.
    pub(crate) interfaces: Vec<Value>,
}

/// Reports whether a policy bonds by itself.
pub(crate) fn is_asked_for(spec: &Spec) -> bool {
    spec.auto_config
        .as_ref()
        .is_some_and(|auto| auto.auto_bonding == Some(true))
}

/// Bonds the cards of a node. `desired` is the policy's desired state: its interfaces without a
/// name are for the VLAN interfaces, those of type `bond` for the bonds. `current` is the state of
/// the node. `leaving` are the ports that have been in doubt for [`GRACE`].
pub(crate) fn bonding(
    filter: &Filter,
    desired: &Value,
    current: &Value,
    leaving: &BTreeSet<String>,
) -> Result<Bonding, MatchError> {
    let additions = Additions::of(desired)?;
    let cards: Vec<Card> = interfaces(current)
        .iter()
        .filter(|interface| filter.has_name_and_type(interface) && is_card(interface))
        .map(|interface| Card::new(interface, filter))
        .collect();
    let mut bonding = Bonding::default();
    let mut ports: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
    for vlan in &filter.vlans {
        if let Some(bond) = find(current, &bond_name(*vlan)) {
            if bond["type"] != "bond" {
                return Err(MatchError::NameTaken {
                    bond: bond_name(*vlan),
                    kind: text(&bond["type"]),
                });
            }
            // A port that the match does not know was put there by another user, and stays.
            ports.insert(*vlan, ports_of(bond));
        }
    }
    for card in &cards {
        let part = card.part(filter, &mut ports, current, leaving);
        bonding.cards.insert(card.name.clone(), part);
    }
    for (vlan, ports) in ports {
        bonding
            .interfaces
            .extend(wanted(vlan, &ports, &cards, current, &additions));
    }
    Ok(bonding)
}

fn bond_name(vlan: i64) -> String {
    format!("bond{vlan}")
}

pub(crate) fn is_card(interface: &Value) -> bool {
    matches!(interface["type"].as_str(), Some("ethernet" | "veth"))
        && !matches!(interface["state"].as_str(), Some("ignore" | "absent"))
}

fn find<'a>(state: &'a Value, name: &str) -> Option<&'a Value> {
    interfaces(state)
        .iter()
        .find(|interface| interface["name"] == name && interface["state"] != "absent")
}

fn ports_of(bond: &Value) -> BTreeSet<String> {
    entries(&bond["link-aggregation"]["port"])
        .iter()
        .map(text)
        .collect()
}

/// A card with what it hears.
struct Card {
    name: String,
    kind: Value,
    controller: String,
    addresses: Vec<String>,
    neighbors: Vec<Neighbor>,
    /// Its part, if it has no neighbors.
    without_neighbors: Option<Part>,
    /// The first VLAN of the match that a neighbor announces, with that neighbor.
    announced: Option<(i64, String)>,
}

impl Card {
    fn new(interface: &Value, filter: &Filter) -> Self {
        let neighbors = neighbors(interface);
        let announced = filter.vlans.iter().find_map(|vlan| {
            let neighbor = neighbors
                .iter()
                .find(|neighbor| filter.is_announced_by(neighbor, *vlan))?;
            let port = match neighbor.port.is_empty() {
                true => String::new(),
                false => format!(" (port {})", neighbor.port),
            };
            let said = format!("{}{port} announces VLAN {vlan}", neighbor.switch);
            Some((*vlan, said))
        });
        Self {
            name: text(&interface["name"]),
            kind: interface["type"].clone(),
            controller: text(&interface["controller"]),
            addresses: ["ipv4", "ipv6"]
                .into_iter()
                .flat_map(|family| entries(&interface[family]["address"]))
                .map(|address| text(&address["ip"]))
                .filter(|ip| {
                    let ip = ip.parse::<Ipv6Addr>();
                    !ip.is_ok_and(|ip| ip.is_unicast_link_local())
                })
                .collect(),
            without_neighbors: neighbors
                .is_empty()
                .then(|| Part::without_neighbors(interface)),
            announced,
            neighbors,
        }
    }

    /// Decides the card's part, and moves it between the ports of the bonds.
    fn part(
        &self,
        filter: &Filter,
        ports: &mut BTreeMap<i64, BTreeSet<String>>,
        current: &Value,
        leaving: &BTreeSet<String>,
    ) -> Part {
        let member = ports
            .iter()
            .find(|(_, ports)| ports.contains(&self.name))
            .map(|(vlan, _)| *vlan);
        if let Some(vlan) = member {
            let bond = bond_name(vlan);
            let announces = |neighbor: &Neighbor| filter.is_announced_by(neighbor, vlan);
            if self.neighbors.is_empty() || self.neighbors.iter().any(announces) {
                return Part::Stays { bond };
            }
            let Some(ports) = ports.get_mut(&vlan).filter(|ports| ports.len() > 1) else {
                return Part::Stays { bond };
            };
            // It joins another bond when it has left this one.
            if leaving.contains(&self.name) {
                ports.remove(&self.name);
            }
            return Part::InDoubt { bond };
        }
        let Some((vlan, neighbor)) = &self.announced else {
            return match &self.without_neighbors {
                Some(part) => part.clone(),
                None => Part::IsApart(format!(
                    "its neighbor does not announce {}",
                    either(&filter.vlans)
                )),
            };
        };
        if let Some(why) = self.is_in_use(current) {
            return Part::IsApart(why);
        }
        ports.entry(*vlan).or_default().insert(self.name.clone());
        Part::Joins {
            bond: bond_name(*vlan),
            neighbor: neighbor.clone(),
        }
    }

    /// Why the card cannot become a port: a port has no addresses and no other user.
    fn is_in_use(&self, current: &Value) -> Option<String> {
        if !self.controller.is_empty() {
            return Some(format!("it is a port of {}", self.controller));
        }
        if !self.addresses.is_empty() {
            return Some(format!(
                "it has the address {}, which a port of a bond loses; remove its addresses first if you do not need them",
                self.addresses.join(", ")
            ));
        }
        let above = interfaces(current).iter().find(|other| {
            let sections = other
                .as_object()
                .into_iter()
                .flat_map(serde_json::Map::values);
            sections
                .into_iter()
                .any(|section| section["base-iface"] == self.name)
        });
        above.map(|other| format!("{} is on top of it", text(&other["name"])))
    }
}

fn either(vlans: &[i64]) -> String {
    let vlans: Vec<_> = vlans.iter().map(|vlan| format!("VLAN {vlan}")).collect();
    vlans.join(" or ")
}

/// The policy's own words about the bonds and the VLAN interfaces.
struct Additions {
    bond: Value,
    vlan: Value,
}

impl Additions {
    fn of(desired: &Value) -> Result<Self, MatchError> {
        let mut additions = Self {
            bond: json!({}),
            vlan: json!({}),
        };
        for (index, interface) in interfaces(desired).iter().enumerate() {
            if !text(&interface["name"]).is_empty() {
                continue;
            }
            let part = match interface["type"].as_str() {
                Some("bond") => &mut additions.bond,
                None | Some("vlan") => &mut additions.vlan,
                Some(kind) => {
                    return Err(MatchError::NeitherBondNorVlan {
                        index,
                        kind: kind.to_owned(),
                    });
                }
            };
            extend(part, interface);
        }
        Ok(additions)
    }
}

/// Writes all properties of `from` over those of `into`, objects one by one.
fn extend(into: &mut Value, from: &Value) {
    match (into.as_object_mut(), from.as_object()) {
        (Some(into), Some(from)) => {
            for (key, value) in from {
                extend(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        _ => *into = from.clone(),
    }
}

/// The bond of a VLAN with these ports, its ports, and the VLAN interface.
fn wanted(
    vlan: i64,
    ports: &BTreeSet<String>,
    cards: &[Card],
    current: &Value,
    additions: &Additions,
) -> Vec<Value> {
    let name = bond_name(vlan);
    let of_bond: Vec<&Card> = cards
        .iter()
        .filter(|card| ports.contains(&card.name))
        .collect();
    let mut bond = json!({
        "name": name, "type": "bond", "state": "up",
        "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
        "link-aggregation": {"mode": mode(find(current, &name), &of_bond), "options": {"miimon": 100}},
    });
    // A VLAN interface carries no larger packets than its bond.
    if !additions.vlan["mtu"].is_null() {
        bond["mtu"] = additions.vlan["mtu"].clone();
    }
    extend(&mut bond, &additions.bond);
    bond["link-aggregation"]["port"] = json!(ports);
    let mut above = json!({"type": "vlan", "state": "up"});
    extend(&mut above, &additions.vlan);
    above["name"] = format!("{name}.{vlan}").into();
    above["vlan"]["base-iface"] = name.into();
    above["vlan"]["id"] = vlan.into();
    // A port continues to listen, so that the agent notices when it is plugged in elsewhere.
    let listening = of_bond.iter().map(|card| {
        json!({
            "name": card.name, "type": card.kind, "state": "up", "lldp": {"enabled": true}
        })
    });
    [bond, above].into_iter().chain(listening).collect()
}

/// 802.3ad if all neighbors announce aggregation. A bond that is 802.3ad stays so until all
/// neighbors say otherwise.
fn mode(bond: Option<&Value>, ports: &[&Card]) -> &'static str {
    let is_aggregated = |card: &&Card| card.neighbors.iter().any(|one| one.is_aggregated);
    let is_lacp = bond.is_some_and(|bond| bond["link-aggregation"]["mode"] == "802.3ad");
    let is_wanted = match is_lacp {
        true => {
            ports.iter().all(|card| card.neighbors.is_empty()) || ports.iter().any(is_aggregated)
        }
        false => !ports.is_empty() && ports.iter().all(is_aggregated),
    };
    match is_wanted {
        true => "802.3ad",
        false => "active-backup",
    }
}

#[cfg(test)]
#[path = "bonding_tests.rs"]
mod tests;
