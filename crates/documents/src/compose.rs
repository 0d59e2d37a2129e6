//! YAML, read as `kubectl` reads it.
//!
//! The library of `kubectl` is a translation of libyaml, and so is the parser here. So both agree
//! on texts in quotes whose lines are not indented, on tabs, and on white space. This file adds
//! anchors, merge keys and names of fields.

use std::{
    borrow::Cow,
    cell::Cell,
    collections::{HashMap, HashSet},
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

use libyaml_safer::{
    Encoding, Error, Event, EventData, MappingStyle, Mark, Parser, ScalarStyle, SequenceStyle,
};

use crate::{
    NotYaml, Position, Quotes,
    node::{Content, Field, Node},
    scalar::{Scalar, is_hidden_octal},
};

/// How deep a document may nest. A deeper one would fill the stack.
const MAX_DEPTH: usize = 200;

/// How many values aliases may repeat in a document. `kubectl` begins to count at this number.
const MAX_REPEATED: usize = 400_000;

const QUESTION_MARK: &str =
    "a text with a question mark between braces or brackets must be in quotes";
const MERGE: &str = "<<";
const MERGE_TAG: &str = "tag:yaml.org,2002:merge";

/// Why a document cannot be read.
enum Mistake {
    /// The parser cannot read it.
    Parser(Error),
    /// It is YAML that JSON cannot express, or that would fill the memory.
    Meaning(NotYaml),
}

impl From<Error> for Mistake {
    fn from(error: Error) -> Self {
        Self::Parser(error)
    }
}

/// Reads one document. `None` if there is nothing in the text but comments.
///
/// # Errors
/// It is not YAML, it means something that JSON cannot express, or there is more than one document.
pub(crate) fn document(text: &str) -> Result<Option<Node>, NotYaml> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(position) = control_character(text) {
        return Err(NotYaml::at(
            position,
            "YAML has no control characters: remove this one, or write it as \\x.. between double quotes",
        ));
    }
    // The parser stops the program at a tag with a comma behind it, `[!a, b]`, which libyaml reads.
    without_panic(|| with_colons(text)).unwrap_or_else(|| {
        Err(NotYaml {
            position: None,
            message: "the parser cannot read a tag with a comma behind it: remove the tag, or put a space before the comma".to_owned(),
        })
    })
}

thread_local! {
    /// True while the parser runs, whose panics are answers.
    static IS_PARSING: Cell<bool> = const { Cell::new(false) };
}

/// Runs the parser. `None` if it panics, which prints nothing.
fn without_panic<T>(parse: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_PARSING.get() {
                print(info);
            }
        }));
    });
    IS_PARSING.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(parse)).ok();
    IS_PARSING.set(false);
    result
}

/// Reads one document in which a text between braces may end with a colon, as `{ip: fd00::, …}`.
///
/// libyaml refuses such a text, and the translation of `kubectl` does not. A character that the
/// text does not have stands in for each of these colons, so that all columns stay the same.
fn with_colons(text: &str) -> Result<Option<Node>, NotYaml> {
    let stand_in = ('\u{e000}'..='\u{f8ff}').find(|c| !text.contains(*c));
    let mut patched = Cow::Borrowed(text);
    loop {
        let is_patched = matches!(patched, Cow::Owned(_));
        let error = match once(&patched, stand_in.filter(|_| is_patched)) {
            Ok(node) => return Ok(node),
            Err(Mistake::Meaning(mistake)) => return Err(mistake),
            Err(Mistake::Parser(error)) => error,
        };
        let colon = error
            .problem_mark()
            .filter(|_| error.problem() == "found unexpected ':'")
            .and_then(|mark| usize::try_from(mark.index).ok())
            .filter(|at| patched.get(*at..).is_some_and(|rest| rest.starts_with(':')));
        match (colon, stand_in) {
            (Some(at), Some(stand_in)) => replace_colons(patched.to_mut(), at, stand_in),
            _ => return Err(explain(&error)),
        }
    }
}

