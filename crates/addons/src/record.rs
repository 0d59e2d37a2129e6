//! The record of the last applied configuration, in the form of the operator that Weft replaces: so
//! a MAC range survives the switch from it, and a switch back.

use serde_json::{Value, json};
use weft_api::addons::NetworkAddonsConfigSpec;
use weft_plan::{Manifest, ObjectKey, Problem, kinds};

use crate::{Settings, build::BuildError, labels::Labels};

/// The key in the ConfigMap's data.
pub const DATA_KEY: &str = "applied";

/// Which ConfigMap. ("networks" is no slip of ours.)
pub fn key(settings: &Settings, resource: &str) -> ObjectKey {
    key_in(&settings.operator_namespace, resource)
}

/// The place of the original's record where Weft's operator has a namespace of its own: the
/// original runs with its operands.
pub(crate) fn original_key(settings: &Settings, resource: &str) -> Option<ObjectKey> {
    (settings.namespace != settings.operator_namespace)
        .then(|| key_in(&settings.namespace, resource))
}

fn key_in(namespace: &str, resource: &str) -> ObjectKey {
    ObjectKey::new(
        kinds::CONFIG_MAP,
        namespace,
        &format!("cluster-networks-addons-operator-applied-{resource}"),
    )
}

/// The record of a complete configuration.
pub(crate) fn manifest(
    settings: &Settings,
    resource: &str,
    decided: &Value,
    labels: &Labels,
) -> Result<Manifest, BuildError> {
    let key = key(settings, resource);
    let mut manifest = Manifest::new(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "data": {DATA_KEY: weft_plan::canonical(decided)},
    }))?;
    labels.apply(&mut manifest);
    Ok(manifest)
}

/// Returns the previous configuration: the one that an earlier reconcile decided, else the record.
///
/// # Errors
/// It is there and cannot be read. It is not ignored then: a MAC range that changes by itself
/// breaks running virtual machines.
pub fn previous(
    decided: Option<&Value>,
    record: Option<&str>,
) -> Result<Option<NetworkAddonsConfigSpec>, Problem> {
    let unreadable = |field: &str, way_out: &str, error: serde_json::Error| Problem {
        field: field.to_owned(),
        message: format!("the previous configuration is not readable ({error}): {way_out}"),
    };
    if let Some(decided) = decided {
        return serde_json::from_value(decided.clone()).map(Some).map_err(|error| {
            unreadable(
                "inventory",
                "delete the ConfigMap weft-inventory-networkaddonsconfig-cluster to start from the applied configuration",
                error,
            )
        });
    }
    let Some(record) = record else {
        return Ok(None);
    };
    serde_json::from_str(record).map(Some).map_err(|error| {
        let way_out = "repair data.applied of the ConfigMap cluster-networks-addons-operator-applied-cluster, or delete that ConfigMap to start afresh (a random MAC range is then chosen anew)";
        unreadable("ConfigMap cluster-networks-addons-operator-applied-cluster", way_out, error)
    })
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
