//! The losses of an interface that becomes a port: a bridge or a bond has the addresses, and its
//! ports have none. nmstate switches IP off on the ports of an HSR interface, too (nmstate 2.2.62,
//! `MergedInterface::post_inter_ifaces_process_hsr`).
//!
//! A port of a VRF keeps its addresses and clients. The kernel moves the routes to the networks of
//! its addresses to the table of the VRF, and drops all others (Linux, `Documentation/networking/
//! vrf.rst`, "Using VRFs"). NetworkManager puts back those that it knows: those of clients of DHCP
//! and of routers into the table of the VRF (NetworkManager 1.24, merge request 375), and those of
//! a profile into their own table. nmstate writes all configured routes into the profile, each with
//! its table (`gen_nm_ip_routes`). So the main table loses those of clients.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use crate::{
    drift::{Difference, address_text},
    index::Index,
    listed_ports,
    path::{Path, entries, interfaces, text},
    references::Names,
    route,
};

/// An interface that is to be a port of another one.
struct PortOf<'a> {
    /// The place that wants it.
    place: Path,
    /// The interface, as it is now.
    there: &'a Value,
    /// True if it is a port of that interface already.
    is_attached: bool,
    /// True if that interface is a VRF, so that the port keeps its addresses (nmstate,
    /// `BaseInterface::can_have_ip`).
    of_vrf: bool,
}

/// The interfaces that `desired` makes ports, without internal ports of Open vSwitch: these keep all
/// of it.
fn ports_of<'a>(desired: &Value, current: &'a Value) -> Vec<PortOf<'a>> {
    let pairs = pairs(desired);
    if pairs.is_empty() {
        return Vec::new();
    }
    let (wanted, there) = (by_name(desired), by_name(current));
    let is_vrf = |name: &str| {
        let found = wanted.get(name).or_else(|| there.get(name));
        found.is_some_and(|all| all.iter().any(|interface| interface["type"] == "vrf"))
    };
    let ports_there = |controller: &str| -> BTreeSet<String> {
        there
            .get(controller)
            .into_iter()
            .flatten()
            .flat_map(|interface| listed_ports::names(interface))
            .collect()
    };
    // The ports that a controller of the host has, by its name.
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for (place, controller, port) in pairs {
        if controller.is_empty() {
            continue;
        }
        let of_vrf = is_vrf(&controller);
        let of_kernel = |interface: &&&Value| {
            !matches!(
                interface["type"].as_str(),
                Some("ovs-bridge" | "ovs-interface")
            )
        };
        let Some(port_there) = there
            .get(port.as_str())
            .and_then(|all| all.iter().find(of_kernel))
            .copied()
        else {
            continue;
        };
        let is_attached = port_there["controller"] == controller.as_str()
            || listed
                .entry(controller)
                .or_insert_with_key(|controller| ports_there(controller))
                .contains(&port);
        found.push(PortOf {
            place,
            there: port_there,
            is_attached,
            of_vrf,
        });
    }
    found
}

/// Each port that a state wants: the place that says so, the controller and the port.
pub(crate) fn pairs(desired: &Value) -> Vec<(Path, String, String)> {
    let mut found = Vec::new();
    for wanted in interfaces(desired) {
        if wanted["state"].as_str().unwrap_or("up") != "up" {
            continue;
        }
        let name = text(&wanted["name"]);
        let path = Path::of_interface(wanted);
        for (place, port) in listed_ports::ports(&path, wanted) {
            found.push((place, name.clone(), port));
        }
        if let Some(controller) = wanted["controller"].as_str() {
            found.push((path, controller.to_owned(), name));
        }
    }
    found
}

/// The interfaces of a state. A bridge of Open vSwitch and its internal port share a name.
fn by_name(state: &Value) -> BTreeMap<&str, Vec<&Value>> {
    let mut all: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for interface in interfaces(state) {
        if let Some(name) = interface["name"].as_str() {
            all.entry(name).or_default().push(interface);
        }
    }
    all
}

