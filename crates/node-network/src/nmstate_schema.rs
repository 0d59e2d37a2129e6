//! The schema of nmstate's states, as [`crate::schema`] describes it.

use std::sync::LazyLock;

use serde_json::Value;

pub(crate) static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("nmstate.json")).unwrap_or_default());
