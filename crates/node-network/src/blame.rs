//! Finds the owners of a property that nmstate could not apply, by tracing its message back to the
//! policies.

use crate::{
    claims::Owner,
    merge::Merged,
    path::{Path, Step},
};
use regex::Regex;
use std::collections::BTreeSet;

/// The subject of a message from nmstate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blame {
    /// The property, as far as the message names it.
    path: Option<Path>,
    /// The wanted value and the live one, in the words of the message.
    wanted: Option<String>,
    /// The live value.
    found: Option<String>,
    /// The owners of the wanted value. Empty if the message cannot be traced back. Then all owners
    /// with a change are meant.
    pub owners: BTreeSet<Owner>,
}

/// Traces a message back. nmstate writes a difference that it finds when it verifies as
/// `Verification failure: eth1.interface.mtu desire '9000', current '1500'`, and in other messages
/// it names interfaces and routes.
pub fn blame(merged: &Merged, message: &str) -> Blame {
    if let Some(blame) = difference(merged, message) {
        return blame;
    }
    let mut owners = BTreeSet::new();
    let mut path = None;
    for (place, names) in &merged.owners {
        if let Some(entry) = place
            .0
            .get(..if place.interface().is_some() { 2 } else { 3 })
            && mentions(message, entry)
        {
            path.get_or_insert_with(|| Path(entry.to_vec()));
            owners.extend(names.iter().cloned());
        }
    }
    Blame {
        path,
        owners,
        ..Blame::default()
    }
}

/// The message on a single property.
fn difference(merged: &Merged, message: &str) -> Option<Blame> {
    let (_, rest) = message.split_once("Verification failure: ")?;
    let (reference, values) = rest.split_once(" desire '")?;
    let (wanted, found) = values.split_once("', current '")?;
    let (name, property) = reference.split_once(".interface")?;
    // Steps as nmstate has them: `.ipv4.address[0].ip`. Lists are one value in a merge, so the
    // index ends it.
    let steps: Vec<&str> = property
        .split('.')
        .filter(|step| !step.is_empty())
        .collect();
    let of_interface = |path: &&Path| {
        path.interface()
            .is_some_and(|key| key == name || key.starts_with(&format!("{name} (")))
    };
    let common = |path: &Path| {
        let keys = path.0[2..].iter().map(|step| {
            if let Step::Key(key) = step {
                key.as_str()
            } else {
                ""
            }
        });
        keys.zip(&steps)
            .take_while(|(key, step)| *key == step.split('[').next().unwrap_or_default())
            .count()
    };
    let longest = merged
        .owners
        .keys()
        .filter(of_interface)
        .map(common)
        .max()?;
    let meant: Vec<&Path> = merged
        .owners
        .keys()
        .filter(of_interface)
        .filter(|path| common(path) == longest)
        .collect();
    // No property of it is wanted by anybody: then the interface as a whole is meant, which all
    // have a part in.
    let owners = meant
        .iter()
        .filter_map(|path| merged.owners.get(path))
        .flatten()
        .cloned()
        .collect();
    let path = match meant.as_slice() {
        [only] => Some((*only).clone()),
        several => several
            .first()
            .map(|path| Path(path.0[..2 + longest].to_vec())),
    };
    Some(Blame {
        path,
        wanted: Some(wanted.to_owned()),
        found: Some(found.trim_end_matches('\'').to_owned()),
        owners,
    })
}

/// Reports whether a message has the name of an interface, or where a route leads to, as words.
fn mentions(message: &str, entry: &[Step]) -> bool {
    let word = match entry {
        [Step::Key(list), Step::Item(name)] if list == "interfaces" => {
            name.split(" (").next().unwrap_or_default()
        }
        [Step::Key(list), _, Step::Item(key)] if list.starts_with("route") => key
            .trim_start_matches("no ")
            .split(' ')
            .next()
            .unwrap_or_default(),
        _ => return false,
    };
    let bounded = format!(r"(^|[^\w.:/-]){}($|[^\w:/-])", regex::escape(word));
    !word.is_empty()
        && word != "any"
        && Regex::new(&bounded).is_ok_and(|expression| expression.is_match(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        claims::{Layer, Rank},
        merge::merge,
    };
    use serde_json::{Value, json};

    fn merged() -> Merged {
        let layer = |name: &str, state: Value| Layer {
            owner: Owner::Policy(name.to_owned()),
            rank: Rank::Policy(0),
            state,
        };
        merge(&[
            layer(
                "mtu",
                json!({
                    "interfaces": [{"name": "eth1", "type": "ethernet", "state": "up", "mtu": 9000}]
                }),
            ),
            layer(
                "address",
                json!({
                    "interfaces": [
                        {
                            "name": "eth1", "type": "ethernet", "state": "up",
                            "ipv4": {
                                "enabled": true,
                                "address": [{"ip": "10.0.0.1", "prefix-length": 24}]
                            }
                        }
                    ]
                }),
            ),
            layer(
                "bridge",
                json!({"interfaces": [{"name": "br1", "type": "linux-bridge", "state": "up"}]}),
            ),
            layer(
                "route",
                json!({
                    "routes": {
                        "config": [
                            {
                                "destination": "10.9.0.0/16", "next-hop-interface": "eth2",
                                "next-hop-address": "10.0.0.254"
                            }
                        ]
                    }
                }),
            ),
        ])
    }

    fn owners(message: &str) -> Vec<String> {
        blame(&merged(), message)
            .owners
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_difference_is_that_of_whoever_wants_the_property() {
        let found = blame(
            &merged(),
            "VerificationError: Verification failure: eth1.interface.mtu desire '9000', current '1500'",
        );
        assert_eq!(found.path.unwrap().to_string(), "interfaces[eth1].mtu");
        assert_eq!(
            (found.wanted.as_deref(), found.found.as_deref()),
            (Some("9000"), Some("1500"))
        );
        assert_eq!(
            found.owners,
            BTreeSet::from([Owner::Policy("mtu".to_owned())])
        );
        assert_eq!(
            owners(
                "Verification failure: eth1.interface.ipv4.address[0].ip desire '\"10.0.0.1\"', current '\"10.0.0.2\"'"
            ),
            ["policy address"]
        );
        assert_eq!(
            owners("Verification failure: eth1.interface.wibble desire '1', current '2'"),
            ["policy address", "policy mtu"]
        );
    }

    #[test]
    fn other_messages_are_traced_by_the_names_in_them() {
        assert_eq!(
            owners("Failed to find desired interface br1 LinuxBridge"),
            ["policy bridge"]
        );
        assert_eq!(
            owners(
                "Desired route destination: 10.9.0.0/16 next-hop-interface: eth2 not found after apply"
            ),
            ["policy route"]
        );
        assert_eq!(
            owners("Failed to find desired interface br11 LinuxBridge"),
            Vec::<String>::new()
        );
        assert_eq!(
            owners("DbusConnectionError: connection closed"),
            Vec::<String>::new()
        );
    }
}
