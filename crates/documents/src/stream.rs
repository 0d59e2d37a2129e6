//! The documents of a text, divided as `kubectl` does it (`YAMLOrJSONDecoder` of `apimachinery`).
//!
//! A text that begins with a brace is JSON as long as one value follows another. Everything else
//! is YAML, in which a line of its own with `---` stands between two documents.
//!
//! Of several JSON objects behind a comment, `kubectl` reads the first one only, since the text is
//! YAML then, and it says nothing of the others. These are read here, and [`unread`] has their place.

use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::{NotYaml, Position, compose, json, node::Node, tabs, template};

/// The answer to text that `kubectl` leaves out without a message, or refuses.
pub(crate) const LOST: &str = "kubectl reads nothing from here on: begin each document with --- on a line of its own, and leave out %YAML and %TAG";

/// A part of a text.
struct Part<'t> {
    text: &'t str,
    /// Where it begins.
    start: Position,
    is_json: bool,
}

/// Reads all documents. Empty ones are left out.
///
/// # Errors
/// One of them cannot be read.
pub(crate) fn nodes(text: &str) -> Result<Vec<Node>, NotYaml> {
    let text = without_mark(text);
    let mut nodes = Vec::new();
    for part in parts(text)? {
        let node = if part.is_json {
            Some(json::node(part.text, part.start)?)
        } else {
            yaml(part.text)
                .map(|node| node.map(|node| node.below(part.start.line - 1)))
                .map_err(|mistake| mistake.below(part.start.line - 1))?
        };
        nodes.extend(node.filter(|node| !node.is_null()));
    }
    Ok(nodes)
}

/// Returns the JSON values at the start of a text, and the place of the rest.
pub(crate) fn json_values(text: &str) -> (Vec<Range<usize>>, usize) {
    let (mut values, mut at) = (Vec::new(), 0);
    if !text.trim_start().starts_with('{') {
        return (values, at);
    }
    loop {
        let rest = &text[at..];
        let begin = at + rest.len() - rest.trim_start().len();
        let mut stream =
            serde_json::Deserializer::from_str(&text[begin..]).into_iter::<IgnoredAny>();
        match stream.next() {
            Some(Ok(_)) => at = begin + stream.byte_offset(),
            Some(Err(_)) => return (values, at),
            None => return (values, text.len()),
        }
        values.push(begin..at);
    }
}

/// The place of the first object that `kubectl` leaves out without a message.
pub(crate) fn unread(text: &str) -> Option<Position> {
    let text = without_mark(text);
    let second = objects_behind_comments(text)?.get(1)?.start;
    let mut place = Place::default();
    place.go_to(text, second);
    Some(place.position())
}

/// Returns the places of the JSON objects behind the comments at the start of a text, if the first
/// document has several objects, and after them only comments.
///
/// `GuessJSONStream` of `apimachinery` passes over white space alone, so a text with a comment
/// before the brace is no JSON for `kubectl`.
fn objects_behind_comments(text: &str) -> Option<Vec<Range<usize>>> {
    let begin: usize = text
        .split_inclusive('\n')
        .take_while(|line| is_blank_or_comment(line))
        .map(str::len)
        .sum();
    if is_blank(&text[..begin]) {
        return None;
    }
    let (values, end) = json_values(&text[begin..]);
    let mut rest = text[begin + end..].split_inclusive('\n');
    let is_all = rest.next().is_none_or(is_blank)
        && rest
            .find(|line| !is_blank_or_comment(line))
            .is_none_or(|line| line.starts_with("---"));
    let objects: Vec<_> = values
        .into_iter()
        .map(|value| begin + value.start..begin + value.end)
        .collect();
    let are_objects = objects
        .iter()
        .all(|object| text[object.start..].starts_with('{'));
    (is_all && are_objects && objects.len() > 1).then_some(objects)
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

fn is_blank_or_comment(line: &str) -> bool {
    is_blank(line) || line.trim_start().starts_with('#')
}

/// The text without a byte order mark.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn parts(text: &str) -> Result<Vec<Part<'_>>, NotYaml> {
    let (mut values, mut at) = json_values(text);
    let mut place = Place::default();
    let mut parts = Vec::new();
    if let Some(mut objects) = objects_behind_comments(text) {
        // `kubectl` reads this one, as YAML.
        let first = objects.remove(0);
        parts.push(Part {
            text: &text[..first.end],
            start: place.position(),
            is_json: false,
        });
        at = objects.last().map_or(first.end, |last| last.end);
        values = objects;
    }
    for value in values {
        place.go_to(text, value.start);
        parts.push(Part {
            text: &text[value],
            start: place.position(),
            is_json: true,
        });
    }
    place.go_to(text, at);
    let (mut line, mut begin, mut end) = (place.line + 1, at, at);
    let mut start = place.position();
    let mut add = |begin: usize, end: usize, start: Position| {
        if begin < end {
            parts.push(Part {
                text: &text[begin..end],
                start,
                is_json: false,
            });
        }
    };
    for content in text[at..].split_inclusive('\n') {
        let next = end + content.len();
        if let Some(rest) = content.strip_prefix("---") {
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                return Err(NotYaml::at(
                    Position { line, column: 4 },
                    "kubectl takes no text behind ---: put it on the next line",
                ));
            }
            add(begin, end, start);
            begin = next;
            start = Position {
                line: line + 1,
                column: 1,
            };
        }
        line += 1;
        end = next;
    }
    add(begin, end, start);
    Ok(parts)
}

