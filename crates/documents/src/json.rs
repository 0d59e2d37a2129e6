//! The places in a text that is JSON.

use std::collections::HashMap;

use serde_json::Value;

use crate::{
    NotYaml, Position, Quotes,
    compose::keep_last,
    node::{Content, Field, Node},
    scalar::number,
};

/// How deep a text may nest, as for `serde_json`.
const MAX_DEPTH: usize = 128;

/// Reads a text that is known to be one value of JSON, and begins at `start`.
///
/// # Errors
/// A text or a number has no value in Rust, or it nests too deep.
pub(crate) fn node(text: &str, start: Position) -> Result<Node, NotYaml> {
    Reader {
        rest: text,
        at: start,
    }
    .value(0)
}

/// Gives whole numbers no fraction, as the API server does. In JSON a zero keeps its sign.
pub(crate) fn without_fractions(value: &mut Value) {
    match value {
        Value::Number(n) => {
            let is_negative_zero = |value: &f64| *value == 0.0 && value.is_sign_negative();
            let float = n.as_f64().filter(|_| !n.is_i64());
            let whole = float
                .filter(|value| !is_negative_zero(value))
                .and_then(number);
            if let Some(whole) = whole {
                *n = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_fractions),
        Value::Object(fields) => fields.values_mut().for_each(without_fractions),
        _ => {}
    }
}

struct Reader<'t> {
    rest: &'t str,
    at: Position,
}

impl<'t> Reader<'t> {
    fn value(&mut self, depth: usize) -> Result<Node, NotYaml> {
        self.skip_space();
        let at = self.at;
        if depth > MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} lists and objects are inside each other");
            return Err(NotYaml::at(at, message));
        }
        let content = match self.rest.bytes().next() {
            Some(b'{') => Content::Mapping(self.fields(depth)?),
            Some(b'[') => {
                let mut items = Vec::new();
                while self.is_followed_by(']') {
                    items.push(self.value(depth + 1)?);
                }
                Content::Sequence(items)
            }
            Some(b'"') => Content::Scalar {
                value: self.text()?.into(),
                quotes: Some(Quotes::Double),
                octal: None,
            },
            _ => {
                let end = self
                    .rest
                    .find(|c: char| c.is_ascii_whitespace() || ",]}".contains(c))
                    .unwrap_or(self.rest.len());
                let mut value: Value = read(self.take(end), at)?;
                without_fractions(&mut value);
                Content::Scalar {
                    value,
                    quotes: None,
                    octal: None,
                }
            }
        };
        Ok(Node { at, content })
    }

    fn fields(&mut self, depth: usize) -> Result<Vec<Field>, NotYaml> {
        let (mut fields, mut names) = (Vec::new(), HashMap::new());
        while self.is_followed_by('}') {
            self.skip_space();
            let at = self.at;
            let name = self.text()?;
            let first = names.get(&name).copied();
            names.entry(name.clone()).or_insert(at);
            self.skip_space();
            // The colon.
            self.take(1);
            fields.push(Field {
                name,
                at,
                first,
                value: self.value(depth + 1)?,
            });
        }
        if names.len() < fields.len() {
            keep_last(&mut fields);
        }
        Ok(fields)
    }

    /// Takes what stands before an entry: the bracket that opens the list, or a comma. False at
    /// the bracket that closes it, which it takes, too.
    fn is_followed_by(&mut self, close: char) -> bool {
        self.skip_space();
        let is_end = self.take(1).starts_with(close);
        if is_end {
            return false;
        }
        self.skip_space();
        if self.rest.starts_with(close) {
            self.take(1);
            return false;
        }
        !self.rest.is_empty()
    }

    fn text(&mut self) -> Result<String, NotYaml> {
        let at = self.at;
        let mut is_escaped = false;
        let end = self.rest.bytes().skip(1).position(|c| {
            let is_end = c == b'"' && !is_escaped;
            is_escaped = c == b'\\' && !is_escaped;
            is_end
        });
        let length = end.map_or(self.rest.len(), |end| end + 2);
        read(self.take(length), at)
    }

    fn skip_space(&mut self) {
        let rest = self.rest.trim_ascii_start();
        self.take(self.rest.len() - rest.len());
    }

    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        for c in taken.chars() {
            if c == '\n' {
                self.at.line += 1;
                self.at.column = 1;
            } else {
                self.at.column += 1;
            }
        }
        self.rest = rest;
        taken
    }
}

fn read<T: serde::de::DeserializeOwned>(text: &str, at: Position) -> Result<T, NotYaml> {
    serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        // The place in this part of the text says nothing to a reader.
        let message = message.split(" at line ").next().unwrap_or_default();
        NotYaml::at(at, message)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Document;
    use serde_json::json;

    const START: Position = Position { line: 1, column: 1 };

    #[test]
    fn json_is_its_value_and_the_place_of_each_field() {
        let text = "{\n\t\"a\" : [ 1500.0, {\"b\": \"x\\\"y \\ud83d\\ude00\"}, [], {} ],\n  \"c\": null, \"d\": -1.5e0 }";
        let document = Document::from(node(text, START).unwrap());
        assert_eq!(
            document.value,
            json!({"a": [1500, {"b": "x\"y \u{1f600}"}, [], {}], "c": null, "d": -1.5})
        );
        for (path, line, column) in [
            ("a", 2, 8),
            ("a[0]", 2, 10),
            ("a[1].b", 2, 24),
            ("c", 3, 8),
            ("d", 3, 19),
        ] {
            assert_eq!(
                document.position_of(path),
                Position { line, column },
                "{path}"
            );
        }
        assert_eq!(
            document.position_of_key("c"),
            Position { line: 3, column: 3 }
        );
    }

    #[test]
    fn a_key_that_is_there_twice_is_found() {
        let document = Document::from(node("{\"a\": 1,\n \"a\": 2}", START).ok().unwrap());
        assert_eq!(document.value, json!({"a": 2}));
        let found = document.repeated[0].in_file("f");
        assert!(
            found.starts_with("f:2:2: a: is there twice, first in line 1"),
            "{found}"
        );
    }

    #[test]
    fn whole_numbers_lose_their_fraction() {
        let mut value = json!([1500.0, 1e3, 1.5, 18_446_744_073_709_551_615_u64, -3, -0.0]);
        without_fractions(&mut value);
        assert_eq!(
            value,
            json!([1500, 1000, 1.5, 1.8446744073709552e19, -3, -0.0])
        );
    }
}