/// Replaces the colon at this place, and all behind it that end a text between braces, too: one
/// after another, each would have the whole document read again.
fn replace_colons(text: &mut String, at: usize, stand_in: char) {
    let tail = text.split_off(at);
    let mut before: Option<char> = None;
    let mut rest = tail.chars().peekable();
    while let Some(c) = rest.next() {
        let ends = rest.peek().is_some_and(|next| ",?[]{}".contains(*next));
        let is_one = before.is_none_or(|b| ends && !b.is_whitespace() && !"\"'[]{},".contains(b));
        text.push(if c == ':' && is_one { stand_in } else { c });
        before = Some(c);
    }
}

fn once(text: &str, stand_in: Option<char>) -> Result<Option<Node>, Mistake> {
    let mut parser: Parser<&[u8]> = Parser::new();
    parser.set_encoding(Encoding::Utf8);
    parser.set_input(text.as_bytes());
    let mut composer = Composer {
        parser,
        stand_in,
        source: text,
        anchors: HashMap::new(),
        repeated: 0,
        opened: Vec::new(),
    };
    let document = composer.document();
    match (document, composer.opened.last()) {
        // The parser misses a value there, and the reader the bracket.
        (Err(Mistake::Parser(error)), Some((bracket, mark)))
            if error.problem() == "did not find expected node content"
                && ends_at(text, error.problem_mark()) =>
        {
            let message = unclosed(*bracket, error.problem_mark());
            Err(meaning(*mark, &message))
        }
        (document, _) => document,
    }
}

/// Is there nothing but white space behind this place?
fn ends_at(text: &str, mark: Option<Mark>) -> bool {
    let at = mark.and_then(|mark| usize::try_from(mark.index).ok());
    at.and_then(|at| text.get(at..))
        .is_some_and(|rest| rest.trim().is_empty())
}

fn unclosed(bracket: char, mark: Option<Mark>) -> String {
    let (name, end) = match bracket {
        '[' => ("bracket", ']'),
        _ => ("brace", '}'),
    };
    let line = mark.map_or(0, |mark| Position::from(mark).line);
    format!("unclosed {name} '{bracket}': ',' or '{end}' is missing before or in line {line}")
}

struct Composer<'t> {
    parser: Parser<&'t [u8]>,
    /// The character in place of a colon.
    stand_in: Option<char>,
    source: &'t str,
    /// The node at each anchor. `None` inside of it.
    anchors: HashMap<String, Option<Node>>,
    repeated: usize,
    /// The brackets and braces that are open where it reads.
    opened: Vec<(char, Mark)>,
}

/// The surroundings of a node.
#[derive(Clone, Copy)]
struct Surroundings {
    depth: usize,
    in_braces: bool,
}

