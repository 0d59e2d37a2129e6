//! `spec.capture` and `{{ capture.NAME.PATH }}` in a desired state: parts of the node's state,
//! found by expressions and put in place.
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
pub(crate) type Captures = BTreeMap<String, Value>;

/// A capture or a reference to one that cannot be carried out.
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
    /// A reference in the desired state.
    #[error("{path}: {error}")]
    Reference {
        /// Place of the reference.
        path: String,
        /// The mistake in it.
        error: ExpressionError,
    },
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

/// Finds mistakes in captures and in the references to them, as far as that can be said without a
/// node: captures that are not there or need each other. Rules that cannot be read are left out.
pub(crate) fn mistakes(rules: &BTreeMap<String, String>, desired: &Value) -> Vec<CaptureError> {
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
    references("desiredState", desired, rules, &mut found);
    found
}

fn references(
    path: &str,
    value: &Value,
    rules: &BTreeMap<String, String>,
    found: &mut Vec<CaptureError>,
) {
    match value {
        // Without what a capture finds, a reference fails at its name or cannot be judged.
        Value::String(line) if line.contains("{{") => {
            for (start, _) in line.match_indices("{{") {
                let inner = &line[start + 2..];
                let word = inner.split("}}").next().unwrap_or_default().trim();
                let name =
                    crate::expression::reference(word, 0).and_then(|reference| reference.capture);
                if let Some(name) = name.filter(|name| !rules.contains_key(name)) {
                    let position = line[..start].chars().count() + 2;
                    let error = ExpressionError {
                        message: format!("there is no capture {name}"),
                        line: line.clone(),
                        position,
                    };
                    found.push(CaptureError::Reference {
                        path: path.to_owned(),
                        error,
                    });
                }
            }
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, value)| {
                references(&format!("{path}[{index}]"), value, rules, found)
            });
        }
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| references(&format!("{path}.{key}"), value, rules, found)),
        _ => {}
    }
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
        return Some(match entry {
            Value::Array(list) => list.iter().map(text).collect(),
            other => vec![text(other)],
        });
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
fn resolve(source: &Value, reference: &Reference, line: &str) -> Result<Value, ExpressionError> {
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

/// The desired state with what the captures found in place of each reference.
pub fn fill(desired: &Value, captures: &Captures) -> Result<Value, CaptureError> {
    fill_at("desiredState", desired, captures)
}

fn fill_at(path: &str, value: &Value, captures: &Captures) -> Result<Value, CaptureError> {
    Ok(match value {
        Value::String(text) if text.contains("{{") => {
            fill_text(text.trim(), captures).map_err(|error| CaptureError::Reference {
                path: path.to_owned(),
                error,
            })?
        }
        Value::Array(list) => {
            let filled = list
                .iter()
                .enumerate()
                .map(|(index, value)| fill_at(&format!("{path}[{index}]"), value, captures));
            Value::Array(filled.collect::<Result<_, _>>()?)
        }
        Value::Object(map) => {
            let filled = map.iter().map(|(key, value)| {
                Ok((
                    key.clone(),
                    fill_at(&format!("{path}.{key}"), value, captures)?,
                ))
            });
            Value::Object(filled.collect::<Result<_, CaptureError>>()?)
        }
        other => other.clone(),
    })
}

/// A text that is one reference becomes what it refers to, of any type. Within other text only
/// scalars have a place.
fn fill_text(line: &str, captures: &Captures) -> Result<Value, ExpressionError> {
    let error = |message: String, byte: usize| ExpressionError {
        message,
        line: line.to_owned(),
        position: line[..byte].chars().count(),
    };
    let mut filled = String::new();
    let mut at = 0;
    while let Some(start) = line[at..].find("{{").map(|start| at + start) {
        let inner = start + 2;
        let end = line[inner..]
            .find("}}")
            .map(|end| inner + end)
            .ok_or_else(|| error("the reference that begins here has no }}".to_owned(), start))?;
        let word = line[inner..end].trim();
        let place = inner + (line[inner..end].len() - line[inner..end].trim_start().len());
        let position = line[..place].chars().count();
        let reference = crate::expression::reference(word, position)
            .filter(|reference| reference.capture.is_some() && !reference.steps.is_empty())
            .ok_or_else(|| {
                error(
                    "a reference is written {{ capture.NAME.PATH }}".to_owned(),
                    place,
                )
            })?;
        let source = reference
            .capture
            .as_ref()
            .and_then(|name| captures.get(name));
        let source = source.ok_or_else(|| {
            error(
                format!(
                    "there is no capture {}",
                    reference.capture.clone().unwrap_or_default()
                ),
                place,
            )
        })?;
        let value = resolve(source, &reference, line)?;
        if start == 0 && end + 2 == line.len() {
            return Ok(value);
        }
        if value.is_array() || value.is_object() {
            return Err(error(
                "this is no text or number, so nothing can stand beside it".to_owned(),
                place,
            ));
        }
        filled.push_str(&line[at..start]);
        filled.push_str(&text(&value));
        at = end + 2;
    }
    filled.push_str(&line[at..]);
    Ok(Value::String(filled))
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
