//! Checks a value against the structural schema of a custom resource, as the API server would.
//!
//! Structural schemas are a small part of JSON Schema: no references, one type a node, and all that
//! says what fields there are stands outside of `allOf`, `anyOf`, `oneOf` and `not`. So a walk over
//! both trees is all it takes. Every problem is reported, not just the first.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, PoisonError},
};

use regex::Regex;
use serde_json::{Map, Value};
use weft_api::{LABEL_KEY, LABEL_VALUE, QUANTITY_PATTERN};
use weft_documents::join;

use crate::suggest::did_you_mean;

/// One thing that is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path of the field, such as `spec.tolerations[0].effect`.
    pub path: String,
    /// True if the name of the field is what is wrong, not its value.
    pub about_key: bool,
    /// The mistake, and the way out.
    pub message: String,
}

/// Everything in `object` that its schema refuses. The schema must be one of
/// [`with_object_fields`].
pub fn check(schema: &Value, object: &Value) -> Vec<Finding> {
    let mut walk = Walk {
        root: schema,
        findings: Vec::new(),
    };
    walk.node(schema, object, "");
    walk.findings
}

/// The schema of a CRD with the fields that each object has. The API server answers for
/// `apiVersion`, `kind` and `metadata` itself, whatever a CRD says of them.
pub fn with_object_fields(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if !schema["properties"].is_object() {
        schema["properties"] = Value::Object(Map::new());
    }
    let text = serde_json::json!({"type": "string", "nullable": true});
    let anything =
        serde_json::json!({"x-kubernetes-preserve-unknown-fields": true, "nullable": true});
    let texts = serde_json::json!({
        "type": "object", "nullable": true, "additionalProperties": {"type": "string"}
    });
    schema["properties"]["apiVersion"] = serde_json::json!({"type": "string"});
    schema["properties"]["kind"] = serde_json::json!({"type": "string"});
    schema["properties"]["metadata"] = serde_json::json!({
        "type": "object",
        "properties": {
            "name": text, "generateName": text, "namespace": text, "uid": text, "resourceVersion": text, "selfLink": text,
            "creationTimestamp": text, "deletionTimestamp": text, "generation": {"type": "integer"},
            "deletionGracePeriodSeconds": {"type": "integer", "nullable": true},
            "labels": texts, "annotations": texts,
            "finalizers": {"type": "array", "nullable": true, "items": {"type": "string"}},
            "ownerReferences": anything, "managedFields": anything,
            // Dumps of old API servers have them.
            "clusterName": text, "initializers": anything,
        },
    });
    schema
}

struct Walk<'a> {
    /// The schema of the whole object.
    root: &'a Value,
    findings: Vec<Finding>,
}

