//! YAML and JSON, read as `kubectl` reads them, in documents that remember where each of their
//! fields stands, so that an error can point at it.
//!
//! The rules are those of `kubectl apply -f`: its decoder of `apimachinery` divides a text into
//! documents, and `sigs.k8s.io/yaml` reads each of them. Of a key that is there twice the last one
//! counts, as for `kubectl`, and [`Document::repeated`] has its place.

mod compose;
mod inside;
mod json;
mod list;
mod node;
mod note;
mod repeated;
mod scalar;
mod skipped;
mod stream;
mod tabs;
mod template;
mod text;

use std::collections::HashMap;

use serde::de::IgnoredAny;
use serde_json::Value;

pub use note::Note;
pub use repeated::Repeated;
pub use skipped::Skipped;
pub use template::{RENDER_FIRST, has_braces, is_unrendered};
pub use text::decode;

/// A line and a column of a file, both counted from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

/// One document of a file.
#[derive(Debug)]
pub struct Document {
    /// The content of the document.
    pub value: Value,
    /// Notes about the octal numbers in it that look like decimal ones.
    pub notes: Vec<Note>,
    /// The fields that an object in it has several times.
    pub repeated: Vec<Repeated>,
    positions: HashMap<String, Place>,
}

/// Where a field stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Its name. For an entry of a list, the entry.
    key: Position,
    value: Position,
    /// The way in which it is written, if it is a text.
    quotes: Option<Quotes>,
}

/// The signs around a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    None,
    Single,
    Double,
    /// A sign such as `|`, and the text below it.
    Block,
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

    /// Where the mistake stands in the JSON that the text at a path should be. `None` if there is
    /// no text, or if it is JSON. `source` is the text of the whole file.
    pub fn mistake_in_json(&self, source: &str, path: &str) -> Option<Position> {
        let place = self.positions.get(path)?;
        let text = self.value_at(path)?.as_str()?;
        let error = serde_json::from_str::<Value>(text).err()?;
        let before = inside::before(text, &error);
        inside::position(source, place.value, place.quotes?, before)
    }

    /// Where a value stands that is inside of a text with JSON: `spec.config.ipam.range` is the
    /// value `ipam.range` of the JSON in `spec.config`. A path that the JSON does not have leads to
    /// the innermost part of it that is there. `None` if the path does not lead into such a text.
    /// `source` is the text of the whole file.
    pub fn position_in_json(&self, source: &str, path: &str) -> Option<Position> {
        if self.positions.contains_key(path) {
            return None;
        }
        let mut ends = path.rmatch_indices(['.', '[']).map(|(end, _)| end);
        let end = ends.find(|end| self.positions.contains_key(&path[..*end]))?;
        let (outer, inner) = (&path[..end], path[end..].trim_start_matches('.'));
        let place = self.positions.get(outer)?;
        let text = self.value_at(outer)?.as_str()?;
        serde_json::from_str::<IgnoredAny>(text).ok()?;
        let json = Self::from(json::node(text, Position { line: 1, column: 1 }).ok()?);
        let before = inside::until(text, json.position_of(inner));
        inside::position(source, place.value, place.quotes?, before)
    }

    fn value_at(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(&self.value, |value, part| {
            let mut steps = part.split('[');
            let value = value.get(steps.next()?)?;
            steps.try_fold(value, |value, step| {
                value.get(step.strip_suffix(']')?.parse::<usize>().ok()?)
            })
        })
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

/// The mistake in a text that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct NotYaml {
    /// Where, if the parser knows.
    pub position: Option<Position>,
    /// The message of the parser, without the position.
    pub message: String,
}

impl NotYaml {
    fn at(position: Position, message: impl Into<String>) -> Self {
        Self {
            position: Some(position),
            message: message.into(),
        }
    }

    /// The same, this many lines further down.
    fn below(mut self, lines: u64) -> Self {
        if let Some(position) = &mut self.position {
            position.line += lines;
        }
        self
    }
}

