//! The CEL rules of a schema, asked in-process.

use super::table::Refused;
use kube_cel::{ValidationError, Validator};
use serde_json::Value;

impl Refused {
    /// Reports whether this case breaks the rule with this message at this path, by [`rules`].
    pub fn is_against(&self, path: &str, message: &str) -> bool {
        of_any_entry(&self.field) == path && message.contains(&self.message)
    }

    /// Fails unless one of these errors is what the table says.
    #[track_caller]
    pub fn is_among(&self, errors: &[ValidationError]) {
        let is_it = |error: &&ValidationError| {
            dotted(&error.field_path) == dotted(&self.field)
                && error.message.contains(&self.message)
        };
        assert!(
            errors.iter().any(|error| is_it(&error)),
            "{}: {errors:#?}",
            self.spec
        );
    }
}

/// Returns the findings of a schema's CEL rules about an object.
pub fn errors(schema: &Value, object: &Value) -> Vec<ValidationError> {
    Validator::new()
        .validate(schema, object, None)
        .map_or_else(|errors| errors.into_vec(), |()| vec![])
}

/// All rules of a schema: the path of the field, with `[]` for any entry, and the message.
pub fn rules(schema: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    rules_below(schema, "", &mut found);
    found
}

fn rules_below(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let message = rule["message"]
            .as_str()
            .unwrap_or_else(|| panic!("{path}: a rule without a message: {rule}"));
        let path = format!("{path}{}", rule["fieldPath"].as_str().unwrap_or_default());
        found.push((path.trim_start_matches('.').to_owned(), message.to_owned()));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        rules_below(property, &path, found);
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            rules_below(&schema[below], &format!("{path}[]"), found);
        }
    }
}

/// A path in one notation of the entries of lists and maps.
fn dotted(path: &str) -> String {
    path.trim_start_matches('.')
        .replace('[', ".")
        .replace(']', "")
}

/// A path with the keys and indices of its entries left out.
pub fn of_any_entry(path: &str) -> String {
    let mut parts = path.split('[');
    let first = parts.next().unwrap().to_owned();
    parts
        .fold(first, |path, part| {
            path + "[]" + part.split_once(']').unwrap().1
        })
        .trim_start_matches('.')
        .to_owned()
}
