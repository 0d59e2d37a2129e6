//! `spec.capture`: parts of the node's state, found by expressions. [`crate::template`] puts them in
//! place.
//!
//! nmstate can do this too, but only where it is linked with all that touches a host. Here it can
//! be planned from anywhere.

use crate::{
    expression::{Action, Expression, ExpressionError, Operand, Reference},
    path::{entries, text},
    schema,
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The captured parts, by name, each in the form of a state.
pub type Captures = BTreeMap<String, Value>;

/// A capture that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// An expression, or what it looks for on the node.
    #[error("spec.capture.{name}: {error}")]
    Expression {
        /// The capture.
        name: String,
        /// The mistake in it.
        error: ExpressionError,
    },
    /// Captures that need each other.
    #[error("spec.capture: {0} need each other, so none of them can be first")]
    Circle(String),
}

/// Carries out captures on the state of a node.
pub fn execute(
    rules: &BTreeMap<String, String>,
    current: &Value,
) -> Result<Captures, CaptureError> {
    let failed = |name: &str, error| CaptureError::Expression {
        name: name.to_owned(),
        error,
    };
    let mut open = BTreeMap::new();
    for (name, rule) in rules {
        open.insert(
            name.as_str(),
            Expression::parse(rule).map_err(|error| failed(name, error))?,
        );
    }
    for (name, expression) in &open {
        if let Some((missing, position)) = expression
            .needs()
            .find(|(needed, _)| !rules.contains_key(*needed))
        {
            let error = ExpressionError {
                message: format!("there is no capture {missing}"),
                line: expression.line.clone(),
                position,
            };
            return Err(failed(name, error));
        }
    }
    let mut captures = Captures::new();
    while !open.is_empty() {
        let ready = |expression: &Expression| {
            expression
                .needs()
                .all(|(needed, _)| captures.contains_key(needed))
        };
        let Some(name) = open
            .iter()
            .find(|(_, expression)| ready(expression))
            .map(|(name, _)| *name)
        else {
            return Err(CaptureError::Circle(
                open.keys()
                    .map(|name| format!("capture.{name}"))
                    .collect::<Vec<_>>()
                    .join(", "),
            ));
        };
        let Some(expression) = open.remove(name) else {
            break;
        };
        let captured =
            evaluate(&expression, current, &captures).map_err(|error| failed(name, error))?;
        captures.insert(name.to_owned(), captured);
    }
    Ok(captures)
}

/// Finds mistakes in captures, as far as that can be said without a node: captures that are not
/// there or need each other. Rules that cannot be read are left out.
pub(crate) fn mistakes(rules: &BTreeMap<String, String>) -> Vec<CaptureError> {
    let parsed: BTreeMap<&str, Expression> = rules
        .iter()
        .filter_map(|(name, rule)| Some((name.as_str(), Expression::parse(rule).ok()?)))
        .collect();
    let mut found = Vec::new();
    for (name, expression) in &parsed {
        for (missing, position) in expression
            .needs()
            .filter(|(needed, _)| !rules.contains_key(*needed))
        {
            let error = ExpressionError {
                message: format!("there is no capture {missing}"),
                line: expression.line.clone(),
                position,
            };
            found.push(CaptureError::Expression {
                name: (*name).to_owned(),
                error,
            });
        }
    }
    let mut open = parsed;
    loop {
        let before = open.len();
        let names: Vec<&str> = open.keys().copied().collect();
        open.retain(|_, expression| {
            expression
                .needs()
                .any(|(needed, _)| names.contains(&needed))
        });
        if open.len() == before {
            break;
        }
    }
    if !open.is_empty() {
        found.push(CaptureError::Circle(
            open.keys()
                .map(|name| format!("capture.{name}"))
                .collect::<Vec<_>>()
                .join(", "),
        ));
    }
    found
}

