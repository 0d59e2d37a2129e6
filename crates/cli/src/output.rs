//! How results are shown: for people without control characters of others, for programs as YAML and
//! files. All that this program prints goes through here.

use std::{
    ffi::OsString,
    fs,
    hash::{BuildHasher, RandomState},
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    sync::LazyLock,
};

use anyhow::{Context, Result};
use serde_json::Value;
use weft_plan::{Kind, Live, ObjectKey, escape};

/// One object as a YAML document, without separator. Keys are sorted, so that equal objects have
/// equal texts.
///
/// # Errors
/// The value cannot be written as YAML, which no value read from YAML or JSON is.
pub fn yaml(object: &Value) -> Result<String> {
    serde_saphyr::to_string(object).context("cannot write YAML")
}

/// Several objects as one YAML stream.
///
/// # Errors
/// As [`yaml`].
pub fn yaml_stream<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Result<String> {
    let documents = objects.into_iter().map(yaml).collect::<Result<Vec<_>>>()?;
    Ok(documents.join("---\n"))
}

/// Writes text for people, or JSON, to stdout: emphasis as colour, and control characters of others
/// escaped.
///
/// # Errors
/// As [`print_as_is`].
pub fn print(text: &str) -> Result<()> {
    print_as_is(&shown(text))
}

/// Writes a line for people to stderr, as [`print`] does. Ignores a closed stderr, since there is
/// nowhere to report it.
pub fn say(line: &str) {
    say_here(&format!("{line}\n"));
}

/// Writes as [`say`] does, but without a line break.
pub fn say_here(text: &str) {
    let _ = io::stderr().lock().write_all(shown(text).as_bytes());
}

/// Writes to stdout what must not be altered: YAML, which has its own escapes, and scripts of ours.
/// A reader that has seen enough (`weft manifests | head`) ends the program quietly, as is usual
/// for filters.
///
/// # Errors
/// Any other failure to write.
pub fn print_as_is(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => written.context("cannot write to stdout"),
    }
}

/// The place and form of objects that a command prints: `-o yaml`, `-o json`, or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// YAML documents on stdout.
    Yaml,
    /// One JSON document of the kind List on stdout.
    Json,
    /// Files in this folder.
    Folder(PathBuf),
}

impl From<&str> for Target {
    fn from(text: &str) -> Self {
        match text {
            "yaml" => Self::Yaml,
            "json" => Self::Json,
            folder => Self::Folder(folder.into()),
        }
    }
}

/// Writes a value as JSON to stdout.
///
/// # Errors
/// As [`print_as_is`].
pub fn print_json(value: &Value) -> Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Writes objects as a JSON document of the kind List to stdout, as `kubectl get -o json` does.
///
/// # Errors
/// As [`print_as_is`].
pub fn print_list<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Result<()> {
    let items: Vec<_> = objects.into_iter().collect();
    print_json(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}))
}

/// Writes files into a folder, which is made where it is missing, and says which.
///
/// # Errors
/// The folder or a file cannot be written.
pub fn write_files<'a>(
    folder: &Path,
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        say(&format!("wrote {}", path.display()));
    }
    Ok(())
}

/// Begins each change of emphasis in a text, up to [`shown`]. It is drawn at random when the
/// program starts, so that no text of others can hold it.
static MARK: LazyLock<String> =
    LazyLock::new(|| format!("\x1b{:016x}", RandomState::new().hash_one(())));

/// A text as a terminal gets it: where [`Style`] has set emphasis there is a colour, and no other
/// control character is left.
pub fn shown(text: &str) -> String {
    let mut parts = text.split(MARK.as_str());
    let mut shown = escape::text(parts.next().unwrap_or_default()).into_owned();
    for (code, text) in parts.filter_map(|part| part.split_once('m')) {
        shown.push_str(&format!("\x1b[{code}m{}", escape::text(text)));
    }
    shown
}

