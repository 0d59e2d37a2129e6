//! `spec.match.interfaces`: interfaces of a desired state that have no name get those of the
//! interfaces that match on the node now.

use crate::{
    glob::{GlobError, glob},
    path::{interfaces, text},
};
use serde_json::Value;
use weft_api::node_network::NodeNetworkConfigurationPolicySpec as Spec;
use weft_operands::problems::given;

/// A match that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatchError {
    /// An interface without a name, in a policy that does not say which are meant.
    #[error(
        "spec.desiredState.interfaces[{0}].name is missing: give a name, or say in spec.match.interfaces which interfaces are meant"
    )]
    Unnamed(usize),
    /// A part of the early design that is not there yet.
    #[error(
        "{0} is not supported yet: match by name or type, or name the interfaces in spec.desiredState"
    )]
    Unsupported(&'static str),
    /// A match that says nothing would match all interfaces, those of pods included.
    #[error(
        "spec.match.interfaces is empty: give a name (`*` stands for anything, `?` for one character, `[ab]` for one of these), a type, or both"
    )]
    Empty,
    /// A pattern that cannot be read.
    #[error("spec.match.interfaces.name: {0}")]
    Pattern(#[from] GlobError),
}

/// The desired state with a name in each interface. `current` is the state of the node. The caller
/// repeats the call when the interfaces of the node change.
pub(crate) fn expand(spec: &Spec, desired: &Value, current: &Value) -> Result<Value, MatchError> {
    if spec.auto_config.is_some() {
        return Err(MatchError::Unsupported("spec.autoConfig"));
    }
    let rule = spec
        .match_
        .as_ref()
        .and_then(|rule| rule.interfaces.as_ref());
    let unnamed = |interface: &Value| text(&interface["name"]).is_empty();
    let matched = match rule {
        None => match interfaces(desired).iter().position(unnamed) {
            Some(index) => return Err(MatchError::Unnamed(index)),
            None => return Ok(desired.clone()),
        },
        Some(rule) if rule.lldp.is_some() => {
            return Err(MatchError::Unsupported("spec.match.interfaces.lldp"));
        }
        Some(rule) => matching(given(&rule.name), given(&rule.type_), current)?,
    };
    let mut expanded = Vec::new();
    for interface in interfaces(desired) {
        if !unnamed(interface) {
            expanded.push(interface.clone());
            continue;
        }
        for found in &matched {
            let mut named = interface.clone();
            named["name"] = found["name"].clone();
            if named["type"].is_null() {
                named["type"] = found["type"].clone();
            }
            expanded.push(named);
        }
    }
    let mut desired = desired.clone();
    if let Some(list) = desired.get_mut("interfaces") {
        *list = Value::Array(expanded);
    }
    Ok(desired)
}

/// The interfaces of a node that match. Those that nobody manages, the ends of pods' connections
/// above all, never do.
fn matching<'a>(
    name: Option<&str>,
    kind: Option<&str>,
    current: &'a Value,
) -> Result<Vec<&'a Value>, MatchError> {
    if name.is_none() && kind.is_none() {
        return Err(MatchError::Empty);
    }
    let name = name.map(glob).transpose()?;
    let matches = |interface: &&Value| {
        name.as_ref()
            .is_none_or(|pattern| pattern.is_match(&text(&interface["name"])))
            && kind.is_none_or(|kind| is_of_type(interface, kind))
            && !matches!(interface["state"].as_str(), Some("ignore" | "absent"))
    };
    Ok(interfaces(current).iter().filter(matches).collect())
}

/// nmstate takes one end of a veth pair for an Ethernet interface.
fn is_of_type(interface: &Value, kind: &str) -> bool {
    let found = interface["type"].as_str();
    found == Some(kind) || (kind == "ethernet" && found == Some("veth"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn current() -> Value {
        json!({"interfaces": [
            {"name": "lo", "type": "loopback", "state": "up"},
            {"name": "eth0", "type": "ethernet", "state": "up"},
            {"name": "eth1", "type": "veth", "state": "down"},
            {"name": "veth12ab", "type": "veth", "state": "ignore"},
            {"name": "bond0", "type": "bond", "state": "up"},
        ]})
    }

    fn expanded(spec: Value) -> Result<Value, MatchError> {
        let spec: Spec = serde_json::from_value(spec).unwrap();
        expand(&spec, &spec.desired_state.clone().unwrap(), &current())
    }

    #[test]
    fn an_unnamed_interface_becomes_one_for_each_that_matches() {
        // As the first README had it: all Ethernet interfaces by DHCP.
        let policy = json!({
            "priority": 99,
            "match": {"interfaces": {"type": "ethernet"}},
            "desiredState": {
                "interfaces": [
                    {"state": "up", "ipv4": {"enabled": true, "dhcp": true}},
                    {"name": "br0", "type": "linux-bridge"}
                ]
            },
        });
        assert_eq!(
            expanded(policy).unwrap(),
            json!({"interfaces": [
                {
                    "name": "eth0", "type": "ethernet", "state": "up",
                    "ipv4": {"enabled": true, "dhcp": true}
                },
                {
                    "name": "eth1", "type": "veth", "state": "up",
                    "ipv4": {"enabled": true, "dhcp": true}
                },
                {"name": "br0", "type": "linux-bridge"},
            ]})
        );
    }

    #[test]
    fn name_and_type_must_both_match() {
        let names = |name: Option<&str>, kind: Option<&str>| -> Vec<String> {
            matching(name, kind, &current())
                .unwrap()
                .iter()
                .map(|interface| text(&interface["name"]))
                .collect()
        };
        assert_eq!(names(Some("eth*"), None), ["eth0", "eth1"]);
        assert_eq!(names(Some("eth?"), Some("bond")), Vec::<String>::new());
        assert_eq!(names(Some("*"), Some("bond")), ["bond0"]);
        assert_eq!(names(Some("eth0"), None), ["eth0"]);
        assert_eq!(names(Some("eth[1-9]"), None), ["eth1"]);
        assert_eq!(names(None, Some("veth")), ["eth1"]);
    }

    #[test]
    fn interfaces_without_a_match_are_reported() {
        let desired = json!({"interfaces": [{"name": "eth0"}, {"state": "up"}]});
        assert_eq!(
            expanded(json!({"desiredState": desired})),
            Err(MatchError::Unnamed(1))
        );
        assert_eq!(
            expanded(json!({"match": {"interfaces": {}}, "desiredState": desired})),
            Err(MatchError::Empty)
        );
        assert!(matches!(
            expanded(json!({
                "match": {"interfaces": {"type": "ethernet", "lldp": {"vlan-ids": [50]}}},
                "desiredState": desired
            })),
            Err(MatchError::Unsupported("spec.match.interfaces.lldp"))
        ));
        assert!(matches!(
            expanded(json!({"autoConfig": {"autoBonding": true}, "desiredState": {}})),
            Err(MatchError::Unsupported("spec.autoConfig"))
        ));
        let nothing = json!({
            "match": {"interfaces": {"name": "ens*"}},
            "desiredState": {"interfaces": [{"state": "up"}]}
        });
        assert_eq!(expanded(nothing).unwrap(), json!({"interfaces": []}));
    }
}