/// Reads one document of YAML, and says what a mistake in it probably is.
fn yaml(text: &str) -> Result<Option<Node>, NotYaml> {
    compose::document(text).map_err(|mistake| {
        template::outside_of_texts(text)
            .or_else(|| tabs::in_indentation(text))
            .unwrap_or(mistake)
    })
}

/// Reads the value that stands at this place of a text, which is known to be JSON there.
///
/// # Errors
/// A text or a number has no value in Rust, or it nests too deep.
pub(crate) fn json_value(text: &str, place: Range<usize>) -> Result<Value, NotYaml> {
    let value = &text[place.clone()];
    if let Ok(mut value) = serde_json::from_str(value) {
        json::without_fractions(&mut value);
        return Ok(value);
    }
    // This one says where.
    let mut start = Place::default();
    start.go_to(text, place.start);
    Ok(json::node(value, start.position())?.into_value())
}

/// A place in a text that moves on.
#[derive(Default)]
struct Place {
    at: usize,
    line: u64,
    column: u64,
}

impl Place {
    fn go_to(&mut self, text: &str, end: usize) {
        for c in text[self.at..end].chars() {
            if c == '\n' {
                self.line += 1;
                self.column = 0;
            } else {
                self.column += 1;
            }
        }
        self.at = end;
    }

    fn position(&self) -> Position {
        Position {
            line: self.line + 1,
            column: self.column + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn values(text: &str) -> Vec<Value> {
        let nodes = nodes(text).unwrap_or_else(|mistake| panic!("{text:?}: {mistake:?}"));
        nodes.into_iter().map(Node::into_value).collect()
    }

    #[test]
    fn json_and_yaml_follow_one_another_as_in_kubectl() {
        let both = [json!({"a": 1}), json!({"b": 2})];
        for text in [
            "{\"a\":1}\n{\"b\":2}\n",
            "{\"a\":1}{\"b\":2}",
            "{\"a\":1}\n---\n{\"b\":2}",
            "{\"a\":1}\n---\nb: 2\n",
            "{\"a\":1}\n# a comment\n{\"b\":2}\n",
            "# a comment\n{\"a\":1}\n---\n{\"b\":2}\n",
            "a: 1\n---\n{\"b\": 2}\n",
            "---\na: 1\n--- # a comment\n\n---\nnull\n---\nb: 2\n---\n",
            "\u{feff}a: 1\r\n---\r\nb: 2\r\n",
            "{a: 1}\n---\nb: 2",
        ] {
            assert_eq!(values(text), both, "{text:?}");
            assert_eq!(unread(text), None, "{text:?}");
        }
        assert_eq!(values("# nothing\n"), Vec::<Value>::new());
        assert_eq!(values("{\"a\":1,}"), [json!({"a": 1})]);
    }

    #[test]
    fn json_behind_a_comment_is_read_and_what_kubectl_leaves_out_has_a_place() {
        let three = [json!({"a": 1}), json!({"b": 2}), json!({"c": 3})];
        for (text, line, column) in [
            ("# x\n{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n", 3, 1),
            ("# x\n{\"a\":1}{\"b\":2}\n\n{\"c\":3}", 2, 8),
            ("# x\n{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n  # y\n\n# z", 3, 1),
            ("# x\n{\"a\":1}\n{\"b\":2}\n# y\n---\nc: 3\n", 3, 1),
            (
                "\n  # x\r\n\n#\n{\"a\":1}\r\n  {\"b\":2}\r\n---\r\nc: 3\r\n",
                6,
                3,
            ),
            (
                "\u{feff}# x\n{\"a\":\n1}\n{\"b\":2}\n\n--- # y\n{\"c\":3}",
                4,
                1,
            ),
        ] {
            assert_eq!(values(text), three, "{text:?}");
            assert_eq!(unread(text), Some(Position { line, column }), "{text:?}");
        }
        let later = nodes("# x\n{\"a\":1}\n{\"b\":2}\n---\nc: 3\n").unwrap();
        let lines: Vec<_> = later.iter().map(|node| node.at.line).collect();
        assert_eq!(lines, [2, 3, 5]);
    }

    #[test]
    fn text_that_kubectl_would_leave_out_is_a_mistake() {
        for (text, line) in [
            ("# x\n---\n{\"a\":1}\n{\"b\":2}\n", 4),
            ("# x\n{\"a\":1}\n# y\n{\"b\":2}\n", 4),
            ("# x\n{\"a\":1}\n{\"b\":2}---\nc: 3\n", 3),
            ("# x\n{\"a\":1}\n{\"b\":2}\nc: 3\n", 3),
            ("# x\n{\"a\":1}\n{\"b\":2}\n# y\n{\"c\":3}\n", 3),
            ("# x\n{\"a\":1}\n{\"b\":2}\n[3]\n", 3),
            ("---\n{\"a\":1}\n{\"b\":2}\n", 3),
            ("a: 1\n...\nb: 2\n", 3),
            ("a: 1\n--- {b: 2}\n", 2),
            ("a: 1\n----\nb: 2\n", 2),
            ("{\"a\":1}\n,{\"b\":2}\n", 2),
        ] {
            let mistake = nodes(text).map(|nodes| nodes.len()).unwrap_err();
            assert_eq!(
                mistake.position.map(|position| position.line),
                Some(line),
                "{text:?}: {mistake:?}"
            );
            assert_eq!(unread(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_mistake_is_counted_from_the_start_of_the_file() {
        let mistake = nodes("a: 1\n---\n# x\nb: [\n").err().unwrap();
        assert_eq!(mistake.position, Some(Position { line: 4, column: 4 }));
    }
}
