//! Parts of a text that `kubectl` reads in another way than they look.

use serde_json::Value;

use crate::Position;

/// A note about such a part, with the fix.
#[derive(Debug, PartialEq, Eq)]
pub struct Note {
    position: Position,
    message: String,
}

impl Note {
    /// The note about a number that begins with a zero. `written` is the number in the file, for
    /// example `0100`, and `value` the one that `kubectl` sends, for example 64.
    pub(crate) fn octal(position: Position, path: &str, written: &str, value: &Value) -> Self {
        let message = format!(
            "{path}: {written} begins with a zero, so kubectl reads it as an octal number and sends {value}: write {value}, or leave out the zero"
        );
        Self { position, message }
    }

    /// The note about several JSON objects behind a comment, at the second one.
    pub(crate) fn unread(position: Position) -> Self {
        let message = "kubectl reads only the first of these JSON objects, since a comment stands before them: remove the comment, or put --- on a line of its own before each object".to_owned();
        Self { position, message }
    }

    /// Returns the note behind its place in a file of this name, as compilers write it.
    pub fn in_file(&self, name: &str) -> String {
        let Position { line, column } = self.position;
        format!("{name}:{line}:{column}: {}", self.message)
    }
}
