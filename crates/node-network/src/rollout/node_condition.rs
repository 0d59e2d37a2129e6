//! The condition of a Node, as the operator writes and reads it.

use serde_json::Value;
use weft_plan::escape;

weft_plan::choice! {
    /// The status of the condition.
    pub enum Ready("a status") {
        /// All policies that are for the node are applied.
        True,
        /// One of them is not.
        False,
        /// Nobody knows: the node is not managed.
        Unknown,
    }
}

/// The content of the condition of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// `status`
    pub status: Ready,
    /// `reason`
    pub reason: String,
    /// `message`
    pub message: String,
}

impl Readiness {
    pub(super) fn new(status: Ready, reason: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.to_owned(),
            message: escape::text(&message.into()).into(),
        }
    }

    /// Reads the condition of a Node.
    pub(super) fn of(condition: &Value) -> Option<Self> {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Some(Self {
            status: condition["status"].as_str()?.parse().ok()?,
            reason: text("reason"),
            message: text("message"),
        })
    }
}
