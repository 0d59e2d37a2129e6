//! References to Secrets, `{secretRef: {name, key}}`, in place of values of a state.
//!
//! The agent fills in a reference on the node only. A state that leaves the node has a placeholder
//! for each reference.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::Value;

use crate::path::text;

pub use weft_plan::secrets::HIDDEN;

/// A key of a Secret in the agent's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretRef {
    /// The Secret.
    pub name: String,
    /// The key in its data.
    pub key: String,
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.key)
    }
}

/// References that cannot be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// A reference that is not `{secretRef: {name, key}}`.
    #[error(
        "{0}: a reference to a secret is written {{secretRef: {{name: NAME, key: KEY}}}}, with nothing else beside it"
    )]
    Malformed(String),
    /// Nothing is there for a reference.
    #[error("{path}: there is no key {} in the Secret {} of the agent's namespace", reference.key, reference.name)]
    Missing {
        /// Where the reference stands.
        path: String,
        /// The place that it refers to.
        reference: SecretRef,
    },
}

/// Values of the requested Secrets.
pub type Secrets = BTreeMap<SecretRef, String>;

/// All references in a state.
pub fn references(state: &Value) -> Result<BTreeSet<SecretRef>, SecretError> {
    let mut found = BTreeSet::new();
    walk(&mut state.clone(), "desiredState", &mut |_, reference| {
        found.insert(reference);
        Ok(None)
    })?;
    Ok(found)
}

/// The state with the secrets in it. It must not leave the node.
pub fn fill(state: &Value, secrets: &Secrets) -> Result<Value, SecretError> {
    let mut state = state.clone();
    walk(
        &mut state,
        "desiredState",
        &mut |path, reference| match secrets.get(&reference) {
            Some(secret) => Ok(Some(Value::String(secret.clone()))),
            None => Err(SecretError::Missing {
                path: path.to_owned(),
                reference,
            }),
        },
    )?;
    Ok(state)
}

/// The state with a text in place of each secret, for those who check it elsewhere.
pub fn conceal(state: &Value) -> Result<Value, SecretError> {
    let mut state = state.clone();
    walk(&mut state, "desiredState", &mut |_, reference| {
        Ok(Some(Value::String(placeholder(&reference))))
    })?;
    Ok(state)
}

/// The state with one text in place of every secret. A value that is no reference stays as it is.
#[must_use]
pub fn mask(state: &Value, text: &str) -> Value {
    let mut masked = state.clone();
    let done = walk(&mut masked, "", &mut |_, _| {
        Ok(Some(Value::String(text.to_owned())))
    });
    if done.is_ok() { masked } else { state.clone() }
}

/// Where references stand: keys, an interface by its name, and of any other list the list itself,
/// as its entries have no names.
pub type Place = Vec<String>;

/// The places of all references in a merged state.
#[must_use]
pub fn places(state: &Value) -> BTreeSet<Place> {
    let mut found = BTreeSet::new();
    collect(state, &mut Vec::new(), &mut found);
    found
}

fn collect(value: &Value, path: &mut Place, found: &mut BTreeSet<Place>) {
    let mut step = |key: &str, value: &Value, path: &mut Place| {
        path.push(key.to_owned());
        collect(value, path, found);
        path.pop();
    };
    match value {
        Value::Object(map) if map.contains_key("secretRef") => drop(found.insert(path.clone())),
        Value::Object(map) => map.iter().for_each(|(key, value)| step(key, value, path)),
        Value::Array(list) if is_interfaces(path) => list
            .iter()
            .for_each(|entry| step(&text(&entry["name"]), entry, path)),
        Value::Array(list) if list.iter().any(|entry| !places(entry).is_empty()) => {
            found.insert(path.clone());
        }
        _ => {}
    }
}

fn is_interfaces(path: &[String]) -> bool {
    path == ["interfaces"]
}

/// A state of a host without what stands in these places, for those who may see the host and not
/// its secrets.
pub fn hide(state: &mut Value, places: &BTreeSet<Place>) {
    for place in places {
        hide_at(state, place, 0);
    }
}

fn hide_at(value: &mut Value, place: &[String], depth: usize) {
    let Some(step) = place.get(depth) else {
        return hide_all(value);
    };
    match value {
        Value::Object(map) => {
            if let Some(value) = map.get_mut(step) {
                hide_at(value, place, depth + 1);
            }
        }
        Value::Array(list) if is_interfaces(&place[..depth]) => {
            list.iter_mut()
                .filter(|entry| text(&entry["name"]) == *step)
                .for_each(|entry| hide_at(entry, place, depth + 1));
        }
        _ => {}
    }
}

fn hide_all(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(hide_all),
        Value::Object(map) => map.values_mut().for_each(hide_all),
        Value::Null | Value::Bool(_) => {}
        Value::String(_) | Value::Number(_) => *value = Value::String(HIDDEN.to_owned()),
    }
}

fn placeholder(reference: &SecretRef) -> String {
    format!("<secret {reference}>")
}

