//! Schemas of fields whose form is defined elsewhere.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::{Decision, rules};
use crate::scheduling;

/// An object that is kept as it is: the state of a network, in the form of nmstate.
pub(super) fn open(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A number of nodes or a share of them.
pub(super) fn max_unavailable(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": true,
        "maxLength": 16,
        "x-kubernetes-validations": rules::max_unavailable(),
    })
}

/// A selector by labels, as Kubernetes has it.
pub(super) fn label_selector(generator: &mut SchemaGenerator) -> Schema {
    let mut match_labels = scheduling::labels(generator);
    match_labels.insert("description".into(), "Labels that a node must have.".into());
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": match_labels,
            "matchExpressions": {
                "description": "What else must hold of the node's labels, all of it.",
                "type": "array",
                "maxItems": 64,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {
                            "description": "The key of a label.", "type": "string", "maxLength": 317
                        },
                        "operator": {
                            "description": "What must hold of the label's value.",
                            "type": "string",
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        },
                        "values": {
                            "description": "Values, for In and NotIn.",
                            "type": "array",
                            "maxItems": 256,
                            "x-kubernetes-list-type": "atomic",
                            "items": {
                                "type": "string", "maxLength": 63,
                                "x-kubernetes-validations": scheduling::label_value()
                            },
                        },
                    },
                    "x-kubernetes-validations": rules::label_expression(),
                },
            },
        },
    })
}

/// A list of patterns of names of interfaces.
pub(super) fn globs(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "maxLength": 256, "x-kubernetes-validations": rules::glob()},
    })
}

/// Addresses that no node gets.
pub(super) fn excluded(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "string", "maxLength": 100,
            "x-kubernetes-validations": rules::excluded_range()
        },
    })
}

/// The decisions of an operator of this version.
pub(super) fn decision(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "enum": [Decision::Granted, Decision::Pending, Decision::Aborted, Decision::Revert]
    })
}
