//! YAML documents that remember where each of their fields stands, so that an error can point at
//! it.

use std::{collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Options, Spanned};

/// A line and a column of a file, both counted from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u64,
    pub column: u64,
}

impl From<Location> for Position {
    fn from(location: Location) -> Self {
        Self {
            line: location.line(),
            column: location.column(),
        }
    }
}

/// One document of a file.
#[derive(Debug)]
pub struct Document {
    /// The content of the document.
    pub value: Value,
    positions: HashMap<String, Place>,
}

/// Where a field stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its name. For an entry of a list, the entry.
    key: Position,
    value: Position,
}

impl Document {
    /// Where the value at a path such as `spec.tolerations[0].key` stands. A path that the document
    /// does not have leads to the innermost part of it that is there.
    pub fn position_of(&self, path: &str) -> Position {
        self.nearest(path).value
    }

    /// Where the field's name stands: what is wrong is the name, or that it is there at all.
    pub fn position_of_key(&self, path: &str) -> Position {
        self.nearest(path).key
    }

    fn nearest(&self, path: &str) -> Place {
        let mut path = path;
        loop {
            if let Some(place) = self.positions.get(path) {
                return *place;
            }
            // The root, with the empty path, is always there: every document has a place for it.
            path = path.rfind(['.', '[']).map_or("", |end| &path[..end]);
        }
    }
}

/// The mistake in a text that is not YAML.
#[derive(Debug, PartialEq, Eq)]
pub struct NotYaml {
    /// Where, if the parser knows.
    pub position: Option<Position>,
    /// The message of the parser, without the position.
    pub message: String,
}

/// Reads all documents of a text. Empty ones are left out, and of a list, as `kubectl get -o yaml`
/// writes it, each entry is one.
///
/// # Errors
/// The text is not YAML, or a mapping has the same key twice.
pub fn parse(text: &str) -> Result<Vec<Document>, NotYaml> {
    Ok(nodes(text)?.into_iter().flat_map(documents).collect())
}

/// Reads the objects of a text as [`parse`] does, but not where their fields stand. JSON is read as
/// JSON, which is faster.
///
/// # Errors
/// As [`parse`].
pub fn objects(text: &str) -> Result<Vec<Value>, NotYaml> {
    if text.trim_start().starts_with('{')
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok(entries(value));
    }
    let plain = |node: Spanned<Node>| entries(node.value.into_value());
    Ok(nodes(text)?.into_iter().flat_map(plain).collect())
}

/// The limits of the parser. A user's own file may have any number of documents and fields. Limits
/// on depth and on aliases stay, because a small file could use them to fill the memory.
fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
        },
    }
}

fn nodes(text: &str) -> Result<Vec<Spanned<Node>>, NotYaml> {
    serde_saphyr::from_multiple_with_options(text, options()).map_err(|error| {
        let position = error.location().map(Position::from);
        let message = match error.without_snippet() {
            serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } => {
                format!("the key {key:?} is there twice: remove one of them")
            }
            // The parser's own text ends with the position, which Weft prints separately.
            other => other
                .to_string()
                .split(" at line ")
                .next()
                .unwrap_or_default()
                .to_owned(),
        };
        NotYaml { position, message }
    })
}

/// The documents that a node is: one for each entry of a list, or itself.
fn documents(mut root: Spanned<Node>) -> Vec<Document> {
    match root.value.take_entries() {
        Some(entries) => entries.into_iter().map(Document::from).collect(),
        None => vec![Document::from(root)],
    }
}

/// The entries of a list, or the object itself.
fn entries(mut object: Value) -> Vec<Value> {
    let is_list = object["kind"].as_str().is_some_and(is_kind_of_list);
    match object.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items,
        Some(items) => {
            object["items"] = items;
            vec![object]
        }
        None => vec![object],
    }
}

fn is_kind_of_list(kind: &str) -> bool {
    kind.ends_with("List")
}

impl From<Spanned<Node>> for Document {
    fn from(root: Spanned<Node>) -> Self {
        let start = Position::from(root.referenced);
        let mut positions = HashMap::from([(
            String::new(),
            Place {
                key: start,
                value: start,
            },
        )]);
        let value = root.value.resolve("", &mut positions);
        Self { value, positions }
    }
}

