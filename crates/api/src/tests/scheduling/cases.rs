//! The table of where pods may run.

use serde::Deserialize;
use serde_json::{Value, json};

/// The table.
#[derive(Deserialize)]
pub struct Cases {
    pub accepted: Vec<Accepted>,
    pub refused: Vec<Refused>,
}

/// An accepted object.
#[derive(Deserialize)]
pub struct Accepted {
    pub name: String,
    /// A DaemonSet may have it only where a feature gate of the API server is on.
    #[serde(default)]
    pub gated: bool,
    /// nodeSelector, affinity and tolerations.
    pub spec: Value,
}

/// A refused object.
#[derive(Deserialize)]
pub struct Refused {
    pub by: By,
    /// The field that the error is about, in `spec`.
    field: String,
    /// A part of what the schema or its rule says. Of the check in Rust's message where the check
    /// is alone.
    pub message: String,
    /// `spec` is an expression of a required node affinity.
    #[serde(default)]
    expression: bool,
    /// `spec` is an expression about fields of a required node affinity.
    #[serde(default)]
    fields: bool,
    /// `spec` is a term of a required affinity to pods.
    #[serde(default)]
    term: bool,
    /// A DaemonSet may have it, and none of its pods would ever run.
    #[serde(default)]
    pub stricter: bool,
    spec: Value,
}

/// The part that refuses.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// A CEL rule.
    Rule,
    /// The rest of the schema.
    Schema,
    /// Only the check in Rust.
    Check,
}

impl Refused {
    /// nodeSelector, affinity and tolerations.
    pub fn spec(&self) -> Value {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let of_node = |list: &str| {
            json!({
                "affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [{list: [self.spec]}]}}}
            })
        };
        match (self.expression, self.fields, self.term) {
            (true, _, _) => of_node("matchExpressions"),
            (_, true, _) => of_node("matchFields"),
            (_, _, true) => json!({"affinity": {"podAntiAffinity": {required: [self.spec]}}}),
            _ => self.spec.clone(),
        }
    }

    /// The field that the error is about, from where these fields stand.
    pub fn field(&self) -> String {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let of_node = |list: &str| {
            format!(
                "affinity.nodeAffinity.{required}.nodeSelectorTerms[0].{list}[0].{}",
                self.field
            )
        };
        match (self.expression, self.fields, self.term) {
            (true, _, _) => of_node("matchExpressions"),
            (_, true, _) => of_node("matchFields"),
            (_, _, true) => format!("affinity.podAntiAffinity.{required}[0].{}", self.field),
            _ => self.field.clone(),
        }
    }
}

pub fn cases() -> Cases {
    serde_saphyr::from_str(include_str!("cases.yaml")).unwrap()
}

/// A NetworkAddonsConfig with these fields.
pub fn addons(scheduling: &Value) -> Value {
    json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
        "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"},
        "spec": {"placementConfiguration": {"workloads": scheduling}},
    })
}