impl Walk<'_> {
    fn found(&mut self, path: &str, message: String) {
        self.findings.push(Finding {
            path: path.to_owned(),
            about_key: false,
            message,
        });
    }

    fn node(&mut self, schema: &Value, value: &Value, path: &str) {
        if value.is_null() {
            if !truthy(schema, "nullable") {
                self.null(schema, path);
            }
            return;
        }
        if let Some(complaint) = wrong_type(schema, value) {
            self.found(path, complaint);
            return;
        }
        for complaint in value_complaints(schema, value) {
            self.found(path, complaint);
        }
        match value {
            Value::Object(fields) => self.object(schema, fields, path),
            Value::Array(items) => self.array(schema, items, path),
            _ => {}
        }
    }

    /// The API server drops a null where the schema knows none, without a word: the field then
    /// counts as absent.
    fn null(&mut self, schema: &Value, path: &str) {
        let remedy = match schema["type"].as_str() {
            Some("object") => "write {} after it to have it with its defaults, or remove it",
            _ => "give it a value or remove it",
        };
        let message = format!("has no value, so the API server would drop it silently: {remedy}");
        self.findings.push(Finding {
            path: path.to_owned(),
            about_key: true,
            message,
        });
    }

    fn object(&mut self, schema: &Value, fields: &Map<String, Value>, path: &str) {
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        for required in strings(&schema["required"]) {
            if !fields.contains_key(required) {
                self.found(&join(path, required), "is missing".to_owned());
            }
        }
        let open = truthy(schema, "x-kubernetes-preserve-unknown-fields")
            || schema["additionalProperties"] == Value::Bool(true);
        let parent = path;
        for (name, value) in fields {
            let path = join(parent, name);
            if let Some(property) = properties.get(name) {
                self.node(property, value, &path);
            } else if schema["additionalProperties"].is_object() {
                self.node(&schema["additionalProperties"], value, &path);
            } else if !open {
                let message = unknown_field(name, properties, fields, || {
                    let here = places(name, schema, parent);
                    match here.is_empty() {
                        true => places(name, &self.root["properties"]["spec"], "spec"),
                        false => here,
                    }
                });
                self.findings.push(Finding {
                    path,
                    about_key: true,
                    message,
                });
            }
        }
    }

    fn array(&mut self, schema: &Value, items: &[Value], path: &str) {
        // Where unknown fields are kept, nothing may be said of what is in a list.
        if schema["items"].is_object() {
            for (index, item) in items.iter().enumerate() {
                self.node(&schema["items"], item, &format!("{path}[{index}]"));
            }
        }
        let identity: Box<dyn Fn(&Value) -> Value> = match schema["x-kubernetes-list-type"].as_str()
        {
            Some("set") => Box::new(Value::clone),
            Some("map") => {
                let keys: Vec<String> = strings(&schema["x-kubernetes-list-map-keys"])
                    .map(str::to_owned)
                    .collect();
                Box::new(move |item| keys.iter().map(|key| item[key].clone()).collect())
            }
            _ => return,
        };
        for (index, item) in items.iter().enumerate() {
            if let Some(first) = items[..index]
                .iter()
                .position(|earlier| identity(earlier) == identity(item))
            {
                self.found(
                    &format!("{path}[{index}]"),
                    format!("says the same as entry {first} of the list, which may have it once: remove one of them"),
                );
            }
        }
    }
}

/// How deep [`places`] searches, and with how many places none of them helps.
const DEPTH: usize = 4;
const MOST: usize = 3;

/// The nearest places below a schema that know a field of this name. Empty if there is none, or if
/// there are too many to help. `here` names the place of the schema.
fn places(name: &str, schema: &Value, here: &str) -> Vec<String> {
    let mut level = vec![(here.to_owned(), schema)];
    for _ in 0..DEPTH {
        let found: Vec<String> = level
            .iter()
            .filter(|(_, schema)| schema["properties"].get(name).is_some())
            .map(|(path, _)| path.clone())
            .collect();
        if !found.is_empty() {
            return if found.len() > MOST {
                Vec::new()
            } else {
                found
            };
        }
        let next = level.iter().flat_map(|(path, schema)| {
            let properties = schema["properties"].as_object().into_iter().flatten();
            properties.map(move |(name, schema)| {
                let schema = match &schema["items"] {
                    Value::Null => schema,
                    items => items,
                };
                (format!("{path}.{name}"), schema)
            })
        });
        level = next.collect();
    }
    Vec::new()
}

fn unknown_field(
    name: &str,
    properties: &Map<String, Value>,
    present: &Map<String, Value>,
    places: impl FnOnce() -> Vec<String>,
) -> String {
    let absent = properties
        .keys()
        .map(String::as_str)
        .filter(|field| !present.contains_key(*field));
    match did_you_mean(name, absent) {
        Some(field) => format!("unknown field {name:?}; did you mean {field:?}?"),
        None if properties.is_empty() => {
            format!("unknown field {name:?}: no fields are known here, remove it")
        }
        None => {
            let places = places();
            if !places.is_empty() {
                return format!(
                    "unknown field {name:?}: it belongs into {}",
                    places.join(" or ")
                );
            }
            let known: Vec<&str> = properties.keys().map(String::as_str).collect();
            format!(
                "unknown field {name:?}: known here are {}",
                known.join(", ")
            )
        }
    }
}

