//! The nature of an interface, by its type and its addresses.

use serde_json::Value;

use crate::path::text;

/// The sections of interfaces that stand on another one.
const ON_BASE: [&str; 6] = ["vlan", "vxlan", "mac-vlan", "mac-vtap", "macsec", "ipvlan"];

/// The section that names the base of an interface, and the base.
pub(crate) fn base(interface: &Value) -> Option<(&'static str, String)> {
    ON_BASE
        .into_iter()
        .map(|section| (section, text(&interface[section]["base-iface"])))
        .find(|(_, base)| !base.is_empty())
}

/// Interfaces that exist because somebody configured them. Cards cannot be removed.
pub(crate) fn is_virtual(interface: &Value) -> bool {
    !matches!(
        interface["type"].as_str(),
        Some("ethernet" | "infiniband" | "loopback" | "unknown") | None
    )
}

/// Reports whether an interface stays as a card when it is removed. One end of a veth pair is one
/// where it is called Ethernet.
pub(crate) fn is_card(wanted: &Value, there: &Value) -> bool {
    !is_virtual(there) || (wanted["type"] == "ethernet" && there["type"] == "veth")
}

/// A value that identifies an interface. It is never empty.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Hardware(String),
    /// Domain, bus, slot, and function.
    Pci(u32, u8, u8, u8),
}

impl Address {
    pub(crate) fn hardware(value: &Value) -> Option<Self> {
        let address = value.as_str()?.to_ascii_uppercase();
        (!address.is_empty()).then_some(Self::Hardware(address))
    }

    /// `0000:0a:09.7`, or `0a:09.7` in the first domain. As nmstate reads it, the function is
    /// decimal, and the rest is hexadecimal.
    pub(crate) fn pci(value: &Value) -> Option<Self> {
        let (place, function) = value.as_str()?.rsplit_once('.')?;
        let parts: Vec<_> = place.split(':').collect();
        let (domain, bus, slot) = match parts[..] {
            [bus, slot] => ("0", bus, slot),
            [domain, bus, slot] => (domain, bus, slot),
            _ => return None,
        };
        Some(Self::Pci(
            u32::from_str_radix(domain, 16).ok()?,
            u8::from_str_radix(bus, 16).ok()?,
            u8::from_str_radix(slot, 16).ok()?,
            function.parse().ok()?,
        ))
    }
}
