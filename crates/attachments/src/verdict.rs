//! A judgement of a part of a CNI configuration.

use std::fmt;

/// The consequence of a mistake for pods that ask for the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// They do not start: the program that reads this part refuses it.
    Refused,
    /// They do not start with the versions of the programs that Weft knows. A later version may
    /// take this part.
    Unsupported,
    /// They start, or it depends on more than the text, and this part has another effect than it
    /// seems to have.
    Doubtful,
}

/// A mistake in a CNI configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The path of the field in the configuration, such as `plugins[1].ipam.range`. Empty if the
    /// verdict is about all of it.
    pub field: String,
    /// The mistake, the rule and the fix, as the rest of a sentence that begins with the field.
    pub message: String,
    /// The consequence.
    pub level: Level,
}

impl Verdict {
    pub(crate) fn refused(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
            level: Level::Refused,
        }
    }

    pub(crate) fn doubtful(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            level: Level::Doubtful,
            ..Self::refused(field, message)
        }
    }

    /// Returns true if no pod starts that asks for the network, as far as Weft knows.
    pub fn stops_pods(&self) -> bool {
        self.level < Level::Doubtful
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field} {}", self.message),
        }
    }
}
