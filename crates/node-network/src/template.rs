//! References in the texts of a desired state: `{{ capture.NAME.PATH }}`, `{{ node.name }}`,
//! `{{ node.labels["KEY"] }}`, `{{ node.annotations["KEY"] }}`, `{{ pool.NAME.ip }}` and
//! `{{ pool.NAME.prefix-length }}`.
//!
//! A reference to a capture has any type. The value of a label or an annotation is a text, which
//! nmstate reads as a number or boolean where it wants one.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;
use weft_api::node_network::NodeValues;
use weft_operands::text::is_label_key;

use crate::{
    capture::{Captures, resolve},
    expression::{self, ExpressionError},
    path::text,
};

/// The forms of a reference, for messages.
const FORMS: &str = "a reference is written {{ capture.NAME.PATH }}, {{ node.name }}, {{ node.labels[\"KEY\"] }}, {{ node.annotations[\"KEY\"] }}, {{ pool.NAME.ip }} or {{ pool.NAME.prefix-length }}. Render a template of another program first";

/// A reference that cannot be read or filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {error}")]
pub struct TemplateError {
    /// The field that holds the reference, for example `desiredState.interfaces[0].name`.
    pub path: String,
    /// The mistake in it.
    pub(crate) error: ExpressionError,
}

/// A value of a node that a desired state refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fact {
    /// The name of the node.
    Name,
    /// The value of the label with this key.
    Label(String),
    /// The value of the annotation with this key.
    Annotation(String),
    /// The address of the node in this pool.
    Ip(String),
    /// The length of the prefix of that address.
    PrefixLength(String),
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("node.name"),
            Self::Label(key) => write!(f, "node.labels[\"{key}\"]"),
            Self::Annotation(key) => write!(f, "node.annotations[\"{key}\"]"),
            Self::Ip(pool) => write!(f, "pool.{pool}.ip"),
            Self::PrefixLength(pool) => write!(f, "pool.{pool}.prefix-length"),
        }
    }
}

impl Fact {
    /// Reads the word between the braces. `None` if it is no reference to the node.
    fn parse(word: &str) -> Option<Self> {
        if let Some((pool, property)) = word
            .strip_prefix("pool.")
            .and_then(|rest| rest.split_once('.'))
        {
            return match property {
                _ if pool.is_empty() => None,
                "ip" => Some(Self::Ip(pool.to_owned())),
                "prefix-length" => Some(Self::PrefixLength(pool.to_owned())),
                _ => None,
            };
        }
        let rest = word.strip_prefix("node.")?;
        if rest == "name" {
            return Some(Self::Name);
        }
        let keyed = |list: &str| {
            let key = rest
                .strip_prefix(list)?
                .trim()
                .strip_prefix('[')?
                .strip_suffix(']')?
                .trim();
            // In a text of YAML with double quotes, single ones need no backslash.
            let key = ['"', '\'']
                .iter()
                .find_map(|quote| key.strip_prefix(*quote)?.strip_suffix(*quote))?;
            is_label_key(key).then(|| key.to_owned())
        };
        keyed("labels")
            .map(Self::Label)
            .or_else(|| keyed("annotations").map(Self::Annotation))
    }

    /// The value that was granted with the policy.
    fn of(&self, values: &NodeValues) -> Option<Value> {
        Some(match self {
            Self::Name => values.name.as_deref()?.into(),
            Self::Label(key) => values.labels.get(key)?.as_str().into(),
            Self::Annotation(key) => values.annotations.get(key)?.as_str().into(),
            Self::Ip(pool) => values.pools.get(pool)?.ip.as_str().into(),
            Self::PrefixLength(pool) => values.pools.get(pool)?.prefix_length.into(),
        })
    }

    /// The pool that is meant.
    pub(crate) fn pool(&self) -> Option<&str> {
        match self {
            Self::Ip(pool) | Self::PrefixLength(pool) => Some(pool),
            Self::Name | Self::Label(_) | Self::Annotation(_) => None,
        }
    }
}

/// A part of a text.
enum Piece<'a> {
    Text(&'a str),
    Capture(expression::Reference),
    /// A value of the node, and the position of the reference in the text.
    Fact(Fact, usize),
}

/// Reads a text with references. An error names the first mistake.
fn pieces(line: &str) -> Result<Vec<Piece<'_>>, ExpressionError> {
    let error = |message: &str, byte: usize| ExpressionError {
        message: message.to_owned(),
        line: line.to_owned(),
        position: line[..byte].chars().count(),
    };
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(start) = line[at..].find("{{").map(|start| at + start) {
        let inner = start + 2;
        let end = line[inner..]
            .find("}}")
            .map(|end| inner + end)
            .ok_or_else(|| error("the reference that begins here has no }}", start))?;
        let word = line[inner..end].trim();
        let place = inner + (line[inner..end].len() - line[inner..end].trim_start().len());
        let position = line[..place].chars().count();
        if start > at {
            found.push(Piece::Text(&line[at..start]));
        }
        let capture = expression::reference(word, position)
            .filter(|reference| reference.capture.is_some() && !reference.steps.is_empty());
        found.push(match (capture, Fact::parse(word)) {
            (Some(capture), _) => Piece::Capture(capture),
            (None, Some(fact)) => Piece::Fact(fact, position),
            (None, None) => return Err(error(FORMS, place)),
        });
        at = end + 2;
    }
    if at < line.len() {
        found.push(Piece::Text(&line[at..]));
    }
    Ok(found)
}