/// Reads all documents of a text. Empty ones are left out, and of a list, as `kubectl get -o yaml`
/// writes it, each entry is one. A list without entries is a document itself.
///
/// # Errors
/// The text is neither YAML nor JSON, or a list has its `items` twice.
pub fn parse(text: &str) -> Result<Vec<Document>, NotYaml> {
    let mut documents = Vec::new();
    for node in stream::nodes(text)? {
        documents.extend(entries(node)?.into_iter().map(Document::from));
    }
    Ok(documents)
}

/// Returns a note at the first object that [`parse`] reads in a text, and that `kubectl` leaves out
/// without a message. `None` if there is no such object.
pub fn unread(text: &str) -> Option<Note> {
    stream::unread(text).map(Note::unread)
}

/// Reads the objects of a text as [`parse`] does, but not where their fields stand. JSON is read as
/// JSON, which is faster.
///
/// # Errors
/// As [`parse`]. In JSON, `items` that are there twice are no error.
pub fn objects(text: &str) -> Result<Vec<Value>, NotYaml> {
    each_object(text).collect()
}

/// Returns the objects of a text as [`objects`] does, one after the other: of JSON, only one of them
/// needs memory. Objects can come before an error.
pub fn each_object(text: &str) -> Box<dyn Iterator<Item = Result<Value, NotYaml>> + '_> {
    let (values, end) = stream::json_values(text);
    if !values.is_empty() && end == text.len() {
        let places = values
            .into_iter()
            .flat_map(move |value| list::entries(text, value));
        return Box::new(places.map(move |place| stream::json_value(text, place)));
    }
    let nodes = stream::nodes(text).and_then(|nodes| {
        let entries: Result<Vec<_>, _> = nodes.into_iter().map(entries).collect();
        entries
    });
    match nodes {
        Ok(entries) => Box::new(
            entries
                .into_iter()
                .flatten()
                .map(|entry| Ok::<_, NotYaml>(entry.into_value())),
        ),
        Err(mistake) => Box::new(std::iter::once(Err::<Value, _>(mistake))),
    }
}

/// The entries of a node that is a list, or the node itself, also if it is a list without entries.
fn entries(mut root: node::Node) -> Result<Vec<node::Node>, NotYaml> {
    Ok(match root.take_entries()? {
        Some(mut entries) if !entries.is_empty() => {
            entries.retain(|entry| !entry.is_null());
            entries
        }
        _ => vec![root],
    })
}

