//! A network state as JSON, read by nmstate: what it does not know or cannot take is named by its path.

use crate::path::{Path, entries, interface_key, interfaces, text};
use nmstate::{Interface, NetworkState};
use serde_json::{Map, Value, json};

/// Keys that nmstate knows at the top of a state.
const TOP: [&str; 8] = ["description", "hostname", "dns-resolver", "route-rules", "routes", "interfaces", "ovs-db", "ovn"];

/// Keys that nmstate knows in any interface.
const BASE: [&str; 26] = [
    "name",
    "profile-name",
    "description",
    "type",
    "driver",
    "state",
    "identifier",
    "mac-address",
    "permanent-mac-address",
    "pci-address",
    "mtu",
    "min-mtu",
    "max-mtu",
    "wait-ip",
    "ipv4",
    "ipv6",
    "mptcp",
    "controller",
    "accept-all-mac-addresses",
    "copy-mac-from",
    "ovs-db",
    "802.1x",
    "lldp",
    "ethtool",
    "dispatch",
    "alt-names",
];

/// The sections that an interface of some type has besides.
const SECTIONS: [&str; 16] = [
    "ethernet",
    "veth",
    "link-aggregation",
    "bridge",
    "vlan",
    "vxlan",
    "vrf",
    "mac-vlan",
    "mac-vtap",
    "macsec",
    "infiniband",
    "hsr",
    "ip-tunnel",
    "ipvlan",
    "libreswan",
    "patch",
];

/// The types of interfaces that can be configured.
const TYPES: [&str; 19] = [
    "bond",
    "linux-bridge",
    "dummy",
    "ethernet",
    "hsr",
    "ip-tunnel",
    "loopback",
    "mac-vlan",
    "mac-vtap",
    "ovs-bridge",
    "ovs-interface",
    "veth",
    "vlan",
    "vrf",
    "vxlan",
    "infiniband",
    "macsec",
    "ipsec",
    "ipvlan",
];

/// What nmstate writes in place of a secret.
pub const HIDDEN: &str = "<_password_hid_by_nmstate>";

/// A state that nmstate does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// A key that nmstate does not know.
    #[error("{path} is not known to nmstate{}", suggestion.as_deref().map(did_you_mean).unwrap_or_default())]
    Unknown {
        /// The key, and where it stands.
        path: Path,
        /// The known key that it looks like.
        suggestion: Option<String>,
    },
    /// A value that nmstate does not take.
    #[error("{path}: {message}")]
    Invalid {
        /// The value, or the interface or section that holds it.
        path: Path,
        /// Why, in the words of nmstate.
        message: String,
    },
    /// Properties that contradict each other or that nothing can carry out.
    #[error("{0}")]
    Refused(String),
}

/// Reads a state. It must be in today's spelling, without captures and secret references.
pub fn parse(state: &Value) -> Result<NetworkState, StateError> {
    let Some(map) = state.as_object() else {
        return Err(invalid(Path::default(), "a network state is an object, with interfaces, routes, dns-resolver …"));
    };
    if let Some(key) = map.keys().find(|key| !TOP.contains(&key.as_str())) {
        return Err(StateError::Unknown { path: Path::default().key(key), suggestion: closest(key, TOP) });
    }
    for (section, value) in map.iter().filter(|(section, _)| *section != "interfaces") {
        let alone = json!({ section: value });
        serde_json::from_value::<NetworkState>(alone.clone()).map_err(|error| located(&Path::default(), &alone, &error.to_string()))?;
    }
    if let Some(list) = map.get("interfaces") {
        if !list.is_array() {
            return Err(invalid(Path::default().key("interfaces"), "must be a list"));
        }
        for interface in entries(list) {
            read_interface(interface)?;
        }
    }
    serde_json::from_value(state.clone()).map_err(|error| invalid(Path::default(), &error.to_string()))
}