/// Earlier results of captures. The same rules return the same, unless the relevant parts of the
/// node have changed.
fn evaluate(
    expression: &Expression,
    current: &Value,
    captures: &Captures,
) -> Result<Value, ExpressionError> {
    let Expression { line, path, action } = expression;
    let empty = Value::Null;
    let input = path
        .capture
        .as_ref()
        .map_or(current, |name| captures.get(name).unwrap_or(&empty));
    let operand = |operand: &Operand| match operand {
        Operand::Text(value) => Ok(Some(value.clone())),
        Operand::Null => Ok(None),
        Operand::Reference(reference) => {
            let source = reference
                .capture
                .as_ref()
                .map_or(current, |name| captures.get(name).unwrap_or(&empty));
            resolve(source, reference, line).map(|value| Some(text(&value)))
        }
    };
    match action {
        Action::Keep => Ok(keep(input, &path.steps)),
        Action::Equal(value) => {
            let wanted = operand(value)?;
            filter(input, path, line, wanted.as_deref(), true)
        }
        Action::NotEqual(value) => {
            let wanted = operand(value)?;
            filter(input, path, line, wanted.as_deref(), false)
        }
        Action::Assign(value) => {
            let value = operand(value)?;
            let (list, property) = list_of(path, line)?;
            let mut changed: Vec<Value> = entries(at(input, list)).to_vec();
            let failed = |message| ExpressionError {
                message,
                line: line.clone(),
                position: path.position,
            };
            for entry in &mut changed {
                assign(entry, property, value.clone().map(Value::from)).map_err(failed)?;
                if value.is_some() {
                    let read = read(list, entry, property).map_err(failed)?;
                    assign(entry, property, Some(read)).map_err(failed)?;
                }
            }
            Ok(nest(list, Value::Array(changed)))
        }
    }
}

/// The list that a path leads through, and the rest of the path.
fn list_of<'a>(
    path: &'a Reference,
    line: &str,
) -> Result<(&'a [String], &'a [String]), ExpressionError> {
    let error = |message: &str| {
        Err(ExpressionError {
            message: message.to_owned(),
            line: line.to_owned(),
            position: path.position,
        })
    };
    let steps = path.steps.as_slice();
    let length = match steps.first().map(String::as_str) {
        Some("interfaces") => 1,
        Some("routes")
            if matches!(steps.get(1).map(String::as_str), Some("running" | "config")) =>
        {
            2
        }
        Some("route-rules") if steps.get(1).is_some_and(|list| list == "config") => 2,
        Some("routes") => return error("routes are looked for in routes.running or routes.config"),
        Some("route-rules") => return error("routing rules are looked for in route-rules.config"),
        _ => {
            return error(
                "only interfaces, routes.running, routes.config and route-rules.config have entries to look for",
            );
        }
    };
    if steps.len() <= length {
        return error(
            "the path names a list; add the property to compare, such as interfaces.name",
        );
    }
    Ok(steps.split_at(length))
}

fn at<'a>(value: &'a Value, steps: &[String]) -> &'a Value {
    steps
        .iter()
        .fold(value, |value, step| &value[step.as_str()])
}

fn nest(steps: &[String], value: Value) -> Value {
    steps.iter().rev().fold(value, |value, step| {
        Value::Object(Map::from_iter([(step.clone(), value)]))
    })
}

fn filter(
    input: &Value,
    path: &Reference,
    line: &str,
    wanted: Option<&str>,
    equal: bool,
) -> Result<Value, ExpressionError> {
    let (list, property) = list_of(path, line)?;
    let wanted = wanted.unwrap_or_default();
    let matches = |entry: &&Value| {
        values(entry, property)
            .is_some_and(|found| found.iter().any(|value| value == wanted) == equal)
    };
    let found: Vec<Value> = entries(at(input, list))
        .iter()
        .filter(matches)
        .cloned()
        .collect();
    if found.is_empty() {
        let (what, operator) = (list.join("."), if equal { "==" } else { "!=" });
        let message = format!(
            "nothing in {what} has {}{operator}{wanted}",
            property.join(".")
        );
        return Err(ExpressionError {
            message,
            line: line.to_owned(),
            position: path.position,
        });
    }
    Ok(nest(list, Value::Array(found)))
}

