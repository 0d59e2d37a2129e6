//! A table of what an API accepts and what it refuses, and whom to ask: the CEL rules of its
//! schema, in-process, and a real API server.
#![allow(dead_code, reason = "each test crate uses a part")]

use std::fmt::Display;

use kube::{Client, api::PostParams, core::Request};
use kube_cel::{ValidationError, Validator};
use serde::Deserialize;
use serde_json::Value;
use weft_testenv::wait::wait_until;

/// The table.
#[derive(Deserialize)]
pub struct Cases {
    pub accepted: Vec<Accepted>,
    pub refused: Vec<Refused>,
}

/// A specification that is accepted.
#[derive(Deserialize)]
pub struct Accepted {
    /// Where a table is about several kinds.
    #[serde(default)]
    pub kind: String,
    pub name: String,
    pub spec: Value,
}

/// A specification that is refused.
#[derive(Deserialize)]
pub struct Refused {
    #[serde(default)]
    pub kind: String,
    pub by: By,
    /// The field that the error is about. Of an admission policy's it is the whole object.
    #[serde(default)]
    pub field: String,
    /// A part of the message.
    pub message: String,
    pub spec: Value,
}

/// The part that refuses.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    Rule,
    Schema,
    Policy,
}

impl Refused {
    /// Fails unless the API server has said this of this field. A line each: field, value, message.
    #[track_caller]
    pub fn was_told(&self, error: &str) {
        let said = error
            .lines()
            .any(|line| line.contains(&self.field) && line.contains(&self.message));
        assert!(said, "{}: {error}", self.spec);
    }

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

/// Asks until there is an answer.
pub async fn eventually<T, E: Display>(ask: impl AsyncFn() -> Result<T, E>) -> T {
    wait_until("there is an answer", async || {
        ask().await.map_err(|error| error.to_string())
    })
    .await
}

/// Creates a cluster-scoped object, with strict field validation. Returns the API server's answer.
/// Nothing is made. A refusal has a line for each field.
pub async fn create(client: &Client, object: &Value) -> Result<(), String> {
    let text = |field: &str| object[field].as_str().unwrap();
    let kind = text("kind").to_lowercase();
    let plural = kind
        .strip_suffix('y')
        .map_or_else(|| format!("{kind}s"), |kind| format!("{kind}ies"));
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let request = Request::new(format!("/apis/{}/{plural}", text("apiVersion")));
    let mut request = request
        .create(&dry_run, object.to_string().into_bytes())
        .unwrap();
    *request.uri_mut() = format!("{}&fieldValidation=Strict", request.uri())
        .parse()
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            let causes: String = causes
                .map(|cause| format!("{}: {}\n", cause.field, cause.message))
                .collect();
            Err(if causes.is_empty() {
                status.message.clone()
            } else {
                causes
            })
        }
        Err(error) => panic!("{error}"),
    }
}