fn read_interface(interface: &Value) -> Result<(), StateError> {
    let path = Path::default().key("interfaces").item(&interface_key(interface));
    let Some(map) = interface.as_object() else { return Err(invalid(path, "an interface is an object")) };
    if text(&interface["name"]).is_empty() {
        return Err(invalid(
            path.key("name"),
            "is missing: give the interface a name, or let spec.match.interfaces of a policy give it one",
        ));
    }
    let known = |key: &str| BASE.contains(&key) || SECTIONS.contains(&key);
    if let Some(key) = map.keys().find(|key| !known(key)) {
        return Err(StateError::Unknown { path: path.key(key), suggestion: closest(key, BASE.into_iter().chain(SECTIONS)) });
    }
    let kind = &interface["type"];
    if let Ok(nmstate::InterfaceType::Other(other)) = serde_json::from_value(kind.clone()) {
        let message = format!("{other} is no type of interface that nmstate knows{}", like(&other, TYPES));
        return Err(StateError::Invalid { path: path.key("type"), message });
    }
    // Without a type nmstate looks at nothing else before it knows what is on the host. What all types have can be looked at now.
    let mut read = interface.clone();
    if let Some(map) = read.as_object_mut().filter(|_| kind.is_null()) {
        map.retain(|key, _| !SECTIONS.contains(&key.as_str()));
        map.insert("type".to_owned(), "ethernet".into());
    }
    serde_json::from_value::<Interface>(read).map(|_| ()).map_err(|error| located(&path, interface, &error.to_string()))
}

