//! The objects of a Placement service, from the manifests under `components/placement`. Names,
//! labels, annotations and ports are those of placement-operator, since other operators and Routes
//! rely on them.
//!
//! They come in the steps in which they are applied: [`access`], [`config_data`], [`services`],
//! [`preparation`] of the database, [`deployment`].

mod pods;
mod services;
#[cfg(test)]
pub(crate) mod tests;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use weft_operands::namespace::load;
use weft_plan::{Manifest, ManifestError, canonical};

pub use pods::{CONFIG_HASH, JOB_HASH, deployment, preparation};
pub use services::services;

use crate::{Config, Inputs, files::files, ini::IniError};

/// Where the manifests live as they are written.
const NAMESPACE: &str = "openstack";

/// Why objects could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A value cannot be written into a file.
    #[error(transparent)]
    Value(#[from] IniError),
    /// A manifest or an edit of it is wrong, which is a defect of Weft.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// The objects of a file, in the namespace of the resource.
fn read(file: &str, config: &Config) -> Result<Vec<Manifest>, ManifestError> {
    load(&[file], NAMESPACE, &config.namespace)
}

/// The same object under another name, with the labels that everything has.
fn named(object: &Manifest, name: &str, config: &Config) -> Result<Manifest, ManifestError> {
    let mut body = object.body().clone();
    body["metadata"]["name"] = name.into();
    body["metadata"]["labels"]["service"] = "placement".into();
    body["metadata"]["labels"]["owner"] = config.name.clone().into();
    Manifest::new(body)
}

/// The service account of the pods, and on OpenShift, where security context constraints are
/// served, what it may use.
///
/// # Errors
/// A defect of Weft.
pub fn access(config: &Config, openshift: bool) -> Result<Vec<Manifest>, BuildError> {
    let account = account(config);
    let mut objects = Vec::new();
    for object in read(
        include_str!("../../../../components/placement/access.yaml"),
        config,
    )? {
        objects.push(named(&object, &account, config)?);
    }
    if openshift {
        for object in read(
            include_str!("../../../../components/placement/openshift.yaml"),
            config,
        )? {
            let mut body = object.body().clone();
            let suffix = object.key().name.trim_start_matches("placement").to_owned();
            if let Some(reference) = body.get_mut("roleRef") {
                reference["name"] = format!("{account}-role").into();
            }
            if let Some(Value::Array(subjects)) = body.get_mut("subjects") {
                subjects
                    .iter_mut()
                    .for_each(|subject| subject["name"] = account.clone().into());
            }
            objects.push(named(
                &Manifest::new(body)?,
                &format!("{account}{suffix}"),
                config,
            )?);
        }
    }
    Ok(objects)
}

/// The Secret with everything that Placement and Apache read.
///
/// # Errors
/// A value cannot be written into a file.
pub fn config_data(config: &Config, inputs: &Inputs) -> Result<Manifest, BuildError> {
    let data: serde_json::Map<String, Value> = files(config, inputs)?
        .into_iter()
        .map(|(file, text)| (file.to_owned(), STANDARD.encode(text).into()))
        .collect();
    let label = |name: &str| format!("placement.openstack.org/{name}");
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": config_data_name(config),
            "namespace": config.namespace,
            "labels": {label("uid"): config.uid, label("namespace"): config.namespace, label("name"): config.name},
        },
        "type": "Opaque",
        "data": data,
    });
    Ok(Manifest::new(secret)?)
}

/// The digest of all that the pods read. Another one means that they have to be replaced.
///
/// # Errors
/// A value cannot be written into a file.
pub fn input_hash(config: &Config, inputs: &Inputs) -> Result<String, BuildError> {
    let read =
        json!({"files": config_data(config, inputs)?.body()["data"], "mounted": inputs.mounted});
    Ok(digest(&read))
}

/// A SHA-256 in hexadecimal digits. Fields may stand in any order.
pub(crate) fn digest(value: &Value) -> String {
    Sha256::digest(canonical(value).as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn account(config: &Config) -> String {
    format!("placement-{}", config.name)
}

fn config_data_name(config: &Config) -> String {
    format!("{}-config-data", config.name)
}
