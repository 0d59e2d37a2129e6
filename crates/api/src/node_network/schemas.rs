//! Schemas of fields whose form is defined elsewhere.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::{Schema, SchemaGenerator, json_schema};

/// An object that is kept as it is: the state of a network, in the form of nmstate.
pub(super) fn open(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A number or a percentage.
pub(super) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
}

/// A selector by labels, without the texts of Kubernetes.
pub(super) fn label_selector(generator: &mut SchemaGenerator) -> Schema {
    crate::schema::inlined::<LabelSelector>(generator)
}
