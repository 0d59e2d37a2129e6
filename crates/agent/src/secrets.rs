//! Secrets that policies refer to: read from the agent's own namespace when they are needed, and
//! not kept. The agent remembers the places of secrets in the state of the host, so that no report
//! shows a value.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use nmstate::NetworkState;
use serde_json::Value;
use weft_node_network::{
    desired::Desired,
    path::text,
    secrets::{self, HIDDEN, Place, SecretRef, Secrets},
    state,
};

use crate::state_dir::{self, StateDir};
pub use weft_plan::secrets::without;

const FILE: &str = "secret-places.json";

/// Why a secret cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server does not give it.
    #[error("Secret {name} of the namespace {namespace}: {source}")]
    Request {
        /// The name of the Secret.
        name: String,
        /// The agent's namespace.
        namespace: String,
        /// The error of the API server.
        source: Box<kube::Error>,
    },
    /// It is not a text.
    #[error("Secret {name} of the namespace {namespace}: the value of {key} is not UTF-8 text")]
    NotText {
        /// The name of the Secret.
        name: String,
        /// The agent's namespace.
        namespace: String,
        /// The key in the Secret.
        key: String,
    },
}

/// Reads what these refer to. The result omits missing values. The caller reports their places.
pub async fn read(
    client: &Client,
    namespace: &str,
    references: &BTreeSet<SecretRef>,
) -> Result<Secrets, Error> {
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    let names: BTreeSet<&str> = references
        .iter()
        .map(|reference| reference.name.as_str())
        .collect();
    let mut objects = BTreeMap::new();
    for name in names {
        let read = api.get_opt(name).await;
        let object = read.map_err(|source| Error::Request {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            source: Box::new(source),
        })?;
        objects.insert(
            name,
            object.and_then(|object| object.data).unwrap_or_default(),
        );
    }
    let mut secrets = Secrets::new();
    for reference in references {
        let Some(value) = objects
            .get(reference.name.as_str())
            .and_then(|data| data.get(&reference.key))
        else {
            continue;
        };
        let text = String::from_utf8(value.0.clone()).map_err(|_| Error::NotText {
            name: reference.name.clone(),
            namespace: namespace.to_owned(),
            key: reference.key.clone(),
        })?;
        secrets.insert(reference.clone(), text);
    }
    Ok(secrets)
}

/// Remembers where the secrets of this state stand. A place is never forgotten: what was written
/// there stays when its policy goes.
///
/// # Errors
/// The folder cannot be written: nothing must be applied then, for it would be reported.
pub fn remember(dir: &StateDir, state: &Value) -> Result<(), state_dir::Error> {
    let known = places(dir)?;
    let all: BTreeSet<Place> = known.union(&secrets::places(state)).cloned().collect();
    if all == known {
        Ok(())
    } else {
        dir.write(FILE, &all)
    }
}

/// The places that are remembered.
///
/// # Errors
/// The folder cannot be read: nothing must be reported then.
pub fn places(dir: &StateDir) -> Result<BTreeSet<Place>, state_dir::Error> {
    Ok(dir.read(FILE)?.unwrap_or_default())
}

/// The secrets in a state that was read or written in clear: what nmstate takes for passwords and
/// keys, what has the name of a secret, and what stands in these places.
pub fn values(state: &NetworkState, places: &BTreeSet<Place>) -> BTreeSet<String> {
    between(state, &state::value(state), places)
}

/// As [`values`], of a desired state.
pub fn of_desired(desired: &Desired, places: &BTreeSet<Place>) -> BTreeSet<String> {
    between(desired.state(), desired.value(), places)
}

/// The values that a state has in clear, here also as JSON, and not when its secrets are hidden.
fn between(state: &NetworkState, clear: &Value, places: &BTreeSet<Place>) -> BTreeSet<String> {
    let mut hidden = state.clone();
    hidden.hide_secrets();
    let mut hidden = state::value(&hidden);
    secrets::hide(&mut hidden, places);
    let mut values = BTreeSet::new();
    collect(clear, &hidden, &mut values);
    values.extend(weft_plan::secrets::values(clear));
    values
}

/// The value with a mask in place of each of these secrets.
#[must_use]
pub fn mask(value: &Value, secrets: &BTreeSet<String>) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), mask(value, secrets)))
            .collect(),
        Value::Array(list) => list.iter().map(|value| mask(value, secrets)).collect(),
        Value::String(_) | Value::Number(_) if secrets.contains(&text(value)) => HIDDEN.into(),
        other => other.clone(),
    }
}

fn collect(plain: &Value, hidden: &Value, values: &mut BTreeSet<String>) {
    match (plain, hidden) {
        (Value::Object(plain), Value::Object(hidden)) => {
            plain
                .iter()
                .filter_map(|(key, value)| Some((value, hidden.get(key)?)))
                .for_each(|(plain, hidden)| collect(plain, hidden, values));
        }
        (Value::Array(plain), Value::Array(hidden)) => plain
            .iter()
            .zip(hidden)
            .for_each(|(plain, hidden)| collect(plain, hidden, values)),
        (plain, Value::String(hidden)) if hidden == HIDDEN => drop(values.insert(text(plain))),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn passwords_and_what_policies_took_from_secrets_are_found() {
        let text = "interfaces:
            - {name: eth1, type: ethernet, state: up, description: wall, mtu: 1400, 802.1x: {identity: node, eap-methods: [md5], password: hunter2}}
            - {name: m0, type: macsec, state: up, macsec: {encrypt: true, base-iface: eth1, mka-cak: '0123', mka-ckn: '4567', port: 0,
                validation: strict, send-sci: true}}";
        let state = NetworkState::new_from_yaml(text).unwrap();
        let place = |key: &str| ["interfaces", "eth1", key].map(str::to_owned).to_vec();
        let found = |places: &[Place]| {
            values(&state, &places.iter().cloned().collect())
                .into_iter()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(found(&[]), "0123 hunter2");
        assert_eq!(
            found(&[place("description"), place("mtu"), place("nowhere")]),
            "0123 1400 hunter2 wall"
        );
    }
}
