//! Fields that an object has twice.

use crate::Position;

/// A field that an object has several times. `kubectl` takes the last one without a message, and so
/// does a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The path of the field.
    pub path: String,
    /// The line of the first one.
    pub(crate) first: u64,
    /// The place of the last one.
    pub(crate) at: Position,
}

impl Repeated {
    /// Returns the mistake and its fix, without the path of the field.
    pub fn message(&self) -> String {
        format!(
            "is there twice, first in line {}, and kubectl takes the last one without a message: remove one of them",
            self.first
        )
    }

    /// Returns the message behind its place in a file of this name, as compilers write it.
    pub fn in_file(&self, name: &str) -> String {
        let (Position { line, column }, path) = (self.at, &self.path);
        format!("{name}:{line}:{column}: {path}: {}", self.message())
    }
}
