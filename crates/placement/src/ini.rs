//! Files in the form of oslo.config: written so that every value comes back as it was, and checked.
//!
//! The effects of its parser on a value, and the protection against them
//! (`oslo_config/iniparser.py`, `cfg.py`):
//!
//! - it strips blanks at both ends, and one pair of equal quotes: so a value that begins or ends
//!   with one of these is written between quotes, and an empty one too;
//! - it replaces `$name` and `${name}` by other options, and takes `\$` for a dollar sign: so that
//!   is how one is written;
//! - a line break ends it: so a control character is refused, for no way of writing one brings it
//!   back.

use std::fmt::Write;

/// Why a value cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IniError {
    /// It has a control character.
    #[error(
        "{what} has the control character {character:?} at position {position}, which a configuration file cannot hold{hint}",
        hint = if *last { ": it is the last one, so write the Secret without the line break (printf instead of echo)" } else { "" }
    )]
    Control {
        /// whose value it is
        what: String,
        /// the character
        character: char,
        /// the first is 1
        position: usize,
        /// true if no line follows
        last: bool,
    },
}

/// A file in the making.
#[derive(Debug, Default)]
pub struct Ini(String);

impl Ini {
    /// Begins a section.
    pub fn section(&mut self, name: &str) -> &mut Self {
        let blank = if self.0.is_empty() { "" } else { "\n" };
        // Writing to a text does not fail.
        let _ = writeln!(self.0, "{blank}[{name}]");
        self
    }

    /// An option with a value of ours.
    pub fn plain(&mut self, option: &str, value: &str) -> &mut Self {
        let _ = writeln!(self.0, "{option} = {value}");
        self
    }

