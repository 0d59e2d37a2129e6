//! What can never work, whatever is on the host: addresses and prefixes that are none, IPv6 as nmstate cannot have it, routes that lead nowhere.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use crate::path::{Path, entries, interface_key, interfaces, text};
use crate::state::StateError;

/// What is wrong in a state that has only known keys, and no references any more.
pub fn mistakes(state: &Value) -> Vec<StateError> {
    let mut found = Vec::new();
    for interface in interfaces(state).iter().filter(|interface| interface["state"] != "absent") {
        let path = Path::default().key("interfaces").item(&interface_key(interface));
        addresses::<Ipv4Addr>(&path.key("ipv4"), &interface["ipv4"], 32, &mut found);
        let (path, family) = (path.key("ipv6"), &interface["ipv6"]);
        addresses::<Ipv6Addr>(&path, family, 128, &mut found);
        // NotImplementedError of nmstate. Without `dhcp` it may be what the host has.
        if family["enabled"] != false && family["autoconf"] == true && family["dhcp"] == false {
            let message =
                "is nothing that nmstate can do without dhcp: write dhcp: true, too, and DHCPv6 is asked where the router says so";
            found.push(invalid(path.key("autoconf"), message.to_owned()));
        }
    }
    let path = Path::default().key("routes").key("config");
    for (index, route) in entries(&state["routes"]["config"]).iter().enumerate() {
        if let Some(message) = wrong_route(route) {
            found.push(invalid(path.item(&index.to_string()), message));
        }
    }
    found
}

fn addresses<A: std::str::FromStr>(path: &Path, family: &Value, longest: u64, found: &mut Vec<StateError>) {
    let name = if longest == 32 { "IPv4" } else { "IPv6" };
    for (index, address) in entries(&family["address"]).iter().enumerate() {
        let path = path.key("address").item(&index.to_string());
        let ip = text(&address["ip"]);
        if ip.parse::<A>().is_err() {
            found.push(invalid(path.key("ip"), format!("{ip:?} is no {name} address")));
        }
        let length = &address["prefix-length"];
        if length.as_u64().or_else(|| length.as_str()?.parse().ok()).is_some_and(|length| length > longest) {
            found.push(invalid(path.key("prefix-length"), format!("must be 0 to {longest} for {name}, not {length}")));
        }
    }
}

/// nmstate looks up no interface for a next hop.
fn wrong_route(route: &Value) -> Option<String> {
    if route["state"] == "absent" {
        return None;
    }
    let (kind, next) = (text(&route["route-type"]), text(&route["next-hop-interface"]));
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
