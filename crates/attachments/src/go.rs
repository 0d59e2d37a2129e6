//! JSON as Go reads it into a type (`encoding/json`).

use serde_json::Value;

/// Returns a field of an object, or null. Go takes the names of fields in any case.
pub(crate) fn field<'v>(object: &'v Value, name: &str) -> &'v Value {
    let in_another_case = || {
        let mut fields = object.as_object()?.iter();
        let found = fields.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(found.1)
    };
    object
        .get(name)
        .or_else(in_another_case)
        .unwrap_or(&Value::Null)
}

/// Returns a field that is a text, or an empty text. Go's types hold both as one value.
pub(crate) fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    field(object, name).as_str().unwrap_or_default()
}

/// The shape of a field. Go reads `null` there as a value that is left out.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    String,
    Strings,
    Object,
    Objects,
    Boolean,
    Booleans,
    Integer,
}

impl Shape {
    pub(crate) fn fits(self, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Null)
            | (Self::String, Value::String(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::Object, Value::Object(_)) => true,
            // Go refuses a fraction, and also one that is zero.
            (Self::Integer, Value::Number(number)) => number.as_i64().is_some(),
            (Self::Strings, Value::Array(items)) => {
                items.iter().all(|item| Self::String.fits(item))
            }
            (Self::Objects, Value::Array(items)) => items.iter().all(Value::is_object),
            (Self::Booleans, Value::Object(fields)) => fields
                .values()
                .all(|value| value.is_null() || value.is_boolean()),
            _ => false,
        }
    }

    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Strings => "a list of strings",
            Self::Object => "an object",
            Self::Objects => "a list of objects",
            Self::Boolean => "a boolean",
            Self::Booleans => "an object with booleans",
            Self::Integer => "a whole number",
        }
    }

    /// The message about a value of another shape, with the fix where one is likely.
    pub(crate) fn mistake(self, value: &Value) -> String {
        let is_quoted = match (self, value.as_str()) {
            (Self::Integer, Some(text)) => text.parse::<i64>().is_ok(),
            (Self::Boolean, Some(text)) => matches!(text, "true" | "false"),
            _ => false,
        };
        let fix = match (is_quoted, self, value) {
            (true, ..) => ": remove the quotes",
            (_, Self::String, Value::Number(_) | Value::Bool(_)) => ": put it in quotes",
            (_, Self::Strings, Value::String(_)) => ": put it in brackets",
            _ => "",
        };
        format!("must be {}, not {}{fix}", self.in_words(), shown(value))
    }
}

/// A value as an error shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_name_of_a_field_counts_in_any_case() {
        let object = json!({"Type": "a", "ipam": 1, "IPAM": 2});
        assert_eq!(text(&object, "type"), "a");
        assert_eq!(field(&object, "ipam"), &json!(1));
        assert_eq!(field(&object, "dns"), &Value::Null);
        assert_eq!(text(&object, "ipam"), "");
    }

    #[test]
    fn a_shape_takes_what_go_takes() {
        for (shape, value, fits) in [
            (Shape::Integer, json!(-1), true),
            (Shape::Integer, json!(1.0), false),
            (Shape::Integer, json!("1"), false),
            (Shape::Boolean, json!("true"), false),
            (Shape::Booleans, json!({"a": null, "b": true}), true),
            (Shape::Strings, json!(["a", null]), true),
            (Shape::Strings, json!("a"), false),
            (Shape::Objects, json!([{}]), true),
            (Shape::Objects, json!([{}, "a"]), false),
            (Shape::Object, Value::Null, true),
        ] {
            assert_eq!(shape.fits(&value), fits, "{value} as {}", shape.in_words());
        }
    }
}
