//! A state whose interfaces are found by what identifies them. A host can have thousands of
//! interfaces, and a policy can want as many, so nothing looks through all of them for each one.

use std::{borrow::Cow, collections::HashMap};

use serde_json::Value;

use crate::{
    link::Address,
    path::{borrowed_text, entries, interface_key, interfaces},
};

/// A state in nmstate's form, and its interfaces. Of several interfaces with one name, the first
/// one counts.
pub(crate) struct Index<'a> {
    /// The state.
    pub(crate) state: &'a Value,
    by_key: HashMap<Cow<'a, str>, &'a Value>,
    by_name: HashMap<&'a str, &'a Value>,
    by_alternative: HashMap<&'a str, &'a Value>,
    by_any_name: HashMap<Cow<'a, str>, &'a Value>,
    /// The interfaces with this permanent hardware address. Several can have one address.
    by_permanent: HashMap<Address, Vec<&'a Value>>,
    /// Those with this hardware address now.
    by_hardware: HashMap<Address, Vec<&'a Value>>,
    by_place: HashMap<Address, Vec<&'a Value>>,
    /// The interfaces to whose address a profile of this name is bound.
    by_bound_profile: HashMap<&'a str, &'a Value>,
}

impl<'a> Index<'a> {
    /// Reads a state.
    pub(crate) fn of(state: &'a Value) -> Self {
        let mut index = Self {
            state,
            by_key: HashMap::new(),
            by_name: HashMap::new(),
            by_alternative: HashMap::new(),
            by_any_name: HashMap::new(),
            by_permanent: HashMap::new(),
            by_hardware: HashMap::new(),
            by_place: HashMap::new(),
            by_bound_profile: HashMap::new(),
        };
        for interface in interfaces(state) {
            index.add(interface);
        }
        index
    }

    fn add(&mut self, interface: &'a Value) {
        self.by_key
            .entry(interface_key(interface))
            .or_insert(interface);
        let name = borrowed_text(&interface["name"]);
        self.by_any_name.entry(name).or_insert(interface);
        if let Some(name) = interface["name"].as_str() {
            self.by_name.entry(name).or_insert(interface);
        }
        if let Some(profile) = interface["profile-name"].as_str() {
            self.by_any_name.entry(profile.into()).or_insert(interface);
        }
        let alternatives = entries(&interface["alt-names"]).iter();
        for name in alternatives.filter_map(|name| name["name"].as_str()) {
            self.by_alternative.entry(name).or_insert(interface);
            self.by_any_name.entry(name.into()).or_insert(interface);
        }
        let addresses = [
            (
                &mut self.by_permanent,
                Address::hardware(&interface["permanent-mac-address"]),
            ),
            (
                &mut self.by_hardware,
                Address::hardware(&interface["mac-address"]),
            ),
            (&mut self.by_place, Address::pci(&interface["pci-address"])),
        ];
        for (list, address) in addresses {
            if let Some(address) = address {
                list.entry(address).or_default().push(interface);
            }
        }
        if interface["identifier"] == "mac-address"
            && let Some(profile) = interface["profile-name"].as_str()
        {
            self.by_bound_profile.entry(profile).or_insert(interface);
        }
    }

    /// The interface with this key, see [`interface_key`].
    pub(crate) fn key(&self, key: &str) -> Option<&'a Value> {
        self.by_key.get(key).copied()
    }

    /// The interface of this name, of any type.
    pub(crate) fn name(&self, name: &str) -> Option<&'a Value> {
        self.by_name.get(name).copied()
    }

    /// The interface that has this name, or this profile, or this alternative name.
    pub(crate) fn any_name(&self, name: &str) -> Option<&'a Value> {
        self.by_any_name.get(name).copied()
    }

    /// The interface that has this alternative name.
    pub(crate) fn alternative(&self, name: &str) -> Option<&'a Value> {
        self.by_alternative.get(name).copied()
    }

    /// The interface to whose address a profile of this name is bound.
    pub(crate) fn bound(&self, profile: &str) -> Option<&'a Value> {
        self.by_bound_profile.get(profile).copied()
    }

    /// The interfaces with this permanent hardware address, and those that have it now.
    pub(crate) fn hardware(&self, address: &Address) -> [&[&'a Value]; 2] {
        [&self.by_permanent, &self.by_hardware]
            .map(|list| list.get(address).map_or(&[][..], Vec::as_slice))
    }

    /// The interfaces at this place of the PCI bus.
    pub(crate) fn place(&self, address: &Address) -> &[&'a Value] {
        self.by_place.get(address).map_or(&[][..], Vec::as_slice)
    }
}

/// The names of the interfaces on which one stands as its base.
pub(crate) fn bases(interface: &Value) -> impl Iterator<Item = &str> {
    let parts = interface.as_object().into_iter().flatten();
    parts.filter_map(|(_, part)| part["base-iface"].as_str())
}

/// The interfaces whose base is another one, by the name of that one.
pub(crate) fn above(state: &Value) -> HashMap<&str, Vec<&Value>> {
    let mut above: HashMap<&str, Vec<&Value>> = HashMap::new();
    for interface in interfaces(state) {
        for base in bases(interface) {
            above.entry(base).or_default().push(interface);
        }
    }
    above
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn host() -> Value {
        json!({"interfaces": [
            {"name": "br0", "type": "ovs-interface", "mac-address": "02:00:00:00:00:01"},
            {"name": "br0", "type": "ovs-bridge"},
            {
                "name": "bond0", "type": "bond", "profile-name": "uplink",
                "mac-address": "02:00:00:00:00:0A"
            },
            {
                "name": "eth1", "type": "ethernet", "mac-address": "02:00:00:00:00:0A",
                "permanent-mac-address": "02:00:00:00:00:0B", "alt-names": [{"name": "enp1"}],
                "pci-address": "0000:01:00.0"
            },
            {"name": "enp1", "type": "dummy"},
            {"name": "eth2", "type": "ethernet", "alt-names": [{"name": "enp2"}]},
        ]})
    }

    #[test]
    fn each_kind_of_name_leads_to_the_first_interface_that_has_it() {
        let host = host();
        let index = Index::of(&host);
        let kind = |found: Option<&Value>| found.map(|found| found["type"].clone());
        assert_eq!(kind(index.name("br0")), Some(json!("ovs-interface")));
        assert_eq!(
            kind(index.key("br0 (ovs-bridge)")),
            Some(json!("ovs-bridge"))
        );
        assert_eq!(kind(index.any_name("uplink")), Some(json!("bond")));
        assert_eq!(kind(index.any_name("enp1")), Some(json!("ethernet")));
        assert_eq!(kind(index.name("enp2")), None);
    }
}
