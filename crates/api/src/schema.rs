//! From Rust types to the structural schemas that Kubernetes takes in a `CustomResourceDefinition`.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The structural schema of a type: everything inline, no titles, and no `null` but where a field
/// asks for `nullable`.
///
/// `Option` is no reason for `nullable`: the API server drops a null that the schema does not
/// allow, so `multus: null` means the same as no `multus` at all, and is stored that way.
pub(crate) fn structural<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.transforms = vec![Box::new(RecursiveTransform(simplify))];
    });
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Removes what a structural schema may not have or has no use for, and the line breaks that a doc
/// comment has only for its width.
fn simplify(schema: &mut Schema) {
    schema.remove("title");
    if let Some(Value::String(description)) = schema.get_mut("description") {
        let paragraphs = description
            .split("\n\n")
            .map(|paragraph| paragraph.replace('\n', " "));
        *description = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [single] = types.as_slice() {
            let single = single.clone();
            schema.insert("type".into(), single);
        }
    }
}

/// Common helpers of the tests of the definitions.
#[cfg(test)]
pub(crate) mod testing {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::{Map, Value, json};

    /// Calls `visit` with the path and schema of every node.
    pub(crate) fn walk(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
        visit(path, schema);
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(property, &format!("{path}.{name}"), visit);
        }
        for below in ["items", "additionalProperties"] {
            if schema[below].is_object() {
                walk(&schema[below], &format!("{path}[]"), visit);
            }
        }
    }

    /// Every list says how it is merged, and requires its keys.
    pub(crate) fn assert_lists_are_merged(schema: &Value) {
        walk(schema, "", &mut |path, node| {
            if node["type"] != "array" {
                return;
            }
            let kind = node["x-kubernetes-list-type"]
                .as_str()
                .unwrap_or_else(|| panic!("{path}: no list type"));
            if kind == "map" {
                let required = node["items"]["required"].as_array().unwrap();
                for key in node["x-kubernetes-list-map-keys"].as_array().unwrap() {
                    assert!(
                        required.contains(key),
                        "{path}: {key} is a key and not required"
                    );
                }
            }
        });
    }

    /// A default would pass for the user's own choice.
    pub(crate) fn assert_no_defaults(schema: &Value) {
        walk(schema, "", &mut |path, node| {
            // `with_unobserved_status`
            let is_unobserved = path == ".status";
            assert!(
                is_unobserved || node.get("default").is_none(),
                "{path}: {}",
                node["default"]
            )
        });
    }

    /// A value with every field that the schema has.
    pub(crate) fn example(schema: &Value) -> Value {
        // A value that may be of two types has none.
        match schema["type"].as_str().unwrap_or("string") {
            "object" => {
                let properties = schema["properties"].as_object().into_iter().flatten();
                let mut object: Map<_, _> = properties
                    .map(|(name, schema)| (name.clone(), example(schema)))
                    .collect();
                if schema["additionalProperties"].is_object() {
                    object.insert("key".into(), example(&schema["additionalProperties"]));
                }
                object.into()
            }
            "array" => json!([example(&schema["items"])]),
            "integer" => json!(1),
            "boolean" => json!(true),
            "string" if schema["format"] == "date-time" => json!("2026-01-02T03:04:05Z"),
            _ => json!("text"),
        }
    }
}
