//! The interfaces that a node can hardly do without: the one with the default route, and the one
//! with the address by which the cluster knows the node.
//!
//! A report does not name the interface over which an agent reaches the API server. The default
//! route and the node's own address stand for it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
};

use serde_json::{Value, json};

use crate::{
    drift::Difference,
    index::bases,
    listed_ports,
    path::{Path, Step, entries, interfaces, text},
    route,
};

/// The destinations of default routes.
const DEFAULT: [&str; 2] = ["0.0.0.0/0", "::/0"];
const DEFAULT_ROUTE: &str = "the default route";

/// An interface that a node needs, and that changes touch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lifeline {
    /// The name of the interface.
    pub interface: String,
    /// The default route, or an address, in words.
    pub carries: BTreeSet<String>,
    /// The interface below it that is touched, if it is not itself.
    pub through: Option<String>,
}

impl fmt::Display for Lifeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(through) = &self.through {
            write!(f, "{through} below ")?;
        }
        let carries: Vec<&str> = self.carries.iter().map(String::as_str).collect();
        write!(
            f,
            "{}, which carries {}",
            self.interface,
            carries.join(" and ")
        )
    }
}

/// A warning about these interfaces. None if there are none.
pub fn warning(lifelines: &[Lifeline]) -> Option<String> {
    let all: Vec<String> = lifelines.iter().map(ToString::to_string).collect();
    (!all.is_empty()).then(|| format!("this changes {}", all.join("; and ")))
}

/// The same for programs.
pub fn json(lifelines: &[Lifeline]) -> Value {
    let one = |one: &Lifeline| json!({"interface": one.interface, "carries": one.carries, "through": one.through});
    lifelines.iter().map(one).collect()
}

/// The interfaces that a node needs and that these changes touch. `addresses` are those by which
/// the cluster knows the node, which may be none.
pub fn touched<'a>(
    changes: impl IntoIterator<Item = &'a Difference>,
    current: &Value,
    addresses: &BTreeSet<String>,
) -> Vec<Lifeline> {
    let mut names: HashSet<&str> = HashSet::new();
    let mut has_route = false;
    for change in changes {
        names.extend(change.path.interface().map(name_of));
        has_route |= is_default_route(&change.path);
    }
    if names.is_empty() && !has_route {
        return Vec::new();
    }
    let mut by_name: HashMap<&str, Vec<&Value>> = HashMap::new();
    for interface in interfaces(current) {
        if let Some(name) = interface["name"].as_str() {
            by_name.entry(name).or_default().push(interface);
        }
    }
    let mut found = Vec::new();
    for (interface, carries) in needed(current, addresses) {
        let is_itself =
            names.contains(interface.as_str()) || has_route && carries.contains(DEFAULT_ROUTE);
        let lower = || {
            let lower = below(&interface, &by_name).into_iter();
            lower.filter(|name| names.contains(name.as_str())).min()
        };
        let through = if is_itself { None } else { lower() };
        if is_itself || through.is_some() {
            found.push(Lifeline {
                interface,
                carries,
                through,
            });
        }
    }
    found
}

/// The name in the key of an interface, which can have its type behind it.
fn name_of(key: &str) -> &str {
    key.split_once(" (").map_or(key, |(name, _)| name)
}

fn is_default_route(path: &Path) -> bool {
    match path.0.as_slice() {
        [Step::Key(section), Step::Key(_), Step::Item(key), ..] if section == "routes" => {
            let is_default = DEFAULT.into_iter().any(|to| key.starts_with(to));
            is_default && !key.contains(" table ")
        }
        _ => false,
    }
}

/// The interfaces that the node needs, and what each of them carries.
fn needed(current: &Value, addresses: &BTreeSet<String>) -> BTreeMap<String, BTreeSet<String>> {
    let mut needed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut carries = |interface: String, what: String| {
        if !interface.is_empty() {
            needed.entry(interface).or_default().insert(what);
        }
    };
    for destination in DEFAULT {
        let routes = entries(&current["routes"]["running"]).iter();
        let routes = routes.filter(|route| {
            text(&route["destination"]) == destination && route::is_in_main_table(route)
        });
        // The kernel takes the one with the lowest metric.
        let metric = |route: &&Value| text(&route["metric"]).parse::<i64>().unwrap_or_default();
        if let Some(route) = routes.min_by_key(metric) {
            carries(text(&route["next-hop-interface"]), DEFAULT_ROUTE.to_owned());
        }
    }
    for interface in interfaces(current) {
        for family in ["ipv4", "ipv6"] {
            for address in entries(&interface[family]["address"]) {
                let ip = text(&address["ip"]);
                if addresses.contains(&ip) {
                    carries(text(&interface["name"]), format!("the node's address {ip}"));
                }
            }
        }
    }
    needed
}