/// Emphasis for people at a terminal. Plain text for pipes and files, where `NO_COLOR` is set
/// (<https://no-color.org>), and on a terminal without colours (`TERM=dumb`).
#[derive(Clone, Copy)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// For what goes to stdout.
    pub fn stdout() -> Self {
        Self::of(io::stdout().is_terminal())
    }

    /// For what goes to stderr.
    pub fn stderr() -> Self {
        Self::of(io::stderr().is_terminal())
    }

    /// For text that programs read.
    pub fn plain() -> Self {
        Self { colour: false }
    }

    fn of(terminal: bool) -> Self {
        Self::by(terminal, |variable| std::env::var_os(variable))
    }

    fn by(terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let no_colour = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = variable("TERM").is_some_and(|terminal| terminal == "dumb");
        Self {
            colour: terminal && !no_colour && !is_dumb,
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("{mark}{code}m{text}{mark}0m", mark = *MARK)
        } else {
            text.to_owned()
        }
    }

    /// Marks the subject of a line.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Marks an error.
    pub fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Marks a change, or progress.
    pub fn pending(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Marks a side note.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Marks success.
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }
}

/// Returns the name of a resource for people: `NMState nmstate`, `PlacementAPI
/// openstack/placement`.
pub fn title(kind: Kind, resource: &Value) -> String {
    let resource = Live::of(resource);
    ObjectKey::new(kind, resource.namespace(), resource.name()).human()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    /// kubectl reads YAML 1.1, where all of these would be something else without quotes.
    #[test]
    fn strings_stay_strings_for_every_yaml_parser() {
        for text in [
            "yes",
            "No",
            "on",
            "off",
            "y",
            "null",
            "~",
            "",
            "1",
            "0x1f",
            "0o17",
            "017",
            "1e3",
            "1_000",
            ".5",
            "1:30",
            "true",
            "2001-01-01",
            "=",
            "<<",
            "- a",
            "a: b",
            "a #b",
            "*x",
            "&x",
            "!x",
            "%x",
            "@x",
            "`x",
            " a",
            "a\nb",
            "a\tb",
            "\u{7f}",
            "{",
            "[",
            "'",
            "\"",
        ] {
            let written = yaml(&json!({ "k": text })).unwrap();
            let read: Value = serde_saphyr::from_str(&written).unwrap();
            assert_eq!(read, json!({ "k": text }), "{written}");
            if text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "._:".contains(c))
            {
                assert!(
                    written.contains(['"', '\'']),
                    "{text:?} is written without quotes: {written}"
                );
            }
        }
    }

    #[test]
    fn a_terminal_gets_colour_unless_a_variable_says_no() {
        let colour = |terminal: bool, set: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            };
            Style::by(terminal, variable).colour
        };
        assert!(colour(true, &[]) && colour(true, &[("TERM", "xterm"), ("NO_COLOR", "")]));
        assert!(!colour(false, &[("TERM", "xterm")]));
        assert!(!colour(true, &[("TERM", "dumb")]));
        assert!(!colour(true, &[("TERM", "xterm"), ("NO_COLOR", "1")]));
    }

    #[test]
    fn only_emphasis_of_style_becomes_an_escape_sequence() {
        let style = Style { colour: true };
        let text = format!(
            "{} {}: \x1b[32mgood\x1b[0m\n",
            style.bold("\x1b[2Jname"),
            style.bad("Failing")
        );
        assert_eq!(
            shown(&text),
            "\x1b[1m^[[2Jname\x1b[0m \x1b[1;31mFailing\x1b[0m: ^[[32mgood^[[0m\n"
        );
        assert_eq!(shown(&Style { colour: false }.bold("a\x07b")), "a^Gb");
    }

    /// Commands print YAML as it is.
    #[test]
    fn yaml_escapes_control_characters_itself() {
        let object = json!({"a\u{1b}b": "c\u{7}\u{9b}\u{7f}\r", "block": "line\u{1b}[2J\nline\n"});
        let written = yaml(&object).unwrap();
        assert!(
            written.chars().all(|c| c == '\n' || !c.is_control()),
            "{written:?}"
        );
        assert_eq!(serde_saphyr::from_str::<Value>(&written).unwrap(), object);
    }

    #[test]
    fn a_stream_is_read_back_as_it_was() {
        let objects = [
            json!({"a": {"b": [1, 2.5, {"c": null}], "d": {}, "e": []}}),
            json!({"long": "x ".repeat(200), "lines": "a\n  b\n\nc\n"}),
        ];
        let stream = yaml_stream(&objects).unwrap();
        let read: Vec<Value> = serde_saphyr::from_multiple(&stream).unwrap();
        assert_eq!(read, objects);
    }
}
