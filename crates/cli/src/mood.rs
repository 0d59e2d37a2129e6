//! How bad a state is, and the verdict over several.

use crate::output::Style;

/// How bad a state is, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mood {
    /// All is as the user wants it.
    Good,
    /// The same, and there is something to know.
    Notice,
    /// Something is in progress.
    Pending,
    /// A person has to act.
    Bad,
}

impl Mood {
    /// Colours a text.
    pub fn paint(self, style: Style, text: &str) -> String {
        match self {
            Self::Good => style.good(text),
            Self::Notice | Self::Pending => style.pending(text),
            Self::Bad => style.bad(text),
        }
    }

    /// Returns the word for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Good | Self::Notice => "Healthy",
            Self::Pending => "Progressing",
            Self::Bad => "Unhealthy",
        }
    }
}
