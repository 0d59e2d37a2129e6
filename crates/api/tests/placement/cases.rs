//! The table of what is accepted and what is refused.

use serde::Deserialize;
use serde_json::{Value, json};

/// The table.
#[derive(Deserialize)]
pub struct Cases {
    pub accepted: Vec<Accepted>,
    pub refused: Vec<Refused>,
}

/// A specification that is accepted.
#[derive(Deserialize)]
pub struct Accepted {
    pub name: String,
    pub spec: Value,
}

/// A specification that is refused.
#[derive(Deserialize)]
pub struct Refused {
    pub by: By,
    /// The field that the error is about.
    pub field: String,
    /// A part of the message.
    pub message: String,
    pub spec: Value,
}

/// What refuses.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    Rule,
    Schema,
    Policy,
}

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
