//! The table of PlacementAPI.

use serde_json::{Value, json};

use super::table::Cases;

pub fn cases() -> Cases {
    serde_saphyr::from_str(include_str!("cases.yaml")).unwrap()
}

/// A PlacementAPI with this specification.
pub fn object(spec: &Value) -> Value {
    json!({
        "apiVersion": "placement.openstack.org/v1beta1",
        "kind": "PlacementAPI",
        "metadata": {"name": "placement", "namespace": "default"},
        "spec": spec,
    })
}
