//! Secrets that policies refer to: read from the agent's own namespace when they are needed, and not kept. What is kept is where they stand in
//! the state of the host, so that no report shows what is there.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use serde_json::Value;
use weft_node_network::secrets::{self, Place, SecretRef, Secrets};

use crate::state_dir::{self, StateDir};

const FILE: &str = "secret-places.json";

/// Why a secret cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server does not give it.
    #[error("Secret {name} of the namespace {namespace}: {source}")]
    Request {
        /// Its name.
        name: String,
        /// The agent's namespace.
        namespace: String,
        /// What the API server says.
        source: Box<kube::Error>,
    },
    /// It is not a text.
    #[error("Secret {name} of the namespace {namespace}: the value of {key} is not UTF-8 text")]
    NotText {
        /// Its name.
        name: String,
        /// The agent's namespace.
        namespace: String,
        /// The key.
        key: String,
    },
}

/// Reads what these refer to. What is not there is left out: whoever fills it in says where it is missing.
pub async fn read(client: &Client, namespace: &str, references: &BTreeSet<SecretRef>) -> Result<Secrets, Error> {
    let api = Api::<Secret>::namespaced(client.clone(), namespace);
    let names: BTreeSet<&str> = references.iter().map(|reference| reference.name.as_str()).collect();
    let mut objects = BTreeMap::new();
    for name in names {
        let read = api.get_opt(name).await;
        let object =
            read.map_err(|source| Error::Request { name: name.to_owned(), namespace: namespace.to_owned(), source: Box::new(source) })?;
        objects.insert(name, object.and_then(|object| object.data).unwrap_or_default());
    }
    let mut secrets = Secrets::new();
    for reference in references {
        let Some(value) = objects.get(reference.name.as_str()).and_then(|data| data.get(&reference.key)) else { continue };
        let text = String::from_utf8(value.0.clone()).map_err(|_| Error::NotText {
            name: reference.name.clone(),
            namespace: namespace.to_owned(),
            key: reference.key.clone(),
        })?;
        secrets.insert(reference.clone(), text);
    }
    Ok(secrets)
}

/// Remembers where the secrets of this state stand. A place is never forgotten: what was written there stays when its policy goes.
///
/// # Errors
/// The folder cannot be written: nothing must be applied then, for it would be reported.
pub fn remember(dir: &StateDir, state: &Value) -> Result<(), state_dir::Error> {
    let known = places(dir)?;
    let all: BTreeSet<Place> = known.union(&secrets::places(state)).cloned().collect();
    if all == known { Ok(()) } else { dir.write(FILE, &all) }
}

/// The places that are remembered.
///
/// # Errors
/// The folder cannot be read: nothing must be reported then.
pub fn places(dir: &StateDir) -> Result<BTreeSet<Place>, state_dir::Error> {
    Ok(dir.read(FILE)?.unwrap_or_default())
}