/// Calls `visit` with each text that has references, and its field.
fn each_text(path: &str, value: &Value, visit: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(line) if line.contains("{{") => visit(path, line.trim()),
        Value::Array(list) => list.iter().enumerate().for_each(|(index, value)| {
            each_text(&format!("{path}[{index}]"), value, visit);
        }),
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| each_text(&format!("{path}.{key}"), value, visit)),
        _ => {}
    }
}

/// Returns the mistakes in references, as far as they need no node: forms that do not exist, and
/// captures and pools that the policy does not have.
pub(crate) fn mistakes<P>(
    desired: &Value,
    rules: &BTreeMap<String, String>,
    pools: &BTreeMap<String, P>,
) -> Vec<TemplateError> {
    let mut found = Vec::new();
    each_text("desiredState", desired, &mut |path, line| {
        let failed = |error| TemplateError {
            path: path.to_owned(),
            error,
        };
        match pieces(line) {
            Err(error) => found.push(failed(error)),
            Ok(pieces) => found.extend(pieces.iter().filter_map(|piece| match piece {
                // Without what a capture finds, the rest of a reference cannot be judged.
                Piece::Capture(reference) => no_capture(reference, rules, line).map(failed),
                Piece::Fact(fact, position) => {
                    let pool = fact.pool().filter(|pool| !pools.contains_key(*pool))?;
                    Some(failed(ExpressionError {
                        message: format!("there is no pool {pool} in spec.addressPools: add it"),
                        line: line.to_owned(),
                        position: *position,
                    }))
                }
                Piece::Text(_) => None,
            })),
        }
    });
    found
}

fn no_capture<T>(
    reference: &expression::Reference,
    captures: &BTreeMap<String, T>,
    line: &str,
) -> Option<ExpressionError> {
    let name = reference.capture.clone().unwrap_or_default();
    (!captures.contains_key(&name)).then(|| ExpressionError {
        message: format!("there is no capture {name}"),
        line: line.to_owned(),
        position: reference.position,
    })
}

/// Returns the values of the node that a desired state refers to, each with the first field that
/// does so.
pub(crate) fn facts(desired: &Value) -> BTreeMap<Fact, String> {
    let mut found = BTreeMap::new();
    each_text("desiredState", desired, &mut |path, line| {
        for piece in pieces(line).into_iter().flatten() {
            if let Piece::Fact(fact, _) = piece {
                found.entry(fact).or_insert_with(|| path.to_owned());
            }
        }
    });
    found
}

/// Returns the desired state with the values in place of the references.
///
/// # Errors
/// A reference cannot be read, or leads nowhere.
pub fn fill(
    desired: &Value,
    captures: &Captures,
    values: &NodeValues,
) -> Result<Value, TemplateError> {
    fill_at("desiredState", desired, captures, values)
}

fn fill_at(
    path: &str,
    value: &Value,
    captures: &Captures,
    values: &NodeValues,
) -> Result<Value, TemplateError> {
    Ok(match value {
        Value::String(line) if line.contains("{{") => fill_text(line.trim(), captures, values)
            .map_err(|error| TemplateError {
                path: path.to_owned(),
                error,
            })?,
        Value::Array(list) => {
            let filled = list.iter().enumerate().map(|(index, value)| {
                fill_at(&format!("{path}[{index}]"), value, captures, values)
            });
            Value::Array(filled.collect::<Result<_, _>>()?)
        }
        Value::Object(map) => {
            let filled = map.iter().map(|(key, value)| {
                Ok((
                    key.clone(),
                    fill_at(&format!("{path}.{key}"), value, captures, values)?,
                ))
            });
            Value::Object(filled.collect::<Result<_, TemplateError>>()?)
        }
        other => other.clone(),
    })
}

/// A text that is one reference becomes its value, of any type. Within other text only scalars have
/// a place.
fn fill_text(
    line: &str,
    captures: &Captures,
    values: &NodeValues,
) -> Result<Value, ExpressionError> {
    let pieces = pieces(line)?;
    let is_alone = pieces.len() == 1;
    let mut filled = String::new();
    for piece in pieces {
        let (value, position) = match piece {
            Piece::Text(text) => {
                filled.push_str(text);
                continue;
            }
            Piece::Fact(fact, position) => (of_node(&fact, position, values, line)?, position),
            Piece::Capture(reference) => {
                if let Some(error) = no_capture(&reference, captures, line) {
                    return Err(error);
                }
                let name = reference.capture.as_deref().unwrap_or_default();
                (
                    resolve(&captures[name], &reference, line)?,
                    reference.position,
                )
            }
        };
        if is_alone {
            return Ok(value);
        }
        if value.is_array() || value.is_object() {
            return Err(ExpressionError {
                message: "this is no text or number, so it must be the whole value: remove the text next to it".to_owned(),
                line: line.to_owned(),
                position,
            });
        }
        filled.push_str(&text(&value));
    }
    Ok(Value::String(filled))
}

fn of_node(
    fact: &Fact,
    position: usize,
    values: &NodeValues,
    line: &str,
) -> Result<Value, ExpressionError> {
    fact.of(values).ok_or_else(|| ExpressionError {
        message: format!("{fact} is not known here: the operator of a cluster grants its value with the policy. Without a cluster, write the value in place of the reference"),
        line: line.to_owned(),
        position,
    })
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