/// The interfaces of `current` that become ports without addresses by `desired`, each once.
pub fn taken<'a>(desired: &Value, current: &'a Value) -> Vec<&'a Value> {
    let mut renamed = desired.clone();
    Names::of(desired, &Index::of(current)).rename(&mut renamed);
    let ports = ports_of(&renamed, current);
    new(ports.iter().filter(|port| !port.of_vrf))
}

/// The interfaces among these that are no ports yet, each once.
fn new<'a, 'b>(ports: impl Iterator<Item = &'b PortOf<'a>>) -> Vec<&'a Value>
where
    'a: 'b,
{
    let mut names = BTreeSet::new();
    ports
        .filter(|port| !port.is_attached && names.insert(text(&port.there["name"])))
        .map(|port| port.there)
        .collect()
}

/// The losses of interfaces that become ports: their addresses, their clients of DHCP and of
/// routers, and the routes through a gateway over them. Ports of a VRF lose the routes that clients
/// have brought.
pub(crate) fn losses(desired: &Value, current: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    let ports = ports_of(desired, current);
    let taken = new(ports.iter().filter(|port| !port.of_vrf));
    let of_vrf = new(ports.iter().filter(|port| port.of_vrf));
    if of_vrf.is_empty() && taken.is_empty() {
        return found;
    }
    let routes = Gateways::of(current);
    for port in taken {
        let path = Path::of_interface(port);
        for family in ["ipv4", "ipv6"] {
            for client in ["dhcp", "autoconf"] {
                if port[family]["enabled"] != false && port[family][client] == true {
                    found.push(Difference {
                        path: path.key(family).key(client),
                        wanted: false.into(),
                        found: true.into(),
                    });
                }
            }
            addresses(&path.key(family).key("address"), port, family, &mut found);
        }
        routes.lost(port, |_, _| true, &mut found);
    }
    if !of_vrf.is_empty() {
        let configured = |state: &Value| -> HashSet<String> {
            let routes = entries(&state["routes"]["config"]).iter();
            routes.map(route::key).collect()
        };
        let (wanted, there) = (configured(desired), configured(current));
        for port in of_vrf {
            let is_clients = |key: &str, route: &Value| {
                route::is_in_main_table(route) && !wanted.contains(key) && !there.contains(key)
            };
            routes.lost(port, is_clients, &mut found);
        }
    }
    found
}

/// The routes through a gateway, by the interface that they lead over.
struct Gateways<'a>(BTreeMap<&'a str, Vec<&'a Value>>);

impl<'a> Gateways<'a> {
    fn of(current: &'a Value) -> Self {
        let mut routes: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for route in ["config", "running"]
            .into_iter()
            .flat_map(|list| entries(&current["routes"][list]))
            .filter(|route| !text(&route["next-hop-address"]).is_empty())
        {
            if let Some(over) = route["next-hop-interface"].as_str() {
                routes.entry(over).or_default().push(route);
            }
        }
        Self(routes)
    }

    /// Adds the routes over a port that `is_lost`, by key and route, each once.
    fn lost(
        &self,
        port: &Value,
        is_lost: impl Fn(&str, &Value) -> bool,
        found: &mut Vec<Difference>,
    ) {
        let mut keys = BTreeSet::new();
        let routes = port["name"].as_str().and_then(|name| self.0.get(name));
        for route in routes.into_iter().flatten() {
            let key = route::key(route);
            if is_lost(&key, route) && keys.insert(key.clone()) {
                found.push(Difference {
                    path: Path::default().key("routes").key("config").item(&key),
                    wanted: Value::Null,
                    found: (*route).clone(),
                });
            }
        }
    }
}

/// The addresses that ports have although they are ports already. Without NetworkManager, each
/// apply takes them away, because a client of the host may have brought them back.
pub fn left_on_ports(desired: &Value, current: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    for port in ports_of(desired, current) {
        if !port.is_attached || port.of_vrf {
            continue;
        }
        for family in ["ipv4", "ipv6"] {
            let path = port.place.key(family).key("address");
            addresses(&path, port.there, family, &mut found);
        }
    }
    found
}

