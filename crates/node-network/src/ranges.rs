//! Values that can never work, whatever is on the host: addresses, prefixes and VLANs that do not
//! exist, names that the kernel does not take, IPv6 as nmstate cannot have it, routes that lead
//! nowhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use crate::{
    canonical::is_mac,
    link::is_virtual,
    path::{Path, entries, interfaces, text},
    state_error::StateError,
};

/// Returns the mistakes in a state that has known keys only, and no references.
pub(crate) fn mistakes(state: &Value) -> Vec<StateError> {
    let mut found = Vec::new();
    for interface in interfaces(state)
        .iter()
        .filter(|interface| interface["state"] != "absent")
    {
        let path = Path::of_interface(interface);
        if let Some(message) = wrong_name(interface) {
            found.push(invalid(path.key("name"), message));
        }
        let mac = text(&interface["mac-address"]);
        if !mac.is_empty() && !is_mac(&mac) {
            found.push(invalid(
                path.key("mac-address"),
                format!("{mac:?} is no hardware address: write it with colons, such as 02:00:00:00:00:01"),
            ));
        }
        // nmstate says so, too, and reads a setting of the kernel for it.
        let flags = entries(&interface["mptcp"]["address-flags"]);
        if ["signal", "fullmesh"]
            .iter()
            .all(|flag| flags.iter().any(|is| is == flag))
        {
            found.push(invalid(
                path.key("mptcp").key("address-flags"),
                "must not have both signal and fullmesh".to_owned(),
            ));
        }
        tags(&path, interface, &mut found);
        addresses::<Ipv4Addr>(&path.key("ipv4"), &interface["ipv4"], 32, &mut found);
        let (path, family) = (path.key("ipv6"), &interface["ipv6"]);
        addresses::<Ipv6Addr>(&path, family, 128, &mut found);
        // NotImplementedError of nmstate. Without `dhcp` it may be what the host has.
        if family["enabled"] != false && family["autoconf"] == true && family["dhcp"] == false {
            let message = "is nothing that nmstate can do without dhcp: write dhcp: true, too, and DHCPv6 is asked where the router says so";
            found.push(invalid(path.key("autoconf"), message.to_owned()));
        }
    }
    let path = Path::default().key("routes").key("config");
    for (index, route) in entries(&state["routes"]["config"]).iter().enumerate() {
        let path = path.item(&index.to_string());
        if let Some(message) = wrong_destination(route) {
            found.push(invalid(path.key("destination"), message));
        }
        if let Some(message) = wrong_route(route) {
            found.push(invalid(path, message));
        }
    }
    let path = Path::default().key("route-rules").key("config");
    for (index, rule) in entries(&state["route-rules"]["config"]).iter().enumerate() {
        let priority = &rule["priority"];
        let number = priority
            .as_i64()
            .or_else(|| priority.as_str()?.parse().ok());
        if number.is_some_and(|number| !PRIORITIES.contains(&number)) {
            found.push(invalid(
                path.item(&index.to_string()).key("priority"),
                format!(
                    "must be 0 to {}, or {} for one that nmstate chooses, not {priority}",
                    PRIORITIES.end(),
                    PRIORITIES.start()
                ),
            ));
        }
    }
    found
}

/// The kernel's `FRA_PRIORITY` has 32 bits, and nmstate chooses the priority for -1
/// (`RouteRuleEntry::USE_DEFAULT_PRIORITY`).
const PRIORITIES: std::ops::RangeInclusive<i64> = -1..=u32::MAX as i64;

fn addresses<A: std::str::FromStr>(
    path: &Path,
    family: &Value,
    longest: u64,
    found: &mut Vec<StateError>,
) {
    let name = if longest == 32 { "IPv4" } else { "IPv6" };
    for (index, address) in entries(&family["address"]).iter().enumerate() {
        let path = path.key("address").item(&index.to_string());
        let ip = text(&address["ip"]);
        if ip.parse::<A>().is_err() {
            found.push(invalid(
                path.key("ip"),
                format!("{ip:?} is no {name} address"),
            ));
        }
        let length = &address["prefix-length"];
        if length
            .as_u64()
            .or_else(|| length.as_str()?.parse().ok())
            .is_some_and(|length| length > longest)
        {
            found.push(invalid(
                path.key("prefix-length"),
                format!("must be 0 to {longest} for {name}, not {length}"),
            ));
        }
    }
}