/// Why the value is not of the schema's type.
fn wrong_type(schema: &Value, value: &Value) -> Option<String> {
    if truthy(schema, "x-kubernetes-int-or-string") {
        return (!(value.is_string() || is_integer(value)))
            .then(|| format!("must be an integer or a string, not {}", describe(value)));
    }
    let (fits, wanted) = match schema["type"].as_str()? {
        "object" => (value.is_object(), "an object"),
        "array" => (value.is_array(), "a list"),
        "string" => (value.is_string(), "a string"),
        "boolean" => (value.is_boolean(), "true or false"),
        "integer" => (is_integer(value), "a whole number"),
        "number" => (value.is_number(), "a number"),
        _ => return None,
    };
    let quotes = if wanted == "a string" && !value.is_object() && !value.is_array() {
        ": put it in quotes"
    } else {
        ""
    };
    (!fits).then(|| format!("must be {wanted}, not {}{quotes}", describe(value)))
}

/// Returns the findings of the schema's value validations about the value. These also stand inside
/// of `allOf` and its like.
fn value_complaints(schema: &Value, value: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        complaints.push(not_allowed(value, allowed));
    }
    match value {
        Value::String(text) => complaints.extend(string_complaints(schema, text)),
        Value::Number(number) => complaints.extend(
            number
                .as_f64()
                .and_then(|number| number_complaint(schema, value, number)),
        ),
        Value::Array(items) => complaints.extend(count_complaint(
            schema,
            "minItems",
            "maxItems",
            items.len(),
            "entries",
        )),
        Value::Object(fields) => complaints.extend(count_complaint(
            schema,
            "minProperties",
            "maxProperties",
            fields.len(),
            "fields",
        )),
        _ => {}
    }
    complaints.extend(junctor_complaints(schema, value));
    complaints
}

fn not_allowed(value: &Value, allowed: &[Value]) -> String {
    // An empty string stands for a field that is not there.
    let words: Vec<&str> = allowed
        .iter()
        .filter_map(Value::as_str)
        .filter(|word| !word.is_empty())
        .collect();
    let hint = value
        .as_str()
        .and_then(|text| did_you_mean(text, words.iter().copied()))
        .map(|word| format!("; did you mean {word:?}?"))
        .unwrap_or_default();
    let all: Vec<String> = allowed
        .iter()
        .filter(|word| word.as_str() != Some(""))
        .map(ToString::to_string)
        .collect();
    format!("{value} is not allowed, only {}{hint}", all.join(", "))
}

fn string_complaints(schema: &Value, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Some(pattern) = schema["pattern"].as_str()
        && !fits(pattern, text)
    {
        const LABEL: &str = "letters, digits, '-', '_' and '.', a letter or digit at both ends";
        complaints.push(match pattern {
            QUANTITY_PATTERN => format!("{text:?} is no quantity: write a number, with a unit if need be, for example 2, 500m or 1Gi"),
            LABEL_KEY => format!("{text:?} must be the key of a label: up to 63 {LABEL}, with or without a DNS name and '/' before it"),
            LABEL_VALUE => format!("{text:?} must be the value of a label: at most 63 {LABEL}"),
            _ => format!("{text:?} does not match the pattern {pattern}"),
        });
    }
    complaints.extend(count_complaint(
        schema,
        "minLength",
        "maxLength",
        text.chars().count(),
        "characters",
    ));
    complaints
}

/// Reports whether a text matches a pattern of a schema. One that cannot be read refuses nothing.
fn fits(pattern: &str, text: &str) -> bool {
    static PATTERNS: LazyLock<Mutex<HashMap<String, Option<Regex>>>> =
        LazyLock::new(Mutex::default);
    let mut patterns = PATTERNS.lock().unwrap_or_else(PoisonError::into_inner);
    patterns
        .entry(pattern.to_owned())
        .or_insert_with(|| Regex::new(pattern).ok())
        .as_ref()
        .is_none_or(|regex| regex.is_match(text))
}