type Replace<'a> = dyn FnMut(&str, SecretRef) -> Result<Option<Value>, SecretError> + 'a;

fn walk(value: &mut Value, path: &str, replace: &mut Replace<'_>) -> Result<(), SecretError> {
    match value {
        Value::Object(map) if map.contains_key("secretRef") => {
            let part = |key: &str| {
                map["secretRef"][key]
                    .as_str()
                    .filter(|text| !text.is_empty())
                    .map(str::to_owned)
            };
            let alone = map.len() == 1
                && map["secretRef"]
                    .as_object()
                    .is_some_and(|reference| reference.len() == 2);
            let (true, Some(name), Some(key)) = (alone, part("name"), part("key")) else {
                return Err(SecretError::Malformed(path.to_owned()));
            };
            if let Some(filled) = replace(path, SecretRef { name, key })? {
                *value = filled;
            }
            Ok(())
        }
        Value::Object(map) => map
            .iter_mut()
            .try_for_each(|(key, value)| walk(value, &format!("{path}.{key}"), replace)),
        Value::Array(list) => list
            .iter_mut()
            .enumerate()
            .try_for_each(|(index, value)| walk(value, &format!("{path}[{index}]"), replace)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn reference(name: &str, key: &str) -> SecretRef {
        SecretRef {
            name: name.to_owned(),
            key: key.to_owned(),
        }
    }

    fn state() -> Value {
        json!({"interfaces": [{
            "name": "eth1",
            "802.1x": {
                "identity": "node", "password": {"secretRef": {"name": "wire", "key": "password"}}
            }
        },
            {"name": "m0", "macsec": {"mka-cak": {"secretRef": {"name": "wire", "key": "cak"}}}}]})
    }

    #[test]
    fn references_are_found_and_filled() {
        assert_eq!(
            references(&state()).unwrap(),
            BTreeSet::from([reference("wire", "cak"), reference("wire", "password")])
        );
        let secrets = Secrets::from([
            (reference("wire", "password"), "hunter2".to_owned()),
            (reference("wire", "cak"), "0123".to_owned()),
        ]);
        let filled = fill(&state(), &secrets).unwrap();
        assert_eq!(filled["interfaces"][0]["802.1x"]["password"], "hunter2");
        assert_eq!(filled["interfaces"][1]["macsec"]["mka-cak"], "0123");
        let concealed = conceal(&state()).unwrap();
        assert_eq!(
            concealed["interfaces"][0]["802.1x"]["password"],
            "<secret wire/password>"
        );
        assert_eq!(
            concealed["interfaces"][1]["macsec"]["mka-cak"],
            "<secret wire/cak>"
        );
    }

    #[test]
    fn a_hosts_value_in_the_place_of_a_reference_is_hidden() {
        let wanted = json!({"interfaces": [
        {"name": "eth1", "description": {"secretRef": {"name": "s", "key": "a"}}, "mtu": 1400},
        {
            "name": "br1",
            "bridge": {
                "port": [{"name": "eth2"}, {"name": {"secretRef": {"name": "s", "key": "b"}}}]
            }
        }]});
        let places = places(&wanted);
        assert_eq!(
            places
                .iter()
                .map(|place| place.join("/"))
                .collect::<Vec<_>>(),
            ["interfaces/br1/bridge/port", "interfaces/eth1/description"]
        );
        let mut shown = json!({"interfaces": [
        {
            "name": "eth1", "description": "hunter2", "mtu": 1400
        }, {"name": "eth2", "description": "plain"},
        {
            "name": "br1",
            "bridge": {
                "options": {"stp": {"enabled": false}},
                "port": [{"name": "hunter3", "vlan": {}}]
            }
        }]});
        hide(&mut shown, &places);
        assert_eq!(
            shown,
            json!({"interfaces": [
            {
                "name": "eth1", "description": HIDDEN, "mtu": 1400
            }, {"name": "eth2", "description": "plain"},
            {
                "name": "br1",
                "bridge": {
                    "options": {"stp": {"enabled": false}}, "port": [{"name": HIDDEN, "vlan": {}}]
                }
            }]})
        );
    }

    #[test]
    fn missing_secrets_are_named() {
        let error = fill(
            &state(),
            &Secrets::from([(reference("wire", "password"), "x".to_owned())]),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "desiredState.interfaces[1].macsec.mka-cak: there is no key cak in the Secret wire of the agent's namespace"
        );
        for malformed in [
            json!({"secretRef": "wire"}),
            json!({"secretRef": {"name": "wire"}}),
            json!({"secretRef": {"name": "wire", "key": ""}}),
            json!({"secretRef": {"name": "a", "key": "b"}, "or": 1}),
            json!({"secretRef": {"name": "a", "key": "b", "namespace": "c"}}),
        ] {
            assert!(
                matches!(references(&json!({ "x": malformed })), Err(SecretError::Malformed(path)) if path == "desiredState.x")
            );
        }
    }
}
