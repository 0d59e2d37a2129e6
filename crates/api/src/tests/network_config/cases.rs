//! The table of NetworkConfig.

use serde_json::{Value, json};

use super::table::Cases;

pub fn cases() -> Cases {
    serde_saphyr::from_str(include_str!("cases.yaml")).unwrap()
}

/// A NetworkConfig with this specification.
pub fn object(spec: &Value) -> Value {
    json!({
        "apiVersion": "networkoperator.openshift.io/v1", "kind": "NetworkConfig",
        "metadata": {"name": "default"}, "spec": spec
    })
}