fn number_complaint(schema: &Value, value: &Value, number: f64) -> Option<String> {
    let bound = |name: &str| schema[name].as_f64();
    let (low, high) = (
        truthy(schema, "exclusiveMinimum"),
        truthy(schema, "exclusiveMaximum"),
    );
    // The formats of integers are limits as well.
    let format = match schema["format"].as_str() {
        Some("int32") => Some((f64::from(i32::MIN), f64::from(i32::MAX))),
        _ => None,
    };
    if let Some(min) = bound("minimum").or(format.map(|(min, _)| min))
        && (number < min || (low && number <= min))
    {
        return Some(format!(
            "{value} is too small: it must be {} {min}",
            if low { "more than" } else { "at least" }
        ));
    }
    if let Some(max) = bound("maximum").or(format.map(|(_, max)| max))
        && (number > max || (high && number >= max))
    {
        return Some(format!(
            "{value} is too large: it must be {} {max}",
            if high { "less than" } else { "at most" }
        ));
    }
    None
}

fn count_complaint(
    schema: &Value,
    least: &str,
    most: &str,
    count: usize,
    what: &str,
) -> Option<String> {
    let limit = |name: &str| {
        schema[name]
            .as_u64()
            .and_then(|limit| usize::try_from(limit).ok())
    };
    match (limit(least), limit(most)) {
        (Some(least), _) if count < least => {
            Some(format!("has {count} {what}, but needs at least {least}"))
        }
        (_, Some(most)) if count > most => {
            Some(format!("has {count} {what}, but may have {most} at most"))
        }
        _ => None,
    }
}

/// In a structural schema these hold value validations of the same tree of fields, never new
/// fields.
fn junctor_complaints(schema: &Value, value: &Value) -> Vec<String> {
    let branches = |name: &str| {
        schema[name]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
    };
    let complaints = |branch: &Value| {
        let mut walk = Walk {
            root: schema,
            findings: Vec::new(),
        };
        walk.branch(branch, value, "");
        walk.findings
    };
    let passing = |name: &str| {
        branches(name)
            .iter()
            .filter(|branch| complaints(branch).is_empty())
            .count()
    };
    let mut found: Vec<String> = branches("allOf")
        .iter()
        .flat_map(complaints)
        .map(|finding| finding.message)
        .collect();
    if !branches("anyOf").is_empty()
        && !truthy(schema, "x-kubernetes-int-or-string")
        && passing("anyOf") == 0
    {
        found.push(format!(
            "{} fits none of the forms that are allowed here",
            describe(value)
        ));
    }
    if !branches("oneOf").is_empty() && passing("oneOf") != 1 {
        found.push(format!(
            "{} must fit exactly one of the forms that are allowed here, and fits {}",
            describe(value),
            passing("oneOf")
        ));
    }
    if schema["not"].is_object() && complaints(&schema["not"]).is_empty() {
        found.push(format!("{} is not allowed here", describe(value)));
    }
    found
}

impl Walk<'_> {
    /// A branch of a junctor: like a node, but fields that it does not name are none of its
    /// business.
    fn branch(&mut self, schema: &Value, value: &Value, path: &str) {
        for complaint in wrong_type(schema, value)
            .into_iter()
            .chain(value_complaints(schema, value))
        {
            self.found(path, complaint);
        }
        if let Value::Object(fields) = value {
            for required in strings(&schema["required"]).filter(|name| !fields.contains_key(*name))
            {
                self.found(&join(path, required), "is missing".to_owned());
            }
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(value) = fields.get(name) {
                    self.branch(property, value, &join(path, name));
                }
            }
        }
    }
}