/// The path of a field inside the object at `path`.
pub fn join(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
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
        let empty = "kind: List\nitems: []\n";
        assert_eq!(
            parse(empty).unwrap()[0].value,
            json!({"kind": "List", "items": []})
        );
        for text in [empty, "{\"kind\": \"List\", \"items\": []}"] {
            assert_eq!(objects(text).unwrap().len(), 1, "{text}");
        }
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
            ("a: 1\n\tb: 2\n", 2),
            ("kind: List\nitems: [{a: 1}]\nitems: []\n", 3),
            ("a: b\nc: \"\\/\"\n", 2),
            ("a: 'x\n", 1),
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

    #[test]
    fn of_a_key_that_is_there_twice_the_last_one_counts() {
        for (text, value, places) in [
            (
                "x:\n  k: 1\n  l: {m: 2}\n  k: 3\n",
                json!({"x": {"k": 3, "l": {"m": 2}}}),
                vec!["f:4:3: x.k: is there twice, first in line 2"],
            ),
            (
                "# a\n---\na: 1\nb:\n- {c: {e: 1}, c: {d: 1}, c: {f: 1}}\na: 2\n",
                json!({"a": 2, "b": [{"c": {"f": 1}}]}),
                vec![
                    "f:5:26: b[0].c: ",
                    "f:6:1: a: is there twice, first in line 3",
                ],
            ),
            (
                "{\"a\": 1,\n \"b\": {\"c\": 1, \"c\": 2},\n \"a\": 3}",
                json!({"a": 3, "b": {"c": 2}}),
                vec!["f:2:16: b.c: ", "f:3:2: a: "],
            ),
            (
                "x: &x {k: 1, k: 2}\np: *x\nq: {<<: *x}\n",
                json!({"x": {"k": 2}, "p": {"k": 2}, "q": {"k": 2}}),
                vec!["f:1:14: x.k: "],
            ),
            (
                "x: &x {k: 1}\np: {k: 3, <<: *x, k: 2}\n",
                json!({"x": {"k": 1}, "p": {"k": 2}}),
                vec!["f:2:19: p.k: "],
            ),
            (
                "x: &x {k: 1}\np: {k: 2, <<: *x}\n",
                json!({"x": {"k": 1}, "p": {"k": 1}}),
                vec![],
            ),
        ] {
            let documents = parse(text).unwrap();
            assert_eq!(
                (documents.len(), &documents[0].value),
                (1, &value),
                "{text}"
            );
            assert_eq!(objects(text).unwrap(), [value], "{text}");
            let found: Vec<_> = documents[0]
                .repeated
                .iter()
                .map(|one| one.in_file("f"))
                .collect();
            let as_expected = found
                .iter()
                .zip(&places)
                .all(|(found, place)| found.starts_with(place));
            assert!(
                found.len() == places.len() && as_expected,
                "{text}: {found:?}"
            );
        }
        let entry = parse("kind: List\nitems:\n- kind: A\n  a: 1\n  a: 2\n").unwrap();
        assert_eq!(entry[0].repeated[0].path, "a");
        assert_eq!(entry[0].position_of_key("a"), at(5, 3));
    }

    /// JSON has this way to write a slash, and the YAML of `kubectl` does not.
    #[test]
    fn a_slash_behind_a_backslash_is_json_alone() {
        for text in [
            "a: \"b\\/\"\n",
            "a: [x, !!str \"\\\\\\/\"]\n",
            "\"\\/\": 1\n",
            "# c\n{\"a\": \"\\/\"}\n",
        ] {
            let message = parse(text).unwrap_err().message;
            assert!(message.contains("no escape \\/"), "{text}: {message}");
        }
        let at_place = parse("a: 1\nb: \"é\\n\n  \\/\"\n").unwrap_err();
        assert_eq!(at_place.position, Some(at(3, 3)));
        for (text, value) in [
            ("{\"a\": \"\\/\"}", "/"),
            ("a: '\\/'\n", "\\/"),
            ("a: \\/\n", "\\/"),
            ("a: \"\\\\/\"\n", "\\/"),
        ] {
            assert_eq!(parse(text).unwrap()[0].value["a"], value, "{text}");
        }
    }

    #[test]
    fn a_text_in_quotes_may_end_left_of_its_key() {
        let documents =
            parse("spec:\n  config: '{\n    \"type\": \"bridge\"\n  }'\n  next: 1\n").unwrap();
        assert_eq!(
            documents[0].value,
            json!({"spec": {"config": "{ \"type\": \"bridge\" }", "next": 1}})
        );
        assert_eq!(documents[0].position_of("spec.next"), at(5, 9));
    }

    #[test]
    fn a_text_between_braces_may_end_with_a_colon() {
        let documents = parse("a: {ip: fd00::, b: [fd01::, x:]}\nc: 1\n").unwrap();
        assert_eq!(
            documents[0].value,
            json!({"a": {"ip": "fd00::", "b": ["fd01::", "x:"]}, "c": 1})
        );
        assert_eq!(documents[0].position_of("a.b[1]"), at(1, 29));
        let many = format!("a: [{}]\n", "{ip: fd00::, b: 1}, ".repeat(5000));
        assert_eq!(parse(&many).unwrap()[0].value["a"][4999]["ip"], "fd00::");
    }

    #[test]
    fn a_later_field_wins_over_merged_ones_and_a_later_merge_over_a_field() {
        let documents = parse(
            "x: &x {k: 1, d: 1}\na: {<<: *x, d: 2}\nb: {d: 2, <<: *x}\nc: {<<: [{k: 1}, {k: 2, l: 3}]}\n",
        )
        .unwrap();
        let value = &documents[0].value;
        assert_eq!(value["a"], json!({"k": 1, "d": 2}));
        assert_eq!(value["b"], json!({"k": 1, "d": 1}));
        assert_eq!(value["c"], json!({"k": 1, "l": 3}));
    }

    #[test]
    fn an_octal_number_is_its_value_with_a_hint() {
        let documents = parse("spec:\n  vlan: {id: 0100, other: 100}\n").unwrap();
        assert_eq!(documents[0].value["spec"]["vlan"]["id"], 64);
        let notes: Vec<_> = documents[0]
            .notes
            .iter()
            .map(|note| note.in_file("a.yaml"))
            .collect();
        assert_eq!(
            notes,
            [
                "a.yaml:2:14: spec.vlan.id: 0100 begins with a zero, so kubectl reads it as an octal number and sends 64: write 64, or leave out the zero"
            ]
        );
    }

    #[test]
    fn a_small_text_cannot_fill_the_memory() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..10 {
            let alias = format!("*a{}, ", n - 1);
            bomb += &format!(
                "a{n}: &a{n} [{}]\n",
                alias.repeat(10).trim_end_matches(", ")
            );
        }
        let anchors: String = (0..150).map(|n| format!("&b{n} [")).collect();
        let nested = format!(
            "x: &x [{}1]\ny: {anchors}*x{}\n",
            "1, ".repeat(4000),
            "]".repeat(150)
        );
        let deep = format!("a: {}{}", "[".repeat(5000), "]".repeat(5000));
        let deep_json = format!("{{\"a\": {}{}}}", "[".repeat(5000), "]".repeat(5000));
        for text in [bomb, nested, deep, deep_json, "a: &a [*a]\n".to_owned()] {
            assert!(parse(&text).is_err(), "{}", &text[..20.min(text.len())]);
        }
    }

    #[test]
    fn a_mistake_in_embedded_json_has_its_place_in_the_file() {
        for (text, place) in [
            ("a:\n  b: |\n    {\n      \"c\": 1,\n    }\n", at(4, 13)),
            ("a:\n  b: >-\n    {\n      \"c\" 1\n    }\n", at(4, 11)),
            ("a: {b: '{\"c\": ''1''}'}\n", at(1, 15)),
            ("a: {b: \"{\\\"c\\\": 1,}\"}\n", at(1, 18)),
            ("a: {b: &x '{\"c\" 1}'}\n", at(1, 17)),
            ("a: {b: !!str \"{\\\"c\\\": 1,}\"}\n", at(1, 24)),
            ("a:\n  b: '{\n  \"c\": 1,\n  }'\n", at(3, 9)),
        ] {
            let documents = parse(text).unwrap();
            assert_eq!(
                documents[0].mistake_in_json(text, "a.b"),
                Some(place),
                "{text}"
            );
        }
        for (text, place) in [
            (
                "a:\n  b: |\n    {\n      \"c\": [1, {\"d\":  \"é\"}]\n    }\n",
                at(4, 23),
            ),
            (
                "a:\n  b: >-\n    {\"x\": \"ü\",\n    \"c\": [1, {\"d\": 2}]}\n",
                at(4, 20),
            ),
            (
                "a: {b: '{\"x\": \"a''b\", \"c\": [1, {\"d\": 2}]}'}\n",
                at(1, 38),
            ),
            ("a: {b: \"{\\\"c\\\": [1, {\\\"d\\\": 2}]}\"}\n", at(1, 29)),
            (
                "a:\n  b: '{\n  \"c\":\n    [1, {\"d\":\n    2}]}'\n",
                at(5, 5),
            ),
            // The innermost part that is there.
            ("a:\n  b: |\n    {\"c\": [1, {\"e\": 2}]}\n", at(3, 15)),
            ("a:\n  b: |\n    {\"e\": 2}\n", at(3, 5)),
        ] {
            let documents = parse(text).unwrap();
            assert_eq!(
                documents[0].position_in_json(text, "a.b.c[1].d"),
                Some(place),
                "{text}"
            );
        }
        for text in [
            "a: {b: {c: [1, {d: 1}]}}\n",
            "a: {b: x}\n",
            "a: {b: 1}\n",
            "b: 1\n",
        ] {
            let documents = parse(text).unwrap();
            assert_eq!(
                documents[0].position_in_json(text, "a.b.c[1].d"),
                None,
                "{text}"
            );
        }
        let fine = "a:\n  b: '{\"c\": 1}'\n";
        assert_eq!(parse(fine).unwrap()[0].mistake_in_json(fine, "a.b"), None);
    }
}