impl Composer<'_> {
    fn document(&mut self) -> Result<Option<Node>, Mistake> {
        let mut node = None;
        loop {
            let event = self.parser.parse()?;
            match event.data {
                EventData::StreamEnd => return Ok(node),
                EventData::StreamStart { .. } | EventData::DocumentEnd { .. } => {}
                EventData::DocumentStart { .. } if node.is_some() => {
                    return Err(meaning(event.start_mark, crate::stream::LOST));
                }
                EventData::DocumentStart { .. } => {
                    let first = self.parser.parse()?;
                    let outside = Surroundings {
                        depth: 0,
                        in_braces: false,
                    };
                    node = Some(self.node(first, outside)?);
                }
                _ => return Err(meaning(event.start_mark, crate::stream::LOST)),
            }
        }
    }

    fn node(&mut self, event: Event, around: Surroundings) -> Result<Node, Mistake> {
        let mark = event.start_mark;
        if around.depth > MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} lists and objects are inside each other");
            return Err(meaning(mark, &message));
        }
        let (anchor, content) = match event.data {
            EventData::Alias { anchor } => return self.alias(mark, &anchor),
            EventData::Scalar {
                anchor,
                tag,
                value,
                plain_implicit,
                style,
                ..
            } => {
                let is_plain = style == ScalarStyle::Plain;
                if is_plain && around.in_braces && value.contains('?') {
                    return Err(meaning(mark, QUESTION_MARK));
                }
                self.without_slashes(mark, event.end_mark, style)?;
                let text = self.text(value);
                let octal =
                    (is_plain && tag.is_none() && is_hidden_octal(&text)).then(|| text.clone());
                let scalar = Scalar::read(tag.as_deref(), text, plain_implicit)
                    .map_err(|message| meaning(mark, &message))?;
                let quotes = matches!(scalar, Scalar::Text(_)).then(|| quotes(style));
                let value = scalar
                    .into_value()
                    .map_err(|message| meaning(mark, &message))?;
                let content = Content::Scalar {
                    value,
                    quotes,
                    octal,
                };
                (anchor, content)
            }
            EventData::SequenceStart { anchor, style, .. } => {
                self.open(anchor.as_ref());
                let is_flow = style == SequenceStyle::Flow;
                self.opened.extend(is_flow.then_some(('[', mark)));
                let items = self.items(around.inside(is_flow))?;
                if is_flow {
                    self.opened.pop();
                }
                (anchor, Content::Sequence(items))
            }
            EventData::MappingStart { anchor, style, .. } => {
                self.open(anchor.as_ref());
                let is_flow = style == MappingStyle::Flow;
                self.opened.extend(is_flow.then_some(('{', mark)));
                let fields = self.fields(around.inside(is_flow))?;
                if is_flow {
                    self.opened.pop();
                }
                (anchor, Content::Mapping(fields))
            }
            _ => return Err(meaning(mark, crate::stream::LOST)),
        };
        let node = Node {
            at: mark.into(),
            content,
        };
        if let Some(anchor) = anchor {
            // The copy at the anchor takes as much memory as an alias.
            self.repeated += node.size();
            if self.repeated > MAX_REPEATED {
                let message = format!("anchors and aliases repeat more than {MAX_REPEATED} values");
                return Err(meaning(mark, &message));
            }
            self.anchors.insert(anchor, Some(node.clone()));
        }
        Ok(node)
    }

    /// Notes that an anchor begins here, so that it cannot contain itself.
    fn open(&mut self, anchor: Option<&String>) {
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor.clone(), None);
        }
    }

    fn alias(&mut self, mark: Mark, anchor: &str) -> Result<Node, Mistake> {
        let message = match self.anchors.get(anchor) {
            None => format!("no anchor &{anchor} stands before this place"),
            Some(None) => format!("the anchor &{anchor} contains itself"),
            Some(Some(node)) => {
                self.repeated += node.size();
                if self.repeated <= MAX_REPEATED {
                    let mut content = node.content.clone();
                    // The text stands elsewhere.
                    if let Content::Scalar { quotes, .. } = &mut content {
                        *quotes = None;
                    }
                    return Ok(Node {
                        at: mark.into(),
                        content,
                    });
                }
                format!("aliases repeat more than {MAX_REPEATED} values")
            }
        };
        Err(meaning(mark, &message))
    }

    fn items(&mut self, inside: Surroundings) -> Result<Vec<Node>, Mistake> {
        let mut items = Vec::new();
        loop {
            let event = self.parser.parse()?;
            if event.data == EventData::SequenceEnd {
                return Ok(items);
            }
            items.push(self.node(event, inside)?);
        }
    }

    fn fields(&mut self, inside: Surroundings) -> Result<Vec<Field>, Mistake> {
        let mut fields: Vec<Field> = Vec::new();
        let (mut has_several, mut names) = (false, HashMap::new());
        loop {
            let event = self.parser.parse()?;
            if event.data == EventData::MappingEnd {
                break;
            }
            let mark = event.start_mark;
            if is_merge(&event.data) {
                let value = self.parser.parse()?;
                let at = value.start_mark;
                let value = self.node(value, inside)?;
                // As in `kubectl`, what stands later wins, a merge over a field, too.
                merge(value, &mut fields).map_err(|message| meaning(at, message))?;
                has_several = true;
                continue;
            }
            let name = self.name(event, inside)?;
            let first = names.get(&name).copied();
            names
                .entry(name.clone())
                .or_insert_with(|| Position::from(mark));
            has_several |= first.is_some();
            let value = self.parser.parse()?;
            let value = self.node(value, inside)?;
            fields.push(Field {
                name,
                at: mark.into(),
                first,
                value,
            });
        }
        if has_several {
            keep_last(&mut fields);
        }
        Ok(fields)
    }

    /// The name of a field.
    fn name(&mut self, event: Event, inside: Surroundings) -> Result<String, Mistake> {
        let mark = event.start_mark;
        if let EventData::Scalar {
            anchor,
            tag,
            value,
            plain_implicit,
            style,
            ..
        } = event.data
        {
            if style == ScalarStyle::Plain && inside.in_braces && value.contains('?') {
                return Err(meaning(mark, QUESTION_MARK));
            }
            self.without_slashes(mark, event.end_mark, style)?;
            let text = self.text(value);
            let name = Scalar::read(tag.as_deref(), text, plain_implicit)
                .and_then(Scalar::into_key)
                .map_err(|message| meaning(mark, &message))?;
            if let Some(anchor) = anchor {
                let content = Content::Scalar {
                    value: name.clone().into(),
                    quotes: None,
                    octal: None,
                };
                let node = Node {
                    at: mark.into(),
                    content,
                };
                self.anchors.insert(anchor, Some(node));
            }
            return Ok(name);
        }
        match self.node(event, inside)?.content {
            Content::Scalar { value, .. } if !value.is_null() => Ok(value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)),
            _ => Err(meaning(
                mark,
                "the name of a field must be a text, not a list or an object",
            )),
        }
    }

    /// Refuses `\/` in a text between double quotes. libyaml takes it from JSON, and the translation
    /// of `kubectl` does not know it.
    fn without_slashes(&self, start: Mark, end: Mark, style: ScalarStyle) -> Result<(), Mistake> {
        let place = |mark: Mark| usize::try_from(mark.index).ok();
        let range = place(start).zip(place(end));
        let written = range.and_then(|(start, end)| self.source.get(start..end));
        let Some(written) = written.filter(|_| style == ScalarStyle::DoubleQuoted) else {
            return Ok(());
        };
        let mut is_escaped = false;
        let slash = written.char_indices().find(|(_, c)| {
            let is_slash = is_escaped && *c == '/';
            is_escaped = !is_escaped && *c == '\\';
            is_slash
        });
        let Some(before) = slash.and_then(|(at, _)| written.get(..at - 1)) else {
            return Ok(());
        };
        let mut position = Position::from(start);
        for c in before.chars() {
            match c {
                '\n' => (position.line, position.column) = (position.line + 1, 1),
                _ => position.column += 1,
            }
        }
        let message = "the YAML of kubectl has no escape \\/: write / without the backslash";
        Err(Mistake::Meaning(NotYaml::at(position, message)))
    }

    /// A text with its colons.
    fn text(&self, text: String) -> String {
        match self.stand_in {
            Some(stand_in) if text.contains(stand_in) => text.replace(stand_in, ":"),
            _ => text,
        }
    }
}

