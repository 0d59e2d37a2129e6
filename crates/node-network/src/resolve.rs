//! The interface of a host that an entry of a state is about.
//!
//! An entry names its interface, or says by `identifier` that a hardware address or the place on the
//! PCI bus finds it. These are the rules of nmstate (its `ifaces/inter_ifaces.rs` and
//! `ifaces/alt_name.rs`). All comparisons of this crate ask here, so that no entry reaches an
//! interface by a value that it does not have.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    index::Index,
    link::{Address, is_virtual},
    path::{interface_key, interfaces, text},
};

/// The result of the search for the interface of an entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Resolved<'a> {
    /// This interface of the host.
    One(&'a Value),
    /// No interface of the host has the name.
    New,
    /// The entry says that an address finds its interface, and no interface has the address, or the
    /// entry gives none.
    Nobody,
    /// These interfaces have the address, and the entry says no type that only one of them has.
    Several(Vec<&'a Value>),
}

impl<'a> Index<'a> {
    /// Searches the interface that a wanted one is about.
    pub(crate) fn resolve(&self, wanted: &Value) -> Resolved<'a> {
        if let Some(bound) = self.bound_by_address(wanted) {
            return Resolved::One(bound);
        }
        match identifier(wanted) {
            Some("mac-address") => self.by_hardware_address(wanted),
            Some("pci-address") if has_type(wanted) => match Address::pci(&wanted["pci-address"]) {
                Some(place) => Resolved::of(self.place(&place).to_vec()),
                None => Resolved::Nobody,
            },
            _ => self.by_name(wanted),
        }
    }

    /// The interface that a wanted one is about, if it is exactly one.
    pub(crate) fn meant(&self, wanted: &Value) -> Option<&'a Value> {
        match self.resolve(wanted) {
            Resolved::One(interface) => Some(interface),
            Resolved::New | Resolved::Nobody | Resolved::Several(_) => None,
        }
    }

    /// Once a profile is bound to the address of a card, the name of the profile means this card,
    /// also in an entry that does not say `identifier`.
    fn bound_by_address(&self, wanted: &Value) -> Option<&'a Value> {
        let profile = wanted["name"].as_str().filter(|name| !name.is_empty())?;
        self.bound(profile).filter(|_| has_link(wanted))
    }

    fn by_hardware_address(&self, wanted: &Value) -> Resolved<'a> {
        let Some(address) = Address::hardware(&wanted["mac-address"]) else {
            return Resolved::Nobody;
        };
        // Ports of a bond have its address, and a bridge has that of a port. The permanent one is
        // the card's own.
        let of_type = |holders: &[&'a Value]| -> Vec<&'a Value> {
            let fits = |holder: &&&Value| has_link(holder) && is_of_type(wanted, holder);
            holders.iter().filter(fits).copied().collect()
        };
        let [permanent, now] = self.hardware(&address).map(of_type);
        let mut holders = if permanent.is_empty() { now } else { permanent };
        let is_card = |holder: &&Value| !is_virtual(holder) || holder["type"] == "veth";
        if wanted["type"].is_null() && holders.iter().any(is_card) {
            holders.retain(is_card);
        }
        Resolved::of(holders)
    }

    fn by_name(&self, wanted: &Value) -> Resolved<'a> {
        let name = text(&wanted["name"]);
        if name.is_empty() {
            return Resolved::New;
        }
        // Without a type it may be a bridge of Open vSwitch, which is no link.
        let of_any_type = || {
            let kinds = ["ovs-bridge", "ipsec"]
                .into_iter()
                .filter(|_| wanted["type"].is_null());
            kinds
                .filter_map(|kind| self.key(&format!("{name} ({kind})")))
                .next()
        };
        let by_alternative = || {
            let is_by_name = matches!(wanted["identifier"].as_str(), None | Some("name"));
            self.alternative(&name)
                .filter(|_| is_by_name && has_link(wanted))
        };
        self.key(&interface_key(wanted))
            .or_else(of_any_type)
            .or_else(by_alternative)
            .map_or(Resolved::New, Resolved::One)
    }
}

impl<'a> Resolved<'a> {
    /// The result of a search by an address that these interfaces have.
    fn of(holders: Vec<&'a Value>) -> Self {
        match holders[..] {
            [] => Self::Nobody,
            [one] => Self::One(one),
            _ => Self::Several(holders),
        }
    }
}

/// The names of the interfaces of a host that wanted ones lead to by another name, an address or a
/// profile: by the keys of the wanted ones, see [`interface_key`].
pub fn other_names(desired: &Value, current: &Value) -> BTreeMap<String, String> {
    other_names_of(desired, &Index::of(current))
}

/// Like [`other_names`], for those who compare with the same host several times.
pub(crate) fn other_names_of(desired: &Value, host: &Index) -> BTreeMap<String, String> {
    let named = interfaces(desired).iter().filter_map(|wanted| {
        let there = text(&host.meant(wanted)?["name"]);
        (there != text(&wanted["name"])).then(|| (interface_key(wanted).into_owned(), there))
    });
    named.collect()
}

/// The key of the address by which an entry finds its interface. None if its name does. nmstate
/// removes an interface by its name alone, and takes the name next to a `profile-name` for that of
/// the link.
pub(crate) fn identifier(wanted: &Value) -> Option<&str> {
    let is_absent = wanted["state"] == "absent";
    match wanted["identifier"].as_str()? {
        by @ "mac-address" if !is_absent && wanted["profile-name"].is_null() => Some(by),
        by @ "pci-address" if !is_absent => Some(by),
        _ => None,
    }
}

/// The entry of this list with this name. A list has no entry without a name.
pub(crate) fn named<'a>(list: &'a [Value], key: &str, name: &Value) -> Option<&'a Value> {
    if text(name).is_empty() {
        return None;
    }
    list.iter().find(|entry| entry[key] == *name)
}

/// Where an entry says no type, nmstate does not read the place on the bus.
fn has_type(wanted: &Value) -> bool {
    wanted["type"]
        .as_str()
        .is_some_and(|kind| kind != "unknown")
}

/// Reports whether an interface is a link of the kernel, which has addresses and further names.
fn has_link(interface: &Value) -> bool {
    !matches!(interface["type"].as_str(), Some("ovs-bridge" | "ipsec"))
}

/// nmstate takes one end of a veth pair for an Ethernet interface.
fn is_of_type(wanted: &Value, interface: &Value) -> bool {
    let plain = |kind: &str| if kind == "veth" { "ethernet" } else { kind }.to_owned();
    match wanted["type"].as_str() {
        None | Some("unknown") => true,
        Some(kind) => plain(kind) == plain(&text(&interface["type"])),
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
