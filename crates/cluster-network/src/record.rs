//! The record of the last applied configuration, in the form of the operator that Weft replaces.

use serde_json::{Value, json};
use weft_api::cluster_network::NetworkConfigSpec;
use weft_plan::{Manifest, ManifestError, ObjectKey, Problem, kinds};

use crate::{Settings, config::Effective, fill, provider::Provider, validate};

/// The key in the ConfigMap's data.
pub const DATA_KEY: &str = "applied";

/// Which ConfigMap.
pub fn key(settings: &Settings, resource: &str) -> ObjectKey {
    ObjectKey::new(kinds::CONFIG_MAP, &settings.operator_namespace, &format!("applied-{resource}"))
}

/// The record of a complete configuration.
pub(crate) fn manifest(settings: &Settings, resource: &str, decided: &Value) -> Result<Manifest, ManifestError> {
    let key = key(settings, resource);
    Manifest::new(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": key.name, "namespace": key.namespace},
        "data": {DATA_KEY: decided.to_string()},
    }))
}

/// A previous configuration: it was complete when it was written, and what a later version added to it is filled in.
///
/// # Errors
/// It cannot be read. It is not ignored then: what follows from it is whether pods lose their network.
pub fn read(text: &str, providers: &[&dyn Provider]) -> Result<Effective, Problem> {
    let unreadable = |why: String| Problem {
        field: "ConfigMap applied-default".to_owned(),
        message: format!(
            "the previous configuration is not readable ({why}): repair data.applied, or delete the ConfigMap to apply the resource as it is"
        ),
    };
    let spec: NetworkConfigSpec = serde_json::from_str(text).map_err(|error| unreadable(error.to_string()))?;
    let (valid, provider) = validate::validate(&spec, providers)
        .map_err(|problems| unreadable(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))?;
    Ok(fill::fill(valid, provider, None, &weft_plan::Facts::default()).0)
}
