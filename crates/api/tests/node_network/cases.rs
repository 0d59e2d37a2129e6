//! The table of what is accepted and what is refused.

use serde::Deserialize;
use serde_json::{Value, json};

/// The table.
#[derive(Deserialize)]
pub struct Cases {
    pub accepted: Vec<Accepted>,
    pub refused: Vec<Refused>,
}

/// How long names may be.
pub const NAMES: [(&str, usize); 2] = [("NodeNetworkConfigurationPolicy", 63), ("NMState", 55)];

/// A specification that is accepted.
#[derive(Deserialize)]
pub struct Accepted {
    #[serde(default = "policy")]
    pub kind: String,
    pub name: String,
    pub spec: Value,
}

/// A specification that is refused.
#[derive(Deserialize)]
pub struct Refused {
    #[serde(default = "policy")]
    pub kind: String,
    pub by: By,
    /// The field that the error is about; of an admission policy's it is the whole object.
    #[serde(default)]
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

fn policy() -> String {
    "NodeNetworkConfigurationPolicy".to_owned()
}

pub fn cases() -> Cases {
    serde_saphyr::from_str(include_str!("cases.yaml")).unwrap()
}

/// The object of this kind with this specification, as v1.
pub fn object(kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": "nmstate.io/v1", "kind": kind, "metadata": {"name": "one"}, "spec": spec})
}