impl Surroundings {
    fn inside(self, braces: bool) -> Self {
        Self {
            depth: self.depth + 1,
            in_braces: self.in_braces || braces,
        }
    }
}

fn quotes(style: ScalarStyle) -> Quotes {
    match style {
        ScalarStyle::SingleQuoted => Quotes::Single,
        ScalarStyle::DoubleQuoted => Quotes::Double,
        ScalarStyle::Literal | ScalarStyle::Folded => Quotes::Block,
        _ => Quotes::None,
    }
}

fn is_merge(event: &EventData) -> bool {
    matches!(event, EventData::Scalar { value, plain_implicit, tag, .. }
        if value == MERGE && (*plain_implicit || tag.as_deref() == Some(MERGE_TAG)))
}

/// Adds the fields of an object, or those of a list of objects, of which the first wins.
fn merge(value: Node, fields: &mut Vec<Field>) -> Result<(), &'static str> {
    match value.content {
        Content::Mapping(more) => fields.extend(more),
        Content::Sequence(items) => {
            for item in items.into_iter().rev() {
                match item.content {
                    Content::Mapping(more) => fields.extend(more),
                    _ => return Err("<< needs an object or a list of objects"),
                }
            }
        }
        Content::Scalar { .. } => return Err("<< needs an object or a list of objects"),
    }
    Ok(())
}

