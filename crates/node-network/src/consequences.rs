//! The consequences of a change: parts of a host that a desired state does not name, and that an
//! apply changes all the same.
//!
//! - An interface that goes takes along the interfaces on top of it, the other end of a veth pair,
//!   and the internal ports of a bridge of Open vSwitch (nmstate 2.2.62,
//!   `MergedInterfaces::mark_orphan_interface_as_absent` and `MergedInterface::apply_ctrller_change`;
//!   the kernel removes the rest). Its ports are free afterwards. For NetworkManager, nmstate also
//!   deletes a virtual interface that is to be down
//!   (`delete_remain_virtual_interface_as_desired`).
//! - A card that is down for NetworkManager keeps its link up and what is on top of it
//!   (`parent_state_changed` of its VLANs and mac-vlans follows only whether the base is managed).
//!   Without NetworkManager the link itself goes down or up, and so do the VLANs on top of it, with
//!   their routes (Linux 6.18, `vlan_device_event`).
//! - A controller loses a port that goes, or that another one takes.
//! - A route goes with the interface that it leads over, or with the addresses of its family
//!   (nmstate, `MergedRoutes::new`). The addresses and routes of a client of DHCP or of routers go
//!   with the client.
//! - An interface on top of another one has no larger MTU, and the ports of a bond have that of the
//!   bond, from the time that they join it (Linux 6.18, `vlan_device_event`,
//!   `macvlan_device_event`, `ipvlan_device_event`, `bond_change_mtu`, `bond_enslave`).
//! - An interface that becomes a port is set up, by NetworkManager and by the agent. A port of a VRF
//!   keeps its addresses, and all traffic over it asks the table of the VRF from then on.
//! - Without NetworkManager, a route goes whose gateway no address of its interface reaches any more.
//!
//! [`crate::removal`] has the changes of what the desired state names, and [`crate::losses`] those
//! of ports.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    net::IpAddr,
};

use ipnet::IpNet;
use serde_json::Value;

use crate::{
    drift::{Difference, address_text, is_automatic, is_same_address, leaves, says_leases},
    feasible::mtu,
    index::{Index, above},
    link::is_card,
    listed_ports, losses,
    path::{Path, entries, interface_key, interfaces, text},
    route,
};

/// The sections of interfaces with ports.
const WITH_PORTS: [&str; 3] = ["bridge", "link-aggregation", "vrf"];
/// The MTU of a new bond for which no MTU is wanted (Linux, `ETH_DATA_LEN`).
const MTU_OF_NEW_BOND: u64 = 1500;

/// A change that follows from another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Consequence {
    /// The change.
    pub difference: Difference,
    /// The place of the wish that it follows from.
    pub of: Path,
}

/// The program that applies a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applier {
    /// NetworkManager.
    NetworkManager,
    /// The agent itself, through the kernel.
    Kernel,
}

/// The consequences of an apply of `desired` on a host that is like `current`, without those that
/// are among its `changes`. None if it has no changes.
///
/// Both are states in nmstate's form. `current` may be a report with additions. If the applier is
/// not known, these are the consequences that both have.
pub fn consequences(
    desired: &Value,
    current: &Value,
    changes: &[Difference],
    applier: Option<Applier>,
) -> Vec<Consequence> {
    consequences_of(desired, &Index::of(current), changes, applier)
}

/// Like [`consequences`], for those who compare with the same host several times.
pub(crate) fn consequences_of(
    desired: &Value,
    host: &Index,
    changes: &[Difference],
    applier: Option<Applier>,
) -> Vec<Consequence> {
    if changes.is_empty() {
        return Vec::new();
    }
    let mut search = Search {
        desired: Index::of(desired),
        host,
        above: above(host.state),
        holders: holders(host.state),
        wanted_routes: entries(&desired["routes"]["config"])
            .iter()
            .filter(|route| !route::is_absent(route))
            .map(route::key)
            .collect(),
        applier,
        gone: HashSet::new(),
        going: Vec::new(),
        lowered: Vec::new(),
        known: changes.iter().map(|change| change.path.clone()).collect(),
        found: Vec::new(),
    };
    search.interfaces();
    if applier == Some(Applier::Kernel) {
        search.vlans_follow();
    }
    search.ports();
    search.addresses_and_routes();
    search.mtus();
    search.ports_come_up();
    search.ports_of_vrfs();
    if applier == Some(Applier::Kernel) {
        search.gateways_out_of_reach();
    }
    search.found
}

