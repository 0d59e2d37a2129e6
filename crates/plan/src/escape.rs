//! Text from outside, made safe to show on a terminal.
//!
//! A pod's termination message, a key in a file or an answer of the API server may hold control
//! characters. A terminal would obey them: it would hide lines, rename its window or type into its
//! own input. So Weft escapes them in everything that it shows to people, and in everything that it
//! writes into conditions and events, which other programs show.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use serde_json::Value;

/// The same text with each control character in a form that a person can see and a terminal does
/// not obey.
///
/// ESC becomes `^[` and a carriage return `\r`, as kubectl writes them. The other control
/// characters below the blank become a caret and a letter (BEL is `^G`). DEL, the control
/// characters U+0080 to U+009F and the characters that reorder text (U+202A to U+202E, U+2066 to
/// U+2069) become `\u` and four hexadecimal digits. Line breaks and tabs stay, since layout needs
/// them.
///
/// Escaping twice changes nothing more. JSON stays the same data: a serialiser leaves only the last
/// group as it is, and the form of these is JSON's own.
pub fn text(raw: &str) -> Cow<'_, str> {
    if !raw.contains(is_unsafe) {
        return Cow::Borrowed(raw);
    }
    let mut shown = String::with_capacity(raw.len() + 8);
    for character in raw.chars() {
        match u8::try_from(character) {
            _ if !is_unsafe(character) => shown.push(character),
            Ok(b'\r') => shown.push_str("\\r"),
            Ok(control @ 0..=0x1f) => shown.extend(['^', char::from(control + 0x40)]),
            _ => shown.push_str(&format!("\\u{:04x}", u32::from(character))),
        }
    }
    Cow::Owned(shown)
}

/// As [`text`], and a line break becomes `\n`: for what must stay in its line, such as a name.
pub fn line(raw: &str) -> Cow<'_, str> {
    match text(raw) {
        shown if shown.contains('\n') => Cow::Owned(shown.replace('\n', "\\n")),
        shown => shown,
    }
}

/// Escapes each string in a value as [`text`] does, at any depth. Names of fields stay.
pub fn strings(value: &mut Value) {
    match value {
        Value::String(string) => {
            if let Cow::Owned(shown) = text(string) {
                *string = shown;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(strings),
        Value::Object(fields) => fields.values_mut().for_each(strings),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Passes on text as [`text`] shows it, for logs: no event can forget to escape one of its fields.
/// Each write has to be whole characters. Bytes that are not UTF-8 become U+FFFD.
pub struct Writer<W>(pub W);

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .write_all(text(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn is_unsafe(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn each_control_character_has_a_visible_form() {
        for (raw, shown) in [
            ("\x1b[2J\x1b]0;title\x07", "^[[2J^[]0;title^G"),
            ("a\rb\r\n", "a\\rb\\r\n"),
            ("\0\x08\x0b\x0c\x0e\x1f", "^@^H^K^L^N^_"),
            (
                "\x7f\u{80}\u{9b}31m\u{9f}",
                "\\u007f\\u0080\\u009b31m\\u009f",
            ),
            (
                "\u{202a}\u{202e}\u{2066}\u{2069}",
                "\\u202a\\u202e\\u2066\\u2069",
            ),
            (
                "two\nlines\tand \u{200f}שלום, für 日本 ^[ \\r",
                "two\nlines\tand \u{200f}שלום, für 日本 ^[ \\r",
            ),
        ] {
            assert_eq!(text(raw), shown);
        }
        assert_eq!(line("a\nb\x1b"), "a\\nb^[");
        assert!(matches!(text("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn all_strings_of_a_value_are_escaped_and_nothing_else() {
        let mut value = json!({"a\x1b": ["\x1b", {"b": "\u{9b}"}], "c": 1, "d": null, "e": true});
        strings(&mut value);
        assert_eq!(
            value,
            json!({"a\x1b": ["^[", {"b": "\\u009b"}], "c": 1, "d": null, "e": true})
        );
    }

    #[test]
    fn a_writer_passes_on_escaped_text() {
        let mut written = Writer(Vec::new());
        written.write_all("a\x1bb\u{9b}\n".as_bytes()).unwrap();
        written.write_all(b"\xff").unwrap();
        assert_eq!(
            String::from_utf8(written.0).unwrap(),
            "a^[b\\u009b\n\u{fffd}"
        );
    }

    proptest! {
        #[test]
        fn escaped_text_holds_nothing_unsafe_and_stays_as_it_is(raw in any::<String>()) {
            let shown = text(&raw).into_owned();
            prop_assert!(!shown.contains(is_unsafe));
            prop_assert_eq!(text(&shown), shown.as_str());
        }

        #[test]
        fn escaped_json_is_the_same_data(key in any::<String>(), string in any::<String>(), unsafe_one in "[\u{7f}-\u{9f}\u{202a}-\u{202e}\u{2066}-\u{2069}]") {
            let value = json!({key: [string, unsafe_one]});
            let shown = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&text(&shown)).unwrap(), value);
        }
    }
}