fn truthy(schema: &Value, name: &str) -> bool {
    schema[name].as_bool().unwrap_or_default()
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// JSON knows no integers: `1.0` is one for the API server, too.
fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {text:?}"),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The findings about one field of type `schema` with this value, as `path: message`.
    fn findings(schema: &Value, value: &Value) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"f": schema}});
        let object =
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "f": value});
        check(&with_object_fields(&schema), &object)
            .into_iter()
            .map(|finding| format!("{}: {}", finding.path, finding.message))
            .collect()
    }

    #[test]
    fn a_field_at_a_wrong_place_is_answered_with_the_right_one() {
        let text = json!({"type": "string"});
        let object = |properties: Value| json!({"type": "object", "properties": properties});
        let schema = object(json!({"spec": object(json!({
            "network": object(json!({"blocks": {"type": "array", "items": object(json!({"cidr": text}))}})),
            "proxy": object(json!({"mode": text})),
        }))}));
        let said = |spec: Value| {
            let object =
                json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec});
            let found = check(&with_object_fields(&schema), &object);
            let messages = found.into_iter().map(|finding| finding.message);
            messages.collect::<Vec<_>>().join("; ")
        };
        for (spec, expected) in [
            (json!({"cidr": "a"}), "it belongs into spec.network.blocks"),
            (
                json!({"proxy": {"cidr": "a"}}),
                "it belongs into spec.network.blocks",
            ),
            (
                json!({"network": {"mode": "a"}}),
                "it belongs into spec.proxy",
            ),
            (json!({"network": {"other": "a"}}), "known here are blocks"),
        ] {
            let said = said(spec.clone());
            assert!(said.ends_with(expected), "{spec}: {said}");
        }
    }

    #[test]
    fn an_object_is_taken_with_all_that_the_api_server_has_written_into_it() {
        let mut object = json!({"apiVersion": "v1", "kind": "K", "metadata": {
            "name": "n", "uid": "u", "resourceVersion": "1", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z", "selfLink": null,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}],
            "managedFields": [{"manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z",
                "fieldsV1": {
                    "f:spec": {".": {}, "f:list": {"k:{\"type\":\"a\"}": {"f:type": {}}, "v:1": {}}}
                }}],
        }});
        let schema = with_object_fields(&json!({"type": "object"}));
        assert_eq!(check(&schema, &object), []);
        object["metadata"]["managedField"] = json!([]);
        assert_eq!(check(&schema, &object).len(), 1);
    }

    #[test]
    fn each_rule_accepts_and_refuses() {
        let strings = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let integer = json!({"type": "integer", "minimum": 1, "maximum": 9});
        let small = json!({"type": "integer", "format": "int32"});
        let share = json!({
            "type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1,
            "exclusiveMaximum": true
        });
        let text = json!({"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 3});
        let choice = json!({"type": "string", "enum": ["Always", "IfNotPresent", "Never"]});
        let optional = json!({"type": "string", "enum": ["", "HTTP"]});
        let amount = json!({"x-kubernetes-int-or-string": true, "pattern": QUANTITY_PATTERN});
        let port = json!({
            "x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]
        });
        let list =
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2});
        let set =
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
        let map = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {
            "type": "object", "required": ["k"],
            "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}
        }});
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let one_of = json!({"type": "object", "properties": {
            "a": {"type": "string"}, "b": {"type": "string"}
        },
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
        let either = json!({"type": "string", "anyOf": [{"pattern": "^a"}, {"maxLength": 1}]});
        let both = json!({"type": "string", "allOf": [{"pattern": "^a"}, {"maxLength": 1}]});
        let not = json!({"type": "string", "not": {"enum": ["x"]}});
        let nullable = json!({"type": "object", "nullable": true});
        for (schema, good, bad, complaint) in [
            (
                &strings,
                json!({"a": "1"}),
                json!({"a": 1}),
                "f.a: must be a string, not the number 1: put it in quotes",
            ),
            (
                &strings,
                json!({}),
                json!([]),
                "f: must be an object, not a list",
            ),
            (
                &integer,
                json!(1),
                json!(0),
                "f: 0 is too small: it must be at least 1",
            ),
            (
                &integer,
                json!(9.0),
                json!(10),
                "f: 10 is too large: it must be at most 9",
            ),
            (
                &integer,
                json!(5),
                json!(1.5),
                "f: must be a whole number, not the number 1.5",
            ),
            (
                &small,
                json!(-5),
                json!(3_000_000_000_u64),
                "f: 3000000000 is too large: it must be at most 2147483647",
            ),
            (
                &share,
                json!(0.5),
                json!(0),
                "f: 0 is too small: it must be more than 0",
            ),
            (
                &share,
                json!(0.1),
                json!(1),
                "f: 1 is too large: it must be less than 1",
            ),
            (
                &text,
                json!("ab"),
                json!("AB"),
                "f: \"AB\" does not match the pattern ^[a-z]+$",
            ),
            (
                &text,
                json!("abc"),
                json!("a"),
                "f: has 1 characters, but needs at least 2",
            ),
            (
                &text,
                json!("abc"),
                json!("abcd"),
                "f: has 4 characters, but may have 3 at most",
            ),
            (
                &choice,
                json!("Never"),
                json!("always"),
                "f: \"always\" is not allowed, only \"Always\", \"IfNotPresent\", \"Never\"; did you mean \"Always\"?",
            ),
            (
                &optional,
                json!(""),
                json!("x"),
                "f: \"x\" is not allowed, only \"HTTP\"",
            ),
            (
                &amount,
                json!("1Gi"),
                json!("lots"),
                "f: \"lots\" is no quantity: write a number, with a unit if need be, for example 2, 500m or 1Gi",
            ),
            (
                &port,
                json!("http"),
                json!(true),
                "f: must be an integer or a string, not true",
            ),
            (
                &port,
                json!(80),
                json!(1.5),
                "f: must be an integer or a string, not the number 1.5",
            ),
            (
                &list,
                json!(["a"]),
                json!([]),
                "f: has 0 entries, but needs at least 1",
            ),
            (
                &list,
                json!(["a", "b"]),
                json!(["a", 2]),
                "f[1]: must be a string, not the number 2: put it in quotes",
            ),
            (
                &set,
                json!(["a", "b"]),
                json!(["a", "b", "a"]),
                "f[2]: says the same as entry 0 of the list, which may have it once: remove one of them",
            ),
            (
                &map,
                json!([{"k": "a"}, {"k": "b"}]),
                json!([{"k": "a"}, {"k": "a", "v": 1}]),
                "f[1]: says the same as entry 0 of the list, which may have it once: remove one of them",
            ),
            (&map, json!([]), json!([{"v": 1}]), "f[0].k: is missing"),
            (
                &map,
                json!([]),
                json!([{"k": "a", "vv": 1}]),
                "f[0].vv: unknown field \"vv\"; did you mean \"v\"?",
            ),
            (
                &open,
                json!({"any": {"thing": 1}}),
                json!("x"),
                "f: must be an object, not the string \"x\"",
            ),
            (
                &one_of,
                json!({"a": "1"}),
                json!({"a": "1", "b": "2"}),
                "f: an object must fit exactly one of the forms that are allowed here, and fits 2",
            ),
            (
                &either,
                json!("b"),
                json!("bb"),
                "f: the string \"bb\" fits none of the forms that are allowed here",
            ),
            (
                &both,
                json!("a"),
                json!("b"),
                "f: \"b\" does not match the pattern ^a",
            ),
            (
                &not,
                json!("y"),
                json!("x"),
                "f: the string \"x\" is not allowed here",
            ),
            (
                &nullable,
                Value::Null,
                json!(1),
                "f: must be an object, not the number 1",
            ),
            (
                &strings,
                json!({"a": ""}),
                Value::Null,
                "f: has no value, so the API server would drop it silently: write {} after it to have it with its defaults, or remove it",
            ),
        ] {
            assert_eq!(
                findings(schema, &good),
                Vec::<String>::new(),
                "{schema} with {good}"
            );
            assert_eq!(findings(schema, &bad), [complaint], "{schema} with {bad}");
        }
    }

    #[test]
    fn all_problems_are_found_at_once_and_point_at_names_or_values() {
        let schema = json!({
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object", "required": ["must"],
                    "properties": {"must": {"type": "string"}, "may": {"type": "boolean"}}
                }
            }
        });
        let object = json!({
            "apiVersion": "v1", "kind": "K", "metadata": {"nam": "x", "labels": {"a": 1}},
            "spec": {"mai": true, "may": "no"}
        });
        let mut found: Vec<_> = check(&with_object_fields(&schema), &object)
            .into_iter()
            .map(|finding| (finding.path, finding.about_key))
            .collect();
        found.sort();
        let expected = [
            ("metadata.labels.a", false),
            ("metadata.nam", true),
            ("spec.mai", true),
            ("spec.may", false),
            ("spec.must", false),
        ];
        assert_eq!(
            found,
            expected.map(|(path, about_key)| (path.to_owned(), about_key))
        );
    }
}