fn is_up(wanted: &Value) -> bool {
    wanted["state"].as_str().unwrap_or("up") == "up"
}

/// The interface that has a port, by the name of the port.
fn holders(state: &Value) -> HashMap<String, &Value> {
    let mut holders = HashMap::new();
    for interface in interfaces(state) {
        for port in port_names(interface) {
            holders.insert(port, interface);
        }
    }
    holders
}

/// The names of the ports that an interface has or is to have.
fn port_names(interface: &Value) -> BTreeSet<String> {
    listed_ports::names(interface).collect()
}

/// The networks of addresses.
fn networks<'a>(addresses: impl Iterator<Item = &'a Value>) -> Vec<IpNet> {
    addresses
        .filter_map(|address| address_text(address).parse().ok())
        .collect()
}

/// Reports whether an interface says which ports it has.
fn lists_ports(interface: &Value) -> bool {
    WITH_PORTS.into_iter().any(|section| {
        let section = &interface[section];
        section["port"].is_array() || section["ports"].is_array()
    })
}

struct Search<'a> {
    desired: Index<'a>,
    host: &'a Index<'a>,
    above: HashMap<&'a str, Vec<&'a Value>>,
    holders: HashMap<String, &'a Value>,
    /// The keys of the routes that are to be there.
    wanted_routes: HashSet<String>,
    applier: Option<Applier>,
    /// The keys of the interfaces that go.
    gone: HashSet<Cow<'a, str>>,
    /// These interfaces, and the wish that each of them follows from.
    going: Vec<(&'a Value, Path)>,
    /// The interfaces that go down with their base, and the wish that each of them follows from.
    lowered: Vec<(&'a Value, Path)>,
    /// The places of all changes so far.
    known: HashSet<Path>,
    found: Vec<Consequence>,
}

impl<'a> Search<'a> {
    fn add(&mut self, of: &Path, path: Path, wanted: Value, found: Value) {
        if self.known.insert(path.clone()) {
            self.found.push(Consequence {
                difference: Difference {
                    path,
                    wanted,
                    found,
                },
                of: of.clone(),
            });
        }
    }

    /// The wish for an interface of the host.
    fn wanted(&self, there: &Value) -> Option<&'a Value> {
        self.desired.key(&interface_key(there))
    }

    /// The interfaces that go with another one.
    fn interfaces(&mut self) {
        let mut queue = VecDeque::new();
        for wanted in interfaces(self.desired.state) {
            let Some(there) = self.host.meant(wanted) else {
                continue;
            };
            let goes = match wanted["state"].as_str() {
                Some("absent") => there["state"] != "ignore",
                Some("down") => {
                    self.applier == Some(Applier::NetworkManager) && there["state"] == "up"
                }
                _ => false,
            };
            if goes && !is_card(wanted, there) {
                queue.push_back((there, Path::of_interface(wanted)));
            } else if is_up(wanted) && there["type"] == "ovs-bridge" {
                for port in self.detached(wanted, there) {
                    queue.push_back((port, Path::of_interface(wanted)));
                }
            }
        }
        while let Some((there, of)) = queue.pop_front() {
            if !self.gone.insert(interface_key(there)) {
                continue;
            }
            if self.wanted(there).is_none() {
                self.add(
                    &of,
                    Path::of_interface(there),
                    Value::Null,
                    there["type"].clone(),
                );
            }
            for other in self.with(there) {
                if self.wanted(other).is_none() {
                    queue.push_back((other, of.clone()));
                }
            }
            self.going.push((there, of));
        }
    }

    /// The VLANs that the kernel sets up or down with their base.
    fn vlans_follow(&mut self) {
        let mut queue = VecDeque::new();
        for wanted in interfaces(self.desired.state) {
            let (from, to) = match wanted["state"].as_str().unwrap_or("up") {
                "up" => ("down", "up"),
                "down" => ("up", "down"),
                _ => continue,
            };
            let there = self.host.meant(wanted);
            if let Some(there) = there.filter(|there| there["state"] == from) {
                queue.push_back((there, from, to, Path::of_interface(wanted)));
            }
        }
        while let Some((base, from, to, of)) = queue.pop_front() {
            let name = base["name"].as_str().unwrap_or_default();
            for vlan in self.above.get(name).cloned().unwrap_or_default() {
                let follows = vlan["type"] == "vlan"
                    && vlan["state"] == from
                    && vlan["vlan"]["loose-binding"] != true
                    && self.wanted(vlan).is_none();
                let path = Path::of_interface(vlan).key("state");
                if !follows || self.known.contains(&path) {
                    continue;
                }
                self.add(&of, path, to.into(), from.into());
                if to == "down" {
                    self.lowered.push((vlan, of.clone()));
                }
                queue.push_back((vlan, from, to, of.clone()));
            }
        }
    }

    /// The interfaces that go with this one.
    fn with(&self, there: &'a Value) -> Vec<&'a Value> {
        let Some(name) = there["name"].as_str() else {
            return Vec::new();
        };
        if there["type"] == "ovs-bridge" {
            let ports = port_names(there);
            return ports
                .iter()
                .filter_map(|port| self.internal(port))
                .collect();
        }
        let on_top = self.above.get(name).into_iter().flatten().copied();
        let peer = there["veth"]["peer"].as_str();
        on_top
            .chain(peer.and_then(|peer| self.host.key(peer)))
            .collect()
    }

    /// The internal ports that a bridge of Open vSwitch is to lose. They cannot be without it.
    fn detached(&self, wanted: &Value, there: &Value) -> Vec<&'a Value> {
        let bridge = &wanted["bridge"];
        if !lists_ports(wanted) {
            return Vec::new();
        }
        let stays = port_names(wanted);
        port_names(there)
            .iter()
            .filter(|port| !stays.contains(*port) && !leaves(bridge, Some(port), self.host))
            .filter_map(|port| self.internal(port))
            .filter(|port| self.wanted(port).is_none())
            .collect()
    }

    /// The internal port of Open vSwitch of this name.
    fn internal(&self, name: &str) -> Option<&'a Value> {
        let port = self.host.key(name);
        port.filter(|port| port["type"] == "ovs-interface")
    }

    /// Ports whose controller goes, and controllers whose port goes or belongs to another one.
    fn ports(&mut self) {
        let pairs = losses::pairs(self.desired.state);
        let taken: HashSet<&str> = pairs.iter().map(|(_, _, port)| port.as_str()).collect();
        for (there, of) in self.going.clone() {
            // A port of an HSR interface names no controller in a report (Linux 6.18,
            // `hsr_portdev_setup` makes the interface no master).
            let names = match there["type"].as_str() {
                Some("hsr") => BTreeSet::new(),
                _ => port_names(there),
            };
            for name in names {
                let Some(port) = self.host.key(&name) else {
                    continue;
                };
                let says = self.wanted(port).is_some_and(|wish| {
                    wish["controller"].is_string() || wish["state"] == "absent"
                });
                if says
                    || taken.contains(name.as_str())
                    || port["state"] == "ignore"
                    || self.gone.contains(&interface_key(port))
                {
                    continue;
                }
                let path = Path::of_interface(port).key("controller");
                self.add(&of, path, "".into(), there["name"].clone());
            }
            self.leave(&of, &text(&there["name"]), None);
        }
        for wanted in interfaces(self.desired.state) {
            let there = self.host.meant(wanted);
            if wanted["state"] == "absent"
                && let Some(there) = there.filter(|there| is_card(wanted, there))
            {
                self.leave(&Path::of_interface(wanted), &text(&there["name"]), None);
            }
        }
        for (of, controller, port) in &pairs {
            self.leave(of, port, Some(controller.as_str()));
        }
    }

    /// A port leaves its controller, unless that is `to`.
    fn leave(&mut self, of: &Path, port: &str, to: Option<&str>) {
        let Some(holder) = self.holders.get(port).copied() else {
            return;
        };
        let stays = to.is_some_and(|to| holder["name"] == to);
        let by_port = self.desired.key(port);
        let is_listed = self.wanted(holder).is_some_and(lists_ports)
            || by_port.is_some_and(|wish| wish["controller"].is_string())
            || self.gone.contains(&interface_key(holder));
        // nmstate refuses to give the port of an HSR interface away.
        if stays || is_listed || holder["type"] == "hsr" {
            return;
        }
        let section = match holder["type"].as_str() {
            Some("bond") => "link-aggregation",
            Some("vrf") => "vrf",
            _ => "bridge",
        };
        let path = Path::of_interface(holder)
            .key(section)
            .key("port")
            .item(port);
        self.add(of, path, Value::Null, "a port".into());
    }

    /// The routes over interfaces that go, and the losses of families of addresses.
    fn addresses_and_routes(&mut self) {
        let routes = Routes::of(self.host.state);
        for (there, of) in [self.going.clone(), self.lowered.clone()].concat() {
            self.routes(&of, routes.over(there));
        }
        for wanted in interfaces(self.desired.state) {
            let Some(there) = self.host.meant(wanted) else {
                continue;
            };
            let of = Path::of_interface(wanted);
            if is_up(wanted) {
                for family in ["ipv4", "ipv6"] {
                    self.family(&of, wanted, there, family, &routes);
                }
            } else if wanted["state"] != "ignore" && there["state"] == "up" {
                self.routes(&of, routes.over(there));
            }
        }
    }

    /// The addresses, clients and routes of a family that is switched off, or whose clients are.
    fn family(
        &mut self,
        of: &Path,
        wanted: &Value,
        there: &Value,
        family: &str,
        routes: &Routes<'a>,
    ) {
        let (wish, is) = (&wanted[family], &there[family]);
        if !wish.is_object() || is["enabled"] == false {
            return;
        }
        let path = of.key(family);
        let is_off = wish["enabled"] == false;
        // An omitted property stays as it is.
        let stays = |client: &str| match &wish[client] {
            Value::Null => is[client] == true,
            wish => *wish == true,
        };
        let has_client = is["dhcp"] == true || is["autoconf"] == true;
        let client_stops = has_client && (is_off || !(stays("dhcp") || stays("autoconf")));
        if !(is_off || client_stops) {
            return;
        }
        if is_off {
            for client in ["dhcp", "autoconf"] {
                if is[client] == true {
                    self.add(of, path.key(client), false.into(), true.into());
                }
            }
        }
        let there_are = entries(&is["address"]);
        let says_leases = says_leases(there_are);
        for address in there_are {
            let is_leased = !says_leases || !address["valid-life-time"].is_null();
            let is_listed = entries(&wish["address"])
                .iter()
                .any(|listed| is_same_address(listed, address));
            let is_the_kernels = text(&address["ip"]).starts_with("fe80:");
            if is_the_kernels || !is_off && (!is_leased || is_listed) {
                continue;
            }
            let address = address_text(address);
            let path = path.key("address").item(&address);
            self.add(of, path, Value::Null, address.into());
        }
        let is_ipv6 = family == "ipv6";
        let lost: Vec<&Value> = routes
            .over(there)
            .into_iter()
            .filter(|route| text(&route["destination"]).contains(':') == is_ipv6)
            .filter(|route| is_off || !routes.is_static(route))
            .collect();
        self.routes(of, lost);
    }

    /// Routes that go, without those that are wanted.
    fn routes(&mut self, of: &Path, lost: Vec<&'a Value>) {
        for route in lost {
            let key = route::key(route);
            if !self.wanted_routes.contains(&key) {
                let path = Path::default().key("routes").key("config").item(&key);
                self.add(of, path, Value::Null, route.clone());
            }
        }
    }

    /// The interfaces of the host that become ports: each with the place that says so, and its
    /// controller.
    fn new_ports(&self) -> Vec<(Path, String, &'a Value)> {
        let pairs = losses::pairs(self.desired.state).into_iter();
        let new = pairs.filter_map(|(of, controller, name)| {
            let port = self.host.key(&name)?;
            let is_new = self
                .holders
                .get(&name)
                .is_none_or(|holder| holder["name"] != controller.as_str());
            (is_new && !controller.is_empty()).then_some((of, controller, port))
        });
        new.collect()
    }

    /// The new ports that are down.
    fn ports_come_up(&mut self) {
        for (of, _, port) in self.new_ports() {
            let says_state = self
                .wanted(port)
                .is_some_and(|wish| wish["state"].is_string());
            if !says_state && port["state"] == "down" {
                self.add(
                    &of,
                    Path::of_interface(port).key("state"),
                    "up".into(),
                    "down".into(),
                );
            }
        }
    }

    /// The new ports of VRFs.
    fn ports_of_vrfs(&mut self) {
        for (of, controller, port) in self.new_ports() {
            let vrf = self.desired.key(&controller);
            let vrf = vrf.or_else(|| self.host.key(&controller));
            if vrf.is_some_and(|vrf| vrf["type"] == "vrf") {
                let path = Path::of_interface(port).key("controller");
                let now = text(&port["controller"]);
                self.add(&of, path, controller.into(), now.into());
            }
        }
    }

    /// The routes whose gateway is on a network of which no address is left.
    fn gateways_out_of_reach(&mut self) {
        let routes = Routes::of(self.host.state);
        for wanted in interfaces(self.desired.state) {
            let Some(there) = self.host.meant(wanted).filter(|_| is_up(wanted)) else {
                continue;
            };
            for family in ["ipv4", "ipv6"] {
                let (wish, is) = (&wanted[family], &there[family]);
                if !wish["address"].is_array() || wish["enabled"] == false {
                    continue;
                }
                let before = networks(entries(&is["address"]).iter());
                // A client keeps its own.
                let kept = entries(&is["address"])
                    .iter()
                    .filter(|one| is_automatic(one));
                let after = networks(kept.chain(entries(&wish["address"])));
                let lost = routes.over(there).into_iter().filter(|route| {
                    let gateway: Result<IpAddr, _> = text(&route["next-hop-address"]).parse();
                    gateway.is_ok_and(|gateway| {
                        let reaches = |network: &IpNet| network.contains(&gateway);
                        before.iter().any(reaches) && !after.iter().any(reaches)
                    })
                });
                let lost = lost.collect();
                self.routes(&Path::of_interface(wanted), lost);
            }
        }
    }

    /// The MTUs that follow another one.
    fn mtus(&mut self) {
        let mut queue = VecDeque::new();
        for wanted in interfaces(self.desired.state) {
            let Some(wish) = mtu(wanted).filter(|_| is_up(wanted)) else {
                continue;
            };
            let of = Path::of_interface(wanted).key("mtu");
            if let Some(there) = self.host.meant(wanted)
                && mtu(there).is_some_and(|now| now != wish)
            {
                queue.push_back((there, wish, of.clone()));
            }
            if wanted["link-aggregation"].is_object() {
                for port in port_names(wanted) {
                    let port = self.host.key(&port);
                    queue.extend(port.and_then(|port| self.mtu(&of, port, wish)));
                }
            }
        }
        for (of, controller, port) in self.new_ports() {
            if let Some(new) = self.mtu_of_bond(&controller) {
                queue.extend(self.mtu(&of, port, new));
            }
        }
        while let Some((there, limit, of)) = queue.pop_front() {
            let name = text(&there["name"]);
            let on_top = self.above.get(name.as_str()).cloned().unwrap_or_default();
            for other in on_top {
                let follows = match other["type"].as_str() {
                    Some("vlan" | "mac-vlan" | "mac-vtap") => {
                        mtu(other).is_some_and(|now| now > limit)
                    }
                    Some("ipvlan") => true,
                    _ => false,
                };
                if follows {
                    queue.extend(self.mtu(&of, other, limit));
                }
            }
            // Those of a bond that lists its ports are known already.
            if there["type"] == "bond" && !self.wanted(there).is_some_and(lists_ports) {
                for port in port_names(there) {
                    let port = self.host.key(&port);
                    queue.extend(port.and_then(|port| self.mtu(&of, port, limit)));
                }
            }
        }
    }

    /// The MTU that a bond has after the change. None if it is no bond, or is not to be up.
    fn mtu_of_bond(&self, name: &str) -> Option<u64> {
        let (wanted, there) = (self.desired.key(name), self.host.key(name));
        let is_bond = |interface: &Value| interface["type"] == "bond";
        if !wanted.is_none_or(is_up) || !wanted.into_iter().chain(there).any(is_bond) {
            return None;
        }
        let known = wanted.and_then(mtu).or_else(|| there.and_then(mtu));
        Some(known.unwrap_or(MTU_OF_NEW_BOND))
    }

    /// An interface gets this MTU unless it has it, or another one is wanted of it. Returns it with
    /// all that its own followers need.
    fn mtu(&mut self, of: &Path, there: &'a Value, new: u64) -> Option<(&'a Value, u64, Path)> {
        let has_own = self
            .wanted(there)
            .is_some_and(|wish| mtu(wish).is_some() || !is_up(wish));
        let path = Path::of_interface(there).key("mtu");
        if mtu(there).is_none_or(|now| now == new)
            || has_own
            || self.gone.contains(&interface_key(there))
            || self.known.contains(&path)
        {
            return None;
        }
        self.add(of, path, new.into(), there["mtu"].clone());
        Some((there, new, of.clone()))
    }
}