/// Checks a state as far as that can be done without the host: each interface by itself (ranges, properties that exclude each other), and
/// routes. What only has a meaning beside what is on the host passes.
pub fn check(state: &Value) -> Result<(), StateError> {
    let refused = |error: nmstate::NmstateError| StateError::Refused(error.msg().to_owned());
    parse(state)?.routes.validate().map_err(refused)?;
    for interface in interfaces(state) {
        match parse(&json!({ "interfaces": [interface] }))?.gen_conf() {
            Err(error) if error.kind() == nmstate::ErrorKind::InvalidArgument && !needs_the_host(error.msg()) => {
                return Err(refused(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Messages about interfaces that are not described: they may well be on the host.
fn needs_the_host(message: &str) -> bool {
    ["not found", "not exist", "unknown", "Unknown", "Failed to find"].iter().any(|part| message.contains(part))
}

/// A state of nmstate's as JSON.
pub fn value(state: &NetworkState) -> Value {
    // A structure of texts, numbers and lists can always be written.
    serde_json::to_value(state).unwrap_or_default()
}

/// What [`crate::normalise`] added to a state for people, taken away again, so that nmstate can read it.
#[must_use]
pub fn without_additions(state: &Value) -> Value {
    let mut state = state.clone();
    if let Some(map) = state.as_object_mut() {
        map.remove("capabilities");
    }
    for interface in state.get_mut("interfaces").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(map) = interface.as_object_mut() {
            map.remove("ifIndex");
        }
    }
    state
}

fn invalid(path: Path, message: &str) -> StateError {
    StateError::Invalid { path, message: message.to_owned() }
}

/// serde says which key it does not know but, through nmstate's own steps, not where. The key is looked for below `path`.
fn located(path: &Path, value: &Value, message: &str) -> StateError {
    let quoted = |after: &str| message.split_once(after).and_then(|(_, rest)| rest.split_once('`')).map(|(name, _)| name.to_owned());
    let expected = || message.split("expected").nth(1).into_iter().flat_map(|list| list.split('`').skip(1).step_by(2));
    if let Some(key) = quoted("unknown field `") {
        let place = find(path, value, &key).unwrap_or_else(|| path.key(&key));
        return StateError::Unknown { path: place, suggestion: closest(&key, expected()) };
    }
    let message = message.split(" at line ").next().unwrap_or(message).to_owned();
    let place = quoted("unknown variant `").and_then(|variant| find_value(path, value, &variant));
    StateError::Invalid { path: place.unwrap_or_else(|| path.clone()), message }
}

fn find(path: &Path, value: &Value, key: &str) -> Option<Path> {
    search(path, value, &|name, _| name == key)
}

fn find_value(path: &Path, value: &Value, wanted: &str) -> Option<Path> {
    search(path, value, &|_, value| value.as_str() == Some(wanted))
}

fn search(path: &Path, value: &Value, found: &impl Fn(&str, &Value) -> bool) -> Option<Path> {
    match value {
        Value::Object(map) => {
            let here = map.iter().find(|(key, value)| found(key, value)).map(|(key, _)| path.key(key));
            here.or_else(|| map.iter().find_map(|(key, value)| search(&path.key(key), value, found)))
        }
        Value::Array(list) => list.iter().enumerate().find_map(|(index, entry)| {
            let name = text(&entry["name"]);
            search(&path.item(if name.is_empty() { index.to_string() } else { name }.as_str()), entry, found)
        }),
        _ => None,
    }
}

/// The known word that one looks like, if one does.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let plain = |text: &str| text.replace(['-', '_'], "").to_ascii_lowercase();
    let rated = known.into_iter().map(|candidate| (strsim::damerau_levenshtein(&plain(word), &plain(candidate)), candidate));
    let (distance, best) = rated.min_by_key(|(distance, _)| *distance)?;
    (distance <= word.len().div_ceil(4)).then(|| best.to_owned())
}

fn did_you_mean(known: &str) -> String {
    format!("; did you mean `{known}`?")
}

fn like<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    closest(word, known).as_deref().map(did_you_mean).unwrap_or_default()
}

/// An empty state.
pub fn empty() -> Value {
    Value::Object(Map::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(state: Value) -> String {
        parse(&state).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_is_named_by_path_with_a_suggestion() {
        let eth = |extra: Value| {
            let mut eth = json!({"name": "eth1", "type": "ethernet", "state": "up"});
            eth.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"interfaces": [eth]})
        };
        assert_eq!(refusal(json!({"interface": []})), "interface is not known to nmstate; did you mean `interfaces`?");
        assert_eq!(refusal(eth(json!({"mut": 1500}))), "interfaces[eth1].mut is not known to nmstate; did you mean `mtu`?");
        assert_eq!(
            refusal(eth(json!({"ipv4": {"dchp": true}}))),
            "interfaces[eth1].ipv4.dchp is not known to nmstate; did you mean `dhcp`?"
        );
        assert_eq!(refusal(eth(json!({"wibble": 1}))), "interfaces[eth1].wibble is not known to nmstate");
        assert!(
            refusal(eth(json!({"state": "upp"}))).starts_with("interfaces[eth1].state: unknown variant `upp`"),
            "{}",
            refusal(eth(json!({"state": "upp"})))
        );
        let bridge = json!({"interfaces": [{"name": "br0", "type": "linux-bridge", "bridge": {"port": [{"name": "eth1", "vlan": {"mod": "trunk"}}]}}]});
        assert_eq!(refusal(bridge), "interfaces[br0].bridge.port[eth1].vlan.mod is not known to nmstate; did you mean `mode`?");
        assert_eq!(
            refusal(json!({"routes": {"config": [{"destination": "0.0.0.0/0", "next-hop-iface": "eth1"}]}})),
            "routes.config[0].next-hop-iface is not known to nmstate; did you mean `next-hop-interface`?"
        );
        assert!(refusal(json!({"interfaces": [{"type": "ethernet"}]})).contains("spec.match.interfaces"));
        assert!(refusal(json!({"interfaces": [{"name": "x", "type": "etherent"}]})).contains("interfaces[x].type: etherent is no type"));
        assert!(
            refusal(json!({"interfaces": [{"name": "x", "ipv4": {"dchp": true}, "vlan": {"id": 1}}]}))
                .starts_with("interfaces[x].ipv4.dchp")
        );
        assert!(refusal(eth(json!({"mtu": "many"}))).starts_with("interfaces[eth1]"));
    }

    #[test]
    fn what_can_never_work_is_refused_without_the_host() {
        let address = |prefix: u8| {
            json!({"interfaces": [{"name": "eth1", "type": "ethernet", "state": "up",
                "ipv4": {"enabled": true, "address": [{"ip": "10.0.0.1", "prefix-length": prefix}]}}]})
        };
        assert!(check(&address(24)).is_ok());
        assert!(matches!(check(&address(33)), Err(StateError::Refused(_))), "{:?}", check(&address(33)));
        // The next hop may be on the host.
        let route =
            json!({"routes": {"config": [{"destination": "10.0.0.0/8", "next-hop-interface": "eth9", "next-hop-address": "10.0.0.1"}]}});
        assert!(check(&route).is_ok(), "{:?}", check(&route));
        assert!(check(&json!({"dns-resolver": {"config": {"server": ["192.0.2.53"]}}})).is_ok());
        let nowhere = json!({"routes": {"config": [{"destination": "10.0.0.0/8", "next-hop-address": "10.0.0.1"}]}});
        assert!(matches!(check(&nowhere), Err(StateError::Refused(_))));
    }

    #[test]
    fn what_was_added_for_people_is_taken_away() {
        let reported = json!({"capabilities": ["ovs"], "interfaces": [{"name": "eth1", "type": "ethernet", "state": "up", "ifIndex": 2}]});
        assert!(parse(&reported).is_err());
        assert!(parse(&without_additions(&reported)).is_ok());
    }
}
