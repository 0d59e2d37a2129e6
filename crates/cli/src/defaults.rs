//! Defaults of the schema, which the API server fills in whenever it takes or reads an object
//! (apiextensions-apiserver, `schema/defaulting/algorithm.go`).

use anyhow::Result;
use serde_json::Value;

use crate::domains::Entry;

/// Fills in the defaults of the specification of a resource.
///
/// # Errors
/// The definition does not have the version of the resource.
pub fn fill(entry: &Entry, resource: &mut Value) -> Result<()> {
    let schema = &entry.definition.version_of(resource)?.schema;
    if let Some(spec) = resource.get_mut("spec") {
        fill_in(&schema["properties"]["spec"], spec);
    }
    Ok(())
}

fn fill_in(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let properties = schema["properties"].as_object();
            for (name, property) in properties.into_iter().flatten() {
                let default = &property["default"];
                if !default.is_null() && !fields.contains_key(name) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields {
                let property = properties.and_then(|all| all.get(name));
                fill_in(property.unwrap_or(&schema["additionalProperties"]), field);
            }
        }
        Value::Array(items) => {
            for item in items {
                fill_in(&schema["items"], item);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::domains;
    use serde_json::json;

    #[test]
    fn open_fields_get_their_defaults_and_values_stay() {
        let entry = domains::ALL
            .iter()
            .find(|entry| entry.name == "placement")
            .unwrap();
        let filled = |spec: Value| {
            let mut resource =
                json!({"apiVersion": "placement.openstack.org/v1beta1", "spec": spec});
            fill(entry, &mut resource).unwrap();
            resource["spec"].clone()
        };
        let defaults = json!({
            "apiTimeout": 60, "databaseAccount": "placement", "preserveJobs": false, "replicas": 1,
            "passwordSelectors": {"service": "PlacementPassword"}, "serviceUser": "placement"
        });
        assert_eq!(filled(json!({})), defaults);
        let some = filled(json!({"replicas": 0, "passwordSelectors": {}}));
        assert_eq!(
            (&some["replicas"], &some["passwordSelectors"]),
            (&json!(0), &defaults["passwordSelectors"])
        );
        let mut resource = json!({"apiVersion": "placement.openstack.org/v1beta1"});
        fill(entry, &mut resource).unwrap();
        assert_eq!(resource.get("spec"), None);
    }

    #[test]
    fn entries_of_lists_and_maps_get_theirs() {
        let entry = json!({"type": "object", "properties": {"a": {"default": 1}}});
        let schema = json!({"properties": {
            "list": {"items": entry}, "map": {"additionalProperties": entry}
        }});
        let mut value = json!({"list": [{}, {"a": 2}], "map": {"x": {}, "y": {"a": 2}}, "z": {}});
        fill_in(&schema, &mut value);
        assert_eq!(
            value,
            json!({
                "list": [{"a": 1}, {"a": 2}], "map": {"x": {"a": 1}, "y": {"a": 2}}, "z": {}
            })
        );
    }
}