/// The names of the interfaces that one stands on: its base and its ports, and theirs.
fn below(name: &str, by_name: &HashMap<&str, Vec<&Value>>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![name.to_owned()];
    while let Some(name) = open.pop() {
        for interface in by_name.get(name.as_str()).into_iter().flatten() {
            let mut next: Vec<String> = bases(interface).map(str::to_owned).collect();
            next.extend(listed_ports::names(interface));
            // An internal port leads to the cards of its bridge.
            if interface["type"] == "ovs-interface" {
                next.extend(interface["controller"].as_str().map(str::to_owned));
            }
            open.extend(next.into_iter().filter(|next| found.insert(next.clone())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Value {
        json!({
            "interfaces": [
                {
                    "name": "br-ex", "type": "ovs-interface", "state": "up", "controller": "br-ex",
                    "ipv4": {"enabled": true, "address": [{"ip": "192.0.2.11", "prefix-length": 24}]}
                },
                {
                    "name": "br-ex", "type": "ovs-bridge", "state": "up",
                    "bridge": {"port": [{"name": "bond0"}, {"name": "br-ex"}]}
                },
                {
                    "name": "bond0", "type": "bond", "state": "up",
                    "link-aggregation": {"mode": "802.3ad", "port": ["eth0", "eth1"]}
                },
                {"name": "eth0", "type": "ethernet", "state": "up"},
                {"name": "eth1", "type": "ethernet", "state": "up"},
                {
                    "name": "eth2", "type": "ethernet", "state": "up",
                    "ipv4": {
                        "enabled": true, "address": [{"ip": "198.51.100.11", "prefix-length": 24}]
                    }
                },
                {"name": "eth3", "type": "ethernet", "state": "up"},
            ],
            "routes": {"running": [
                {
                    "destination": "0.0.0.0/0", "next-hop-interface": "eth3", "metric": 900,
                    "next-hop-address": "203.0.113.1", "table-id": 254
                },
                {
                    "destination": "0.0.0.0/0", "next-hop-interface": "br-ex", "metric": 48,
                    "next-hop-address": "192.0.2.1", "table-id": 254
                },
                {
                    "destination": "0.0.0.0/0", "next-hop-interface": "eth3",
                    "next-hop-address": "203.0.113.1", "table-id": 100
                }
            ]}
        })
    }

    fn said(path: &Path) -> Option<String> {
        let change = Difference {
            path: path.clone(),
            wanted: Value::Null,
            found: true.into(),
        };
        let addresses = BTreeSet::from(["198.51.100.11".to_owned(), "10.0.0.1".to_owned()]);
        warning(&touched([&change], &host(), &addresses))
    }

    fn interface(key: &str) -> Path {
        Path::default().key("interfaces").item(key)
    }

    fn route(key: &str) -> Path {
        Path::default().key("routes").key("config").item(key)
    }

    #[test]
    fn the_way_out_of_the_node_is_named_with_all_below_it() {
        let itself = "this changes br-ex, which carries the default route";
        for (path, expected) in [
            (interface("br-ex").key("mtu"), Some(itself)),
            (interface("br-ex (ovs-bridge)"), Some(itself)),
            (
                interface("eth1").key("mtu"),
                Some("this changes eth1 below br-ex, which carries the default route"),
            ),
            (
                interface("bond0"),
                Some("this changes bond0 below br-ex, which carries the default route"),
            ),
            (
                interface("eth2").key("ipv4"),
                Some("this changes eth2, which carries the node's address 198.51.100.11"),
            ),
            (route("0.0.0.0/0 via 203.0.113.9 dev eth3"), Some(itself)),
            // Its metric is higher.
            (interface("eth3"), None),
            (route("0.0.0.0/0 via 203.0.113.9 dev eth3 table 100"), None),
            (route("192.0.2.0/24 dev eth3"), None),
            (interface("br-ext"), None),
            (Path::default().key("dns-resolver"), None),
        ] {
            assert_eq!(said(&path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn a_node_without_a_default_route_has_no_warning() {
        let change = Difference {
            path: interface("eth0"),
            wanted: Value::Null,
            found: true.into(),
        };
        let current = json!({"interfaces": [{"name": "eth0"}]});
        assert_eq!(
            warning(&touched([&change], &current, &BTreeSet::new())),
            None
        );
    }
}
