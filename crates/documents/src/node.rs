//! The tree of a document whose parts know where they stand.

use std::collections::HashMap;

use serde_json::Value;

use crate::{Document, NotYaml, Note, Place, Position, Quotes, Repeated, join};

/// A value and its place.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) content: Content,
}

#[derive(Clone)]
pub(crate) enum Content {
    Scalar {
        value: Value,
        /// The way in which a text is written. `None` for other values, and for an alias.
        quotes: Option<Quotes>,
        /// The number as it is written, if it is octal and looks decimal.
        octal: Option<String>,
    },
    Sequence(Vec<Node>),
    Mapping(Vec<Field>),
}

#[derive(Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) at: Position,
    /// The place of the first field of the same name in the object, if it has several.
    pub(crate) first: Option<Position>,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar { value, .. } if value.is_null())
    }

    /// The same, this many lines further down.
    pub(crate) fn below(mut self, lines: u64) -> Self {
        if lines > 0 {
            self.move_down(lines);
        }
        self
    }

    fn move_down(&mut self, lines: u64) {
        self.at.line += lines;
        match &mut self.content {
            Content::Scalar { .. } => {}
            Content::Sequence(items) => items.iter_mut().for_each(|item| item.move_down(lines)),
            Content::Mapping(fields) => {
                for field in fields {
                    field.at.line += lines;
                    if let Some(first) = &mut field.first {
                        first.line += lines;
                    }
                    field.value.move_down(lines);
                }
            }
        }
    }

    /// The number of values in it, itself included.
    pub(crate) fn size(&self) -> usize {
        1 + match &self.content {
            Content::Scalar { .. } => 0,
            Content::Sequence(items) => items.iter().map(Self::size).sum(),
            Content::Mapping(fields) => fields.iter().map(|field| field.value.size()).sum(),
        }
    }

    /// Takes the entries out of a list, as `kubectl get -o yaml` writes it. `None` if this is not
    /// one.
    ///
    /// # Errors
    /// The list has several fields with entries. No document would have a place for this mistake.
    pub(crate) fn take_entries(&mut self) -> Result<Option<Vec<Self>>, NotYaml> {
        let Content::Mapping(fields) = &mut self.content else {
            return Ok(None);
        };
        let is_list = fields.iter().any(|field| {
            field.name == "kind"
                && matches!(&field.value.content, Content::Scalar { value: Value::String(kind), .. }
                    if kind.ends_with("List"))
        });
        let mut fields = fields.iter_mut();
        let Some(items) = fields.find(|field| is_list && field.name == "items") else {
            return Ok(None);
        };
        if items.first.is_some() {
            let message = "the key \"items\" is there twice: remove one of them";
            return Err(NotYaml::at(items.at, message));
        }
        Ok(match &mut items.value.content {
            Content::Sequence(entries) => Some(std::mem::take(entries)),
            _ => None,
        })
    }

    /// The value, without places.
    pub(crate) fn into_value(self) -> Value {
        match self.content {
            Content::Scalar { value, .. } => value,
            Content::Sequence(items) => items.into_iter().map(Self::into_value).collect(),
            Content::Mapping(fields) => Value::Object(
                fields
                    .into_iter()
                    .map(|field| (field.name, field.value.into_value()))
                    .collect(),
            ),
        }
    }
}

impl From<Node> for Document {
    fn from(root: Node) -> Self {
        let mut places = Places::default();
        let value = places.take(String::new(), root.at, root);
        Self {
            value,
            positions: places.positions,
            notes: places.notes,
            repeated: places.repeated,
        }
    }
}

#[derive(Default)]
struct Places {
    positions: HashMap<String, Place>,
    notes: Vec<Note>,
    repeated: Vec<Repeated>,
}

impl Places {
    /// Notes the place of everything in a node, and returns its value.
    fn take(&mut self, path: String, key: Position, node: Node) -> Value {
        let mut place = Place {
            key,
            value: node.at,
            quotes: None,
        };
        let value = match node.content {
            Content::Scalar {
                value,
                quotes,
                octal,
            } => {
                place.quotes = quotes;
                self.notes
                    .extend(octal.map(|written| Note::octal(place.value, &path, &written, &value)));
                value
            }
            Content::Sequence(items) => items
                .into_iter()
                .enumerate()
                .map(|(index, item)| self.take(format!("{path}[{index}]"), item.at, item))
                .collect(),
            Content::Mapping(fields) => Value::Object(
                fields
                    .into_iter()
                    .map(|field| {
                        let path = join(&path, &field.name);
                        self.repeats(&path, &field);
                        let value = self.take(path, field.at, field.value);
                        (field.name, value)
                    })
                    .collect(),
            ),
        };
        self.positions.insert(path, place);
        value
    }

    /// Notes a field that is there several times, once for all aliases that repeat it.
    fn repeats(&mut self, path: &str, field: &Field) {
        let is_new = self.repeated.iter().all(|one| one.at != field.at);
        if let Some(first) = field.first.filter(|_| is_new) {
            self.repeated.push(Repeated {
                path: path.to_owned(),
                first: first.line,
                at: field.at,
            });
        }
    }
}