    /// An option with another user's value, whatever it is. `what` names it to people.
    ///
    /// # Errors
    /// It has a control character.
    pub fn value(&mut self, option: &str, value: &str, what: &str) -> Result<&mut Self, IniError> {
        let quoted = quoted(value, what)?;
        Ok(self.plain(option, &quoted))
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// The value as it stands in a file.
fn quoted(value: &str, what: &str) -> Result<String, IniError> {
    refuse_control(value, what)?;
    let escaped = value.replace('$', "\\$");
    let is_stripped =
        |character: char| character.is_whitespace() || ['"', '\''].contains(&character);
    let is_changed =
        escaped.is_empty() || escaped.starts_with(is_stripped) || escaped.ends_with(is_stripped);
    Ok(if is_changed {
        format!("\"{escaped}\"")
    } else {
        escaped
    })
}

/// # Errors
/// The text has a control character.
pub fn refuse_control(text: &str, what: &str) -> Result<(), IniError> {
    match text
        .chars()
        .enumerate()
        .find(|(_, character)| character.is_control())
    {
        None => Ok(()),
        Some((index, character)) => {
            let last = text.trim_end_matches(['\n', '\r']).chars().count() <= index;
            Err(IniError::Control {
                what: what.to_owned(),
                character,
                position: index + 1,
                last,
            })
        }
    }
}

/// The settings of a user as a file: options before the first section are of `[DEFAULT]`, without
/// which oslo.config refuses them.
pub fn with_section(text: &str) -> String {
    let mut lines = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    if lines.next().is_none_or(|line| line.starts_with('[')) {
        text.to_owned()
    } else {
        format!("[DEFAULT]\n{text}")
    }
}

/// The first error in settings that a user has written, with the number of its line. `None` if
/// Placement can read them [`with_section`].
pub fn complaint(text: &str) -> Option<String> {
    let mut in_value = false;
    for (index, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let wrong = |why: &str| Some(format!("line {}, {:?}: {why}", index + 1, line));
        let trimmed = line.trim_end_matches([' ', '\t']);
        if line.contains('\r') {
            return wrong("a carriage return stands within it");
        } else if trimmed.is_empty() {
            in_value = false;
        } else if trimmed.starts_with([' ', '\t']) {
            if !in_value {
                return wrong(
                    "it begins with a blank, and there is no value before it that it could continue",
                );
            }
        } else if trimmed.starts_with(['#', ';']) {
            in_value = false;
        } else if trimmed.starts_with('[') {
            if !trimmed.ends_with(']') || trimmed.len() <= 2 {
                return wrong("a section is a name in brackets, for example [DEFAULT]");
            }
            in_value = false;
        } else {
            match trimmed.find(['=', ':']) {
                None => return wrong("an option has a value after '=', for example debug = true"),
                Some(at)
                    if trimmed[..at].trim().is_empty()
                        || trimmed.starts_with(char::is_whitespace) =>
                {
                    return wrong("the name of the option is missing");
                }
                Some(_) => in_value = true,
            }
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use proptest::prelude::*;
    use regex::Regex;
    use weft_api::placement::patterns::OSLO_CONFIG;

    use super::*;
    pub use crate::hazards::HAZARDS;

    /// Reads an option as oslo.config does: its parser, then its substitution by
    /// `string.Template.safe_substitute`.
    pub fn read(text: &str, section: &str, option: &str) -> Option<String> {
        let mut current = "";
        let mut found = None;
        for line in text.split('\n') {
            let line = line.trim_end();
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|line| line.strip_suffix(']'))
            {
                current = name;
            } else if let Some(at) = line.find(['=', ':'])
                && current == section
                && line[..at].trim() == option
            {
                let value = line[at + 1..].trim();
                let quote = value
                    .chars()
                    .next()
                    .filter(|first| ['"', '\''].contains(first) && value.ends_with(*first));
                let value = if quote.is_some() {
                    value.get(1..value.len() - 1).unwrap_or_default()
                } else {
                    value
                };
                found = Some(substitute(&value.replace("\\$", "$$")));
            }
        }
        found
    }

    /// `$$` is a dollar sign. `$name` and `${name}` would be other options, of which there are none
    /// here.
    fn substitute(value: &str) -> String {
        Regex::new(r"\$(\$|[A-Za-z_][A-Za-z0-9_.]*|\{[^}]*\})")
            .unwrap()
            .replace_all(value, |found: &regex::Captures<'_>| {
                if &found[1] == "$" {
                    "$".to_owned()
                } else {
                    "<other option>".to_owned()
                }
            })
            .into_owned()
    }

    fn comes_back(value: &str) {
        let mut ini = Ini::default();
        ini.section("DEFAULT")
            .plain("debug", "false")
            .section("keystone_authtoken");
        ini.value("password", value, "the password").unwrap();
        ini.plain("after", "1");
        let text = ini.into_text();
        assert_eq!(
            read(&text, "keystone_authtoken", "password").as_deref(),
            Some(value),
            "{text}"
        );
        assert_eq!(
            read(&text, "keystone_authtoken", "after").as_deref(),
            Some("1"),
            "{text}"
        );
        assert_eq!(complaint(&text), None, "{text}");
    }

    #[test]
    fn every_hazard_comes_back() {
        HAZARDS.iter().for_each(|value| comes_back(value));
    }

    proptest! {
        #[test]
        fn any_value_comes_back(value in "\\PC*") {
            comes_back(&value);
        }

        /// The same rule stands in the schema, as one pattern.
        #[test]
        fn the_pattern_of_the_schema_says_the_same(text in r"(\[|\]|=|:|#|;| |\t|a|b|\n|\r\n){0,40}") {
            prop_assert_eq!(complaint(&text).is_none(), Regex::new(OSLO_CONFIG).unwrap().is_match(&text), "{:?}: {:?}", text, complaint(&text));
        }
    }

    #[test]
    fn a_control_character_is_refused_with_the_way_out() {
        let error = |value: &str| {
            Ini::default()
                .value(
                    "password",
                    value,
                    "key PlacementPassword of Secret osp-secret",
                )
                .unwrap_err()
                .to_string()
        };
        assert!(
            error("a\n")
                .ends_with("write the Secret without the line break (printf instead of echo)"),
            "{}",
            error("a\n")
        );
        assert!(
            error("12345678\nauth_url = http://elsewhere")
                .starts_with("key PlacementPassword of Secret osp-secret has the control character '\\n' at position 9")
        );
        assert!(!error("a\nb").contains("printf"));
    }

    #[test]
    fn only_what_the_parser_would_strip_is_quoted() {
        let written = |value: &str| quoted(value, "the password").unwrap();
        for plain in ["12345678", "a b", "a\"b", "#a", "a;b", "[a]", "a=b", "\\"] {
            assert_eq!(written(plain), plain);
        }
        assert_eq!(written("a$b"), "a\\$b");
        for stripped in ["", " a", "a ", "\"a\"", "'a", "\u{a0}a"] {
            assert_eq!(written(stripped), format!("\"{stripped}\""));
        }
    }

    #[test]
    fn options_without_a_section_are_of_the_default_one() {
        assert_eq!(with_section("foo = bar\n"), "[DEFAULT]\nfoo = bar\n");
        assert_eq!(
            with_section("# why\n\nfoo = bar\n[api]\na = b"),
            "[DEFAULT]\n# why\n\nfoo = bar\n[api]\na = b"
        );
        for as_it_is in [
            "",
            "\n# why\n",
            "[DEFAULT]\nfoo = bar",
            "# why\n[api]\na = b",
        ] {
            assert_eq!(with_section(as_it_is), as_it_is);
        }
    }

    #[test]
    fn a_complaint_names_the_line() {
        assert_eq!(complaint("foo = bar"), None);
        assert_eq!(
            complaint("foo").unwrap(),
            "line 1, \"foo\": an option has a value after '=', for example debug = true"
        );
        assert!(
            complaint("[DEFAULT]\n\ndebug")
                .unwrap()
                .starts_with("line 3, \"debug\"")
        );
    }
}
