//! The addresses of a desired state that no client brings, and that other nodes can see.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::path::{entries, interfaces, text};

/// Returns the static addresses of a desired state, without those that no other node can see.
pub(crate) fn static_addresses(state: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for interface in interfaces(state) {
        // Several nodes can have one address there, such as that of a service.
        let is_of_the_node = matches!(interface["type"].as_str(), Some("loopback" | "dummy"))
            || interface["name"] == "lo";
        if is_of_the_node
            || matches!(
                interface["state"].as_str(),
                Some("absent" | "down" | "ignore")
            )
        {
            continue;
        }
        for family in ["ipv4", "ipv6"] {
            if interface[family]["enabled"] == false {
                continue;
            }
            let addresses = entries(&interface[family]["address"]).iter();
            let addresses = addresses.filter(|address| address["valid-life-time"].is_null());
            let addresses = addresses.map(|address| text(&address["ip"]));
            let is_link_local = |ip: &String| ip.starts_with("169.254.") || ip.starts_with("fe80:");
            found.extend(addresses.filter(|ip| !ip.is_empty() && !is_link_local(ip)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_that_others_can_see_count() {
        let state = json!({"interfaces": [
            {
                "name": "eth1", "type": "ethernet",
                "ipv4": {"enabled": true, "address": [
                    {"ip": "192.0.2.1", "prefix-length": 24},
                    {"ip": "169.254.0.1", "prefix-length": 16},
                    {"ip": "192.0.2.9", "prefix-length": 24, "valid-life-time": "9sec"}
                ]},
                "ipv6": {"enabled": true, "address": [
                    {"ip": "2001:db8::1", "prefix-length": 64}, {"ip": "fe80::1", "prefix-length": 64}
                ]}
            },
            {
                "name": "lo", "ipv4": {"address": [{"ip": "203.0.113.1", "prefix-length": 32}]}
            },
            {
                "name": "vip", "type": "dummy",
                "ipv4": {"address": [{"ip": "203.0.113.2", "prefix-length": 32}]}
            },
            {
                "name": "eth2", "state": "absent",
                "ipv4": {"address": [{"ip": "203.0.113.3", "prefix-length": 32}]}
            },
            {
                "name": "eth4", "state": "ignore",
                "ipv4": {"address": [{"ip": "203.0.113.5", "prefix-length": 32}]}
            },
            {
                "name": "eth3",
                "ipv4": {"enabled": false, "address": [{"ip": "203.0.113.4", "prefix-length": 32}]}
            },
        ]});
        let expected = ["192.0.2.1", "2001:db8::1"].map(str::to_owned);
        assert_eq!(static_addresses(&state), BTreeSet::from(expected));
    }
}
