//! Schemas of fields whose form is defined elsewhere.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::rules;
use crate::quantity::quantity;

/// Amounts of resources by the name of the resource.
pub(super) fn amounts(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object", "maxProperties": 64, "additionalProperties": quantity(generator)
    })
}

/// Labels or annotations of an object.
pub(super) fn texts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": {"type": "string"}})
}

/// Names of networks.
pub(super) fn attachments(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        // The limits keep the cost of the rules within what the API server allows.
        "maxItems": 32,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string", "maxLength": 253, "x-kubernetes-validations": rules::attachment()
        },
        "x-kubernetes-validations": rules::attachments(),
    })
}

/// Blocks of addresses.
pub(super) fn source_ranges(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 256,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string", "maxLength": 64, "x-kubernetes-validations": rules::source_range()
        },
    })
}

/// Files by their names.
pub(super) fn config_overwrite(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {"type": "string"},
        "x-kubernetes-validations": rules::config_overwrite(),
    })
}
