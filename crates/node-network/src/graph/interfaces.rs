//! The interfaces of a node as parts of its picture, and the links that they name.

use serde_json::Value;

use super::model::{Fact, Kind, LinkKind, Part};
use crate::path::{entries, interface_key, text};

/// A link as an interface names it: the other end is only a name.
#[derive(Debug)]
pub(super) struct Named {
    /// The name of the other interface.
    pub(super) other: String,
    /// True if the other interface is nearer to the wire.
    pub(super) is_below: bool,
    /// The sort of the link.
    pub(super) kind: LinkKind,
    /// A text at the link.
    pub(super) label: String,
}

/// Returns the id of the part with this key of an interface.
pub(super) fn id(key: &str) -> String {
    format!("interface/{key}")
}

/// Returns the part of an interface.
pub(super) fn part(interface: &Value) -> Part {
    let mut part = Part::new(
        Kind::Interface,
        id(&interface_key(interface)),
        text(&interface["name"]),
    );
    part.type_name = text(&interface["type"]);
    part.facts = facts(interface);
    part
}

fn facts(interface: &Value) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |label, value: String| {
        if !value.is_empty() {
            facts.push(Fact { label, value });
        }
    };
    add(
        "state",
        match text(&interface["state"]).as_str() {
            "ignore" => "not managed".to_owned(),
            state => state.to_owned(),
        },
    );
    for (label, value) in [
        ("mode", &interface["link-aggregation"]["mode"]),
        ("VLAN", &interface["vlan"]["id"]),
        ("VXLAN", &interface["vxlan"]["id"]),
        ("table", &interface["vrf"]["route-table-id"]),
        (
            "virtual functions",
            &interface["ethernet"]["sr-iov"]["total-vfs"],
        ),
        ("MTU", &interface["mtu"]),
        ("MAC", &interface["mac-address"]),
    ] {
        if *value != 0 {
            add(label, text(value));
        }
    }
    for (stack, dhcp) in [("ipv4", "DHCPv4"), ("ipv6", "DHCPv6")] {
        let stack = &interface[stack];
        if stack["enabled"] == false {
            continue;
        }
        for address in entries(&stack["address"]) {
            let ip = text(&address["ip"]);
            if !is_link_local(&ip) {
                add(
                    "address",
                    format!("{ip}/{}", text(&address["prefix-length"])),
                );
            }
        }
        for (field, word) in [("dhcp", dhcp), ("autoconf", "autoconf")] {
            if stack[field] == true {
                add("addresses by", word.to_owned());
            }
        }
    }
    facts
}

/// Every interface has such an address, so it says nothing.
fn is_link_local(ip: &str) -> bool {
    ip.to_ascii_lowercase().starts_with("fe80:")
}

/// Reports whether an interface is one that every node has, and that says nothing: the loopback
/// with its usual addresses.
pub(super) fn is_usual(interface: &Value) -> bool {
    let is_loopback = interface["type"] == "loopback" || interface["name"] == "lo";
    is_loopback
        && ["ipv4", "ipv6"].iter().all(|stack| {
            entries(&interface[*stack]["address"])
                .iter()
                .all(|address| {
                    let ip = text(&address["ip"]);
                    ip.starts_with("127.") || ip == "::1" || is_link_local(&ip)
                })
        })
}

/// Returns the links that an interface names, in both directions.
pub(super) fn named_links(interface: &Value) -> Vec<Named> {
    let mut found = Vec::new();
    let mut add = |other: &Value, is_below, kind, label: String| {
        let other = text(other);
        if !other.is_empty() {
            found.push(Named {
                other,
                is_below,
                kind,
                label,
            });
        }
    };
    for port in ports(interface) {
        match port.is_object() {
            true => {
                add(&port["name"], true, LinkKind::Port, vlans(&port["vlan"]));
                // A bond of Open vSwitch exists as a port of its bridge only.
                let bond = text(&port["name"]);
                for member in entries(&port["link-aggregation"]["port"]) {
                    add(
                        &member["name"],
                        true,
                        LinkKind::Port,
                        format!("bond {bond}"),
                    );
                }
            }
            false => add(port, true, LinkKind::Port, String::new()),
        }
    }
    for port in ["port1", "port2"] {
        add(&interface["hsr"][port], true, LinkKind::Port, String::new());
    }
    // `vlan`, `mac-vlan`, `vxlan` and others name the interface below in the same field.
    let sections = interface
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::values);
    for section in sections.filter(|section| section.is_object()) {
        add(&section["base-iface"], true, LinkKind::Base, String::new());
    }
    for section in ["veth", "patch"] {
        add(
            &interface[section]["peer"],
            false,
            LinkKind::Peer,
            String::new(),
        );
    }
    add(
        &interface["controller"],
        false,
        LinkKind::Port,
        String::new(),
    );
    found
}

fn ports(interface: &Value) -> impl Iterator<Item = &Value> {
    [
        &interface["link-aggregation"]["port"],
        &interface["bridge"]["port"],
        &interface["vrf"]["port"],
    ]
    .into_iter()
    .flat_map(entries)
}

/// The VLANs of a bridge's port, for people: `VLAN 100` or `VLANs 2-4094`.
fn vlans(vlan: &Value) -> String {
    let tag = text(&vlan["tag"]);
    let mut parts = Vec::new();
    if !tag.is_empty() && tag != "0" {
        let native = if vlan["mode"] == "trunk" {
            "native "
        } else {
            ""
        };
        parts.push(format!("{native}VLAN {tag}"));
    }
    let range = |tags: &Value| match &tags["id"] {
        Value::Null => format!(
            "{}-{}",
            text(&tags["id-range"]["min"]),
            text(&tags["id-range"]["max"])
        ),
        id => text(id),
    };
    let trunk: Vec<String> = entries(&vlan["trunk-tags"]).iter().map(range).collect();
    if !trunk.is_empty() {
        parts.push(format!("VLANs {}", trunk.join(", ")));
    }
    parts.join(", ")
}