/// All values at a path, through lists. `None` if the path leads nowhere.
fn values(entry: &Value, steps: &[String]) -> Option<Vec<String>> {
    let Some((step, rest)) = steps.split_first() else {
        return match entry {
            Value::Null => None,
            Value::Array(list) => Some(list.iter().map(text).collect()),
            other => Some(vec![text(other)]),
        };
    };
    match entry {
        Value::Object(map) => values(map.get(step)?, rest),
        Value::Array(list) => match step.parse::<usize>() {
            Ok(index) => values(list.get(index)?, rest),
            Err(_) => {
                let found: Vec<_> = list
                    .iter()
                    .filter_map(|entry| values(entry, steps))
                    .flatten()
                    .collect();
                (!found.is_empty()).then_some(found)
            }
        },
        _ => None,
    }
}

/// Only what the path leads to. Lists stay whole.
fn keep(value: &Value, steps: &[String]) -> Value {
    match (value, steps.split_first()) {
        (Value::Object(map), Some((step, rest))) => Value::Object(
            map.iter()
                .filter(|(key, _)| *key == step)
                .map(|(key, value)| (key.clone(), keep(value, rest)))
                .collect(),
        ),
        _ => value.clone(),
    }
}

/// A property as nmstate reads it: which texts are numbers or booleans, it knows by the property.
fn read(list: &[String], entry: &Value, property: &[String]) -> Result<Value, String> {
    let name = property.join(".");
    let mistakes = schema::mistakes(&nest(list, Value::Array(vec![entry.clone()])));
    let mistake = mistakes
        .iter()
        .map(ToString::to_string)
        .find_map(|mistake| Some(mistake.split_once(&format!(".{name}: "))?.1.to_owned()));
    match mistake {
        Some(message) => Err(format!("{name}: {message}")),
        None => Ok(at(&schema::typed(list, entry), property).clone()),
    }
}

fn assign(entry: &mut Value, steps: &[String], value: Option<Value>) -> Result<(), String> {
    let Some((step, rest)) = steps.split_first() else {
        return Ok(());
    };
    let Some(map) = entry.as_object_mut() else {
        return Err(format!(
            "{step} cannot be set: what stands above it is no object"
        ));
    };
    match value {
        _ if !rest.is_empty() => assign(
            map.entry(step.clone())
                .or_insert_with(|| Value::Object(Map::new())),
            rest,
            value,
        )?,
        // nmstate leaves out what is nothing.
        None => {
            map.remove(step);
        }
        Some(value) => {
            map.insert(step.clone(), value);
        }
    }
    Ok(())
}

/// The value that a path leads to. In lists by index.
pub(crate) fn resolve(
    source: &Value,
    reference: &Reference,
    line: &str,
) -> Result<Value, ExpressionError> {
    let mut position = reference.position
        + reference
            .capture
            .as_ref()
            .map_or(0, |name| "capture..".len() + name.chars().count());
    let mut value = source;
    for (index, step) in reference.steps.iter().enumerate() {
        let next = match value {
            Value::Object(map) => map.get(step),
            Value::Array(list) => match step.parse::<usize>() {
                Ok(index) => list.get(index),
                // A property of all entries.
                Err(_) => {
                    let rest = &reference.steps[index..];
                    let all: Vec<Value> = list
                        .iter()
                        .filter_map(|entry| resolve_all(entry, rest))
                        .collect();
                    return Ok(Value::Array(all));
                }
            },
            _ => None,
        };
        value = next.ok_or_else(|| ExpressionError {
            message: missing(value, step),
            line: line.to_owned(),
            position,
        })?;
        position += step.chars().count() + 1;
    }
    Ok(value.clone())
}

fn resolve_all(entry: &Value, steps: &[String]) -> Option<Value> {
    steps
        .iter()
        .try_fold(entry, |value, step| match value {
            Value::Array(list) => list.get(step.parse::<usize>().ok()?),
            other => other.get(step),
        })
        .cloned()
}

fn missing(value: &Value, step: &str) -> String {
    match value {
        Value::Object(map) => format!(
            "there is no {step} here, but {}",
            map.keys().cloned().collect::<Vec<_>>().join(", ")
        ),
        Value::Array(list) => format!(
            "there is no entry {step} here, but {} of them, from 0",
            list.len()
        ),
        other => format!("there is nothing below {other}"),
    }
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