/// The routes of a host, by the interface that they lead over.
struct Routes<'a> {
    over: HashMap<&'a str, Vec<&'a Value>>,
    /// The keys of those that are configured.
    configured: HashSet<String>,
}

impl<'a> Routes<'a> {
    /// All configured routes, and those through a gateway that a client has
    /// brought. The kernel makes the others, to the networks of addresses.
    fn of(state: &'a Value) -> Self {
        let configured = entries(&state["routes"]["config"]);
        let brought = entries(&state["routes"]["running"]).iter();
        let brought = brought.filter(|route| !text(&route["next-hop-address"]).is_empty());
        let mut over: HashMap<&str, Vec<&Value>> = HashMap::new();
        for route in configured.iter().chain(brought) {
            if let Some(interface) = route["next-hop-interface"].as_str() {
                over.entry(interface).or_default().push(route);
            }
        }
        Self {
            over,
            configured: configured.iter().map(route::key).collect(),
        }
    }

    fn over(&self, interface: &Value) -> Vec<&'a Value> {
        let name = interface["name"].as_str();
        name.and_then(|name| self.over.get(name))
            .cloned()
            .unwrap_or_default()
    }

    fn is_static(&self, route: &Value) -> bool {
        self.configured.contains(&route::key(route))
    }
}

#[cfg(test)]
#[path = "consequences_tests.rs"]
mod tests;