/// Removes each field for which another one of the same name follows.
pub(crate) fn keep_last(fields: &mut Vec<Field>) {
    let mut names = HashSet::new();
    let mut kept: Vec<Field> = std::mem::take(fields)
        .into_iter()
        .rev()
        .filter(|field| names.insert(field.name.clone()))
        .collect();
    kept.reverse();
    *fields = kept;
}

impl From<Mark> for Position {
    fn from(mark: Mark) -> Self {
        Self {
            line: mark.line + 1,
            column: mark.column + 1,
        }
    }
}

fn meaning(mark: Mark, message: &str) -> Mistake {
    Mistake::Meaning(NotYaml::at(mark.into(), message))
}

/// The place of the first character that the parser does not take at all.
fn control_character(text: &str) -> Option<Position> {
    let is_allowed = |c: char| {
        !c.is_control() && !('\u{fffe}'..='\u{ffff}').contains(&c)
            || matches!(c, '\t' | '\n' | '\r' | '\u{85}')
    };
    text.split('\n').zip(1..).find_map(|(line, number)| {
        let (column, _) = (1..).zip(line.chars()).find(|(_, c)| !is_allowed(*c))?;
        Some(Position {
            line: number,
            column,
        })
    })
}

/// The parser's message, at the place where a person looks first.
fn explain(error: &Error) -> NotYaml {
    let problem = error.problem();
    let place = error.problem_mark().map(Position::from);
    let start = error.context_mark().map(Position::from);
    let context = error.context().unwrap_or_default();
    let (position, message) = match problem {
        "did not find expected ',' or ']'" => (start, unclosed('[', error.problem_mark())),
        "did not find expected ',' or '}'" => (start, unclosed('{', error.problem_mark())),
        "found unexpected end of stream" if context.ends_with("quoted scalar") => {
            (start, "the quote that begins here is not closed".to_owned())
        }
        "did not find expected <document start>" => (place, crate::stream::LOST.to_owned()),
        "mapping values are not allowed in this context" => (
            place,
            format!(
                "{problem}: put a text with \": \" in it in quotes, or correct the indentation"
            ),
        ),
        "did not find expected node content" => (
            place,
            format!("{problem}: put a text that begins with ':' or '?' in quotes"),
        ),
        _ if context.is_empty() => (place, problem.to_owned()),
        _ => (place, format!("{problem} {context}")),
    };
    NotYaml { position, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_has_the_place_where_a_person_looks_first() {
        for (text, line, column, words) in [
            ("a: [1,\nb: 2\n", 1, 4, "unclosed bracket '['"),
            ("a: {b: 1\nc: 2\n", 1, 4, "unclosed brace '{'"),
            ("a: 1\nb: \"x\nc: 2\n", 2, 4, "not closed"),
            ("a: [\n", 1, 4, "unclosed bracket '['"),
            ("a: [1, {\n", 1, 8, "unclosed brace '{'"),
            ("a: b: c\n", 1, 5, "in quotes"),
            ("a: [::1]\n", 1, 5, "in quotes"),
            ("a: [b?]\n", 1, 5, "question mark"),
            ("a: \"\u{1}\"\n", 1, 5, "control characters"),
            ("a: *x\n", 1, 4, "no anchor &x"),
            ("a: {<<: 3}\n", 1, 9, "<< needs"),
            ("a: .inf\n", 1, 4, "JSON has no"),
            ("~: a\n", 1, 1, "the name of a field is empty"),
            ("[a]: 1\n", 1, 1, "must be a text"),
            ("a: !!int x\n", 1, 4, "does not fit its tag !!int"),
        ] {
            let mistake = document(text).err();
            let found = mistake.as_ref().and_then(|mistake| mistake.position);
            assert_eq!(
                found,
                Some(Position { line, column }),
                "{text:?} {mistake:?}"
            );
            assert!(
                mistake.is_some_and(|mistake| mistake.message.contains(words)),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_tag_with_a_comma_behind_it_does_not_end_the_program() {
        assert!(document("a: [!x, b]\n").is_err());
        assert!(matches!(document("a: [!x , b]\n"), Ok(Some(_))));
    }
}
