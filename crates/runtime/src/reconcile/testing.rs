//! Objects and differences for the tests of repairs.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use weft_plan::{Difference, Manifest, What};

/// The ConfigMap `c` with this value.
pub(crate) fn manifest(value: &str) -> Manifest {
    Manifest::new(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"},
        "data": {"k": value}
    }))
    .unwrap()
}

/// A field with this value instead of `ours`.
pub(crate) fn changed(path: &str, live: &str) -> Difference {
    Difference {
        path: path.to_owned(),
        what: What::Changed {
            live: live.into(),
            desired: "ours".into(),
        },
    }
}

/// An object with a field below `data` of each of these managers.
pub(crate) fn written_by(managers: &[(&str, &str)]) -> Value {
    let entry = |(manager, field): &(&str, &str)| {
        json!({
            "manager": manager, "operation": "Update", "time": "2026-01-01T00:00:00Z",
            "fieldsV1": {"f:data": {format!("f:{field}"): {}}}
        })
    };
    let entries: Vec<_> = managers.iter().map(entry).collect();
    json!({"metadata": {"managedFields": entries}})
}