/// A YAML node whose children know where they stand.
enum Node {
    Scalar(Value),
    Sequence(Vec<Spanned<Node>>),
    Mapping(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl Node {
    /// Takes the entries out of a list, as `kubectl get -o yaml` writes it. `None` if this is not
    /// one.
    fn take_entries(&mut self) -> Option<Vec<Spanned<Node>>> {
        let Node::Mapping(fields) = self else {
            return None;
        };
        let is_list = fields.iter().any(|(key, field)| {
            let is_kind = |kind: &Value| kind.as_str().is_some_and(is_kind_of_list);
            key.value == "kind" && matches!(&field.value, Node::Scalar(kind) if is_kind(kind))
        });
        let items = fields
            .iter_mut()
            .find(|(key, _)| is_list && key.value == "items");
        match items {
            Some((_, field)) => match &mut field.value {
                Node::Sequence(entries) => Some(std::mem::take(entries)),
                _ => None,
            },
            None => None,
        }
    }

    /// The value, without places.
    fn into_value(self) -> Value {
        match self {
            Node::Scalar(value) => value,
            Node::Sequence(items) => items
                .into_iter()
                .map(|item| item.value.into_value())
                .collect(),
            Node::Mapping(entries) => Value::Object(
                entries
                    .into_iter()
                    .map(|(key, item)| (key.value, item.value.into_value()))
                    .collect(),
            ),
        }
    }

    fn resolve(self, path: &str, positions: &mut HashMap<String, Place>) -> Value {
        match self {
            Node::Scalar(value) => value,
            Node::Sequence(items) => items
                .into_iter()
                .enumerate()
                .map(|(index, item)| {
                    let path = format!("{path}[{index}]");
                    let place = Position::from(item.referenced);
                    positions.insert(
                        path.clone(),
                        Place {
                            key: place,
                            value: place,
                        },
                    );
                    item.value.resolve(&path, positions)
                })
                .collect(),
            Node::Mapping(entries) => Value::Object(
                entries
                    .into_iter()
                    .map(|(key, item)| {
                        let path = join(path, &key.value);
                        positions.insert(
                            path.clone(),
                            Place {
                                key: key.referenced.into(),
                                value: item.referenced.into(),
                            },
                        );
                        (key.value, item.value.resolve(&path, positions))
                    })
                    .collect::<Map<_, _>>(),
            ),
        }
    }
}

/// The path of a field inside the object at `path`.
pub fn join(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        let number = Number::from_f64(value)
            .ok_or_else(|| E::custom(format!("{value} is not a number that JSON knows")))?;
        Ok(Node::Scalar(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::Sequence(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries: Vec<(Spanned<String>, Spanned<Node>)> = Vec::new();
        while let Some((key, value)) = access.next_entry::<Spanned<String>, Spanned<Node>>()? {
            entries.push((key, value));
        }
        Ok(Node::Mapping(entries))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    const TEXT: &str = "\
# a comment
apiVersion: v1
spec:
  list:
    - a: 1
    - {b: yes please, c: [2.5, null]}
  text: |
    two
    lines
---
second: true
";

    fn at(line: u64, column: u64) -> Position {
        Position { line, column }
    }

    #[test]
    fn a_document_is_its_value_and_the_place_of_each_field() {
        let documents = parse(TEXT).unwrap();
        assert_eq!(documents.len(), 2);
        let first = &documents[0];
        assert_eq!(
            first.value,
            json!({
                "apiVersion": "v1",
                "spec": {
                    "list": [{"a": 1}, {"b": "yes please", "c": [2.5, null]}],
                    "text": "two\nlines\n"
                }
            })
        );
        assert_eq!(first.position_of("apiVersion"), at(2, 13));
        assert_eq!(first.position_of_key("apiVersion"), at(2, 1));
        assert_eq!(first.position_of("spec.list[0].a"), at(5, 10));
        assert_eq!(first.position_of_key("spec.list[1].c"), at(6, 23));
        assert_eq!(first.position_of("spec.list[1].c[1]"), at(6, 32));
        assert_eq!(documents[1].position_of("second"), at(11, 9));
    }

    #[test]
    fn a_path_that_is_not_there_leads_to_the_nearest_part_that_is() {
        let documents = parse(TEXT).unwrap();
        assert_eq!(
            documents[0].position_of("spec.list[0].missing.deeper"),
            documents[0].position_of("spec.list[0]")
        );
        assert_eq!(
            documents[0].position_of("nowhere"),
            documents[0].position_of("")
        );
    }

    #[test]
    fn each_entry_of_a_list_is_a_document() {
        let documents =
            parse("apiVersion: v1\nkind: List\nitems:\n- kind: A\n  spec:\n    b: [1, 2]\n- {kind: C}\n---\nkind: D\nitems: [1]\n")
                .unwrap();
        let values: Vec<_> = documents.iter().map(|document| &document.value).collect();
        assert_eq!(
            values,
            [
                &json!({"kind": "A", "spec": {"b": [1, 2]}}),
                &json!({"kind": "C"}),
                &json!({"kind": "D", "items": [1]})
            ]
        );
        assert_eq!(
            (
                documents[0].position_of("spec.b[1]"),
                documents[0].position_of("")
            ),
            (at(6, 12), at(4, 3))
        );
        assert_eq!(documents[1].position_of("kind"), at(7, 10));
    }

    #[test]
    fn anchors_point_at_where_they_are_used() {
        let documents = parse("a: &x {k: 1}\nb: *x\nc:\n  <<: *x\n  d: 2\n").unwrap();
        assert_eq!(
            documents[0].value,
            json!({"a": {"k": 1}, "b": {"k": 1}, "c": {"k": 1, "d": 2}})
        );
        assert_eq!(documents[0].position_of("b"), at(2, 4));
    }

    #[test]
    fn an_error_in_yaml_has_its_position() {
        for (text, line) in [
            ("a: 1\nb: [1,\nc: 2\n", 2),
            ("a: 1\na: 2\n", 2),
            ("x:\n  k: 1\n  l: 2\n  k: 3\n", 4),
            ("a: 1\n\tb: 2\n", 1),
            ("a: 'x\n", 2),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(
                error.position.map(|p| p.line),
                Some(line),
                "{text:?}: {error:?}"
            );
            assert!(
                !error.message.is_empty() && !error.message.contains("at line"),
                "{error:?}"
            );
        }
    }
}
