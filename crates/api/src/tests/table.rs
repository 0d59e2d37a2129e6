//! A table of what an API accepts and what it refuses.
#![allow(dead_code, reason = "each test program uses a part")]

use serde::Deserialize;
use serde_json::Value;

/// The table.
#[derive(Deserialize)]
pub struct Cases {
    pub accepted: Vec<Accepted>,
    pub refused: Vec<Refused>,
}

/// A specification that is accepted.
#[derive(Deserialize)]
pub struct Accepted {
    /// Where a table is about several kinds.
    #[serde(default)]
    pub kind: String,
    pub name: String,
    pub spec: Value,
}

/// A specification that is refused.
#[derive(Deserialize)]
pub struct Refused {
    #[serde(default)]
    pub kind: String,
    pub by: By,
    /// The field that the error is about. Of an admission policy's it is the whole object.
    #[serde(default)]
    pub field: String,
    /// A part of the message.
    pub message: String,
    pub spec: Value,
}

/// The part that refuses.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    Rule,
    Schema,
    Policy,
}