/// The addresses of an interface as things that go. The kernel itself gives and takes the
/// link-local one.
fn addresses(path: &Path, interface: &Value, family: &str, found: &mut Vec<Difference>) {
    if interface[family]["enabled"] == false {
        return;
    }
    for address in entries(&interface[family]["address"]) {
        if !text(&address["ip"]).starts_with("fe80:") {
            let address = address_text(address);
            found.push(Difference {
                path: path.item(&address),
                wanted: Value::Null,
                found: address.into(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::removal;

    fn said(found: &[Difference]) -> Vec<String> {
        found.iter().map(ToString::to_string).collect()
    }

    fn bridge(name: &str, ports: &[&str]) -> Value {
        let ports: Vec<_> = ports.iter().map(|port| json!({ "name": port })).collect();
        json!({"name": name, "type": "linux-bridge", "state": "up", "bridge": {"port": ports}})
    }

    fn card() -> Value {
        json!({
            "name": "eth0", "type": "ethernet", "state": "up",
            "ipv4": {
                "enabled": true, "dhcp": true,
                "address": [{"ip": "192.0.2.11", "prefix-length": 24, "valid-life-time": "30sec"}]
            },
            "ipv6": {
                "enabled": true, "autoconf": false, "dhcp": false,
                "address": [
                    {"ip": "2001:db8::11", "prefix-length": 64},
                    {"ip": "fe80::11", "prefix-length": 64}
                ]
            }
        })
    }

    fn with_card(card: Value) -> Value {
        json!({
            "interfaces": [card, {"name": "vrf0", "type": "vrf", "state": "up", "vrf": {"port": []}}],
            "routes": {
                "config": [{
                    "destination": "::/0", "next-hop-interface": "eth0",
                    "next-hop-address": "2001:db8::1", "table-id": 254
                }],
                "running": [
                    {
                        "destination": "::/0", "next-hop-interface": "eth0",
                        "next-hop-address": "2001:db8::1", "metric": 1024, "table-id": 254
                    },
                    {
                        "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
                        "next-hop-address": "192.0.2.1", "metric": 100, "table-id": 254
                    },
                    {"destination": "192.0.2.0/24", "next-hop-interface": "eth0", "next-hop-address": ""},
                    {
                        "destination": "10.0.0.0/8", "next-hop-interface": "eth1",
                        "next-hop-address": "198.51.100.1"
                    }
                ]
            }
        })
    }

    #[test]
    fn a_card_that_becomes_a_port_loses_addresses_clients_and_routes() {
        let all = [
            "interfaces[eth0].ipv4.dhcp: true should be false",
            "interfaces[eth0].ipv4.address[192.0.2.11/24]: \"192.0.2.11/24\" should not be there",
            "interfaces[eth0].ipv6.address[2001:db8::11/64]: \"2001:db8::11/64\" should not be there",
        ];
        let routes = [
            "routes.config[::/0 via 2001:db8::1 dev eth0]",
            "routes.config[0.0.0.0/0 via 192.0.2.1 dev eth0]",
        ];
        let bond = json!({
            "name": "bond0", "type": "bond", "state": "up",
            "link-aggregation": {"mode": "802.3ad", "port": ["eth0"]}
        });
        let own = json!({"name": "eth0", "type": "ethernet", "controller": "br0"});
        let ovs = json!({
            "name": "ovs0", "type": "ovs-bridge", "state": "up", "bridge": {"port": [{"name": "eth0"}]}
        });
        let hsr = json!({
            "name": "hsr0", "type": "hsr", "state": "up",
            "hsr": {"port1": "eth0", "port2": "eth1", "multicast-spec": 40, "protocol": "prp"}
        });
        for desired in [bridge("br0", &["eth0"]), bond, own, ovs, hsr] {
            let desired = json!({ "interfaces": [desired] });
            let found = losses(&desired, &with_card(card()));
            assert_eq!(said(&found[..3]), all, "{desired}");
            let paths: Vec<_> = found[3..].iter().map(|one| one.path.to_string()).collect();
            assert_eq!(paths, routes, "{desired}");
            assert!(removal::changes(&desired, &with_card(card())).ends_with(&found));
        }
        for desired in [
            json!({
                "name": "br0", "type": "linux-bridge", "state": "absent",
                "bridge": {"port": [{"name": "eth0"}]}
            }),
            bridge("br0", &["eth7"]),
        ] {
            let desired = json!({ "interfaces": [desired] });
            assert_eq!(said(&losses(&desired, &with_card(card()))), [""; 0]);
        }
    }

    #[test]
    fn a_card_that_becomes_a_port_of_a_vrf_loses_the_routes_of_clients() {
        let listed =
            json!({"name": "vrf0", "type": "vrf", "state": "up", "vrf": {"port": ["eth0"]}});
        let own = json!({"name": "eth0", "type": "ethernet", "controller": "vrf0"});
        for desired in [listed, own] {
            let mut desired = json!({ "interfaces": [desired] });
            let mut current = with_card(card());
            let list = current["routes"]["running"].as_array_mut().unwrap();
            list.push(json!({
                "destination": "10.9.0.0/16", "next-hop-interface": "eth0",
                "next-hop-address": "192.0.2.1", "table-id": 100
            }));
            // NetworkManager puts the other default route back into the main table, because nmstate
            // has written the table into the profile.
            let found = losses(&desired, &current);
            let paths: Vec<_> = found.iter().map(|one| one.path.to_string()).collect();
            let of_client = "routes.config[0.0.0.0/0 via 192.0.2.1 dev eth0]";
            assert_eq!(paths, [of_client], "{desired}");
            assert!(taken(&desired, &current).is_empty(), "the addresses stay");

            let (mut by_port, mut by_vrf) = (current.clone(), current.clone());
            by_port["interfaces"][0]["controller"] = "vrf0".into();
            by_vrf["interfaces"][1]["vrf"]["port"] = json!(["eth0"]);
            for attached in [by_port, by_vrf] {
                assert_eq!(said(&losses(&desired, &attached)), [""; 0], "{attached}");
            }
            desired["routes"] = json!({"config": [{
                "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
                "next-hop-address": "192.0.2.1"
            }]});
            assert_eq!(said(&losses(&desired, &current)), [""; 0], "it is wanted");
        }
    }

    #[test]
    fn a_port_that_an_hsr_interface_has_already_loses_nothing() {
        let desired = json!({"interfaces": [{
            "name": "hsr0", "type": "hsr", "state": "up", "hsr": {"port1": "eth0", "port2": "eth1"}
        }]});
        let mut current = with_card(card());
        current["interfaces"][1] = desired["interfaces"][0].clone();
        assert_eq!(said(&losses(&desired, &current)), [""; 0]);
    }

    #[test]
    fn a_route_that_the_state_removes_itself_is_named_once() {
        let desired = json!({
            "interfaces": [bridge("br0", &["eth0"])],
            "routes": {"config": [{"state": "absent", "next-hop-interface": "eth0"}]}
        });
        let found = removal::changes(&desired, &with_card(card()));
        let paths: Vec<_> = found.iter().map(|one| one.path.to_string()).collect();
        let gone = "routes.config[::/0 via 2001:db8::1 dev eth0]";
        assert_eq!(paths.iter().filter(|path| *path == gone).count(), 1);
    }

    #[test]
    fn an_address_on_a_port_is_found_where_the_port_is_wanted() {
        let desired = json!({"interfaces": [bridge("br0", &["eth0"])]});
        let mut attached = card();
        attached["controller"] = "br0".into();
        let current = with_card(attached);
        assert_eq!(said(&losses(&desired, &current)), [""; 0]);
        assert_eq!(
            said(&left_on_ports(&desired, &current)),
            [
                "interfaces[br0].bridge.port[eth0].ipv4.address[192.0.2.11/24]: \"192.0.2.11/24\" should not be there",
                "interfaces[br0].bridge.port[eth0].ipv6.address[2001:db8::11/64]: \"2001:db8::11/64\" should not be there",
            ]
        );
        assert_eq!(
            said(&left_on_ports(&desired, &with_card(card()))),
            [""; 0],
            "it is no port yet"
        );
    }
}