/// The longest name of a link: IFNAMSIZ of `if.h` without its end.
pub(crate) const LONGEST_NAME: usize = 15;
/// The types that are no link of the kernel, so that their names may be longer.
const WITHOUT_LINK: [&str; 2] = ["ovs-bridge", "ipsec"];

/// The kernel's `dev_valid_name`, for links that are made under their name. A card can also be
/// found by an alternative name of up to 127 characters, and a virtual function by `sriov:eth1:0`.
/// A patch port of Open vSwitch is no link of the kernel.
fn wrong_name(interface: &Value) -> Option<String> {
    let (name, by) = (text(&interface["name"]), text(&interface["identifier"]));
    let is_made = is_virtual(interface)
        && !matches!(interface["state"].as_str(), Some("absent" | "ignore"))
        && !interface["patch"].is_object()
        && !WITHOUT_LINK.contains(&text(&interface["type"]).as_str())
        && matches!(by.as_str(), "" | "name");
    if name.contains("{{") || !is_made {
        return None;
    }
    if name.len() > LONGEST_NAME {
        return Some(format!(
            "{name:?} has {} characters, and Linux takes at most {LONGEST_NAME}",
            name.len()
        ));
    }
    let is_wrong = matches!(name.as_str(), "." | "..")
        || name.contains(|letter: char| letter == '/' || letter == ':' || letter.is_whitespace());
    is_wrong.then(|| format!("{name:?} is no name of a link: it must not have /, : or blanks"))
}

/// Identifiers of VLANs (IEEE 802.1Q) and of VXLAN segments (RFC 7348).
fn tags(path: &Path, interface: &Value, found: &mut Vec<StateError>) {
    let mut within = |path: Path, value: &Value, least: u64, most: u64| {
        if let Some(number) = value
            .as_u64()
            .or_else(|| value.as_str()?.parse().ok())
            .filter(|number| !(least..=most).contains(number))
        {
            found.push(invalid(
                path,
                format!("must be {least} to {most}, not {number}"),
            ));
        }
    };
    within(
        path.key("vlan").key("id"),
        &interface["vlan"]["id"],
        0,
        4094,
    );
    within(
        path.key("vxlan").key("id"),
        &interface["vxlan"]["id"],
        0,
        (1 << 24) - 1,
    );
    for port in entries(&interface["bridge"]["port"]) {
        let path = path
            .key("bridge")
            .key("port")
            .item(&text(&port["name"]))
            .key("vlan");
        let vlan = &port["vlan"];
        within(path.key("tag"), &vlan["tag"], 0, 4094);
        for (index, tag) in entries(&vlan["trunk-tags"]).iter().enumerate() {
            let path = path.key("trunk-tags").item(&index.to_string());
            within(path.key("id"), &tag["id"], 0, 4094);
            for end in ["min", "max"] {
                within(
                    path.key("id-range").key(end),
                    &tag["id-range"][end],
                    0,
                    4094,
                );
            }
        }
    }
}

/// A destination that is no network.
fn wrong_destination(route: &Value) -> Option<String> {
    let destination = text(&route["destination"]);
    if destination.is_empty() {
        return None;
    }
    let (ip, length) = destination
        .split_once('/')
        .map_or((destination.as_str(), None), |(ip, length)| {
            (ip, Some(length))
        });
    let Ok(ip) = ip.parse::<IpAddr>() else {
        return Some(format!(
            "{destination:?} is no network, such as 192.0.2.0/24 or 2001:db8::/32"
        ));
    };
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    let is_right =
        length.is_none_or(|length| length.parse::<u8>().is_ok_and(|length| length <= longest));
    (!is_right).then(|| format!("{destination:?} has a prefix that is not 0 to {longest}"))
}

/// nmstate looks up no interface for a next hop.
fn wrong_route(route: &Value) -> Option<String> {
    if route["state"] == "absent" {
        return None;
    }
    let (kind, next) = (
        text(&route["route-type"]),
        text(&route["next-hop-interface"]),
    );
    match (kind.is_empty(), next.is_empty()) {
        (true, true) => Some("next-hop-interface is missing: name the interface that the route leads by, or give a route-type".to_owned()),
        (false, false) if next != "lo" => Some(format!("a route of type {kind} leads nowhere: leave out next-hop-interface")),
        (false, _) if !text(&route["next-hop-address"]).is_empty() => {
            Some(format!("a route of type {kind} leads nowhere: leave out next-hop-address"))
        }
        _ => None,
    }
}

fn invalid(path: Path, message: String) -> StateError {
    StateError::Invalid { path, message }
}
