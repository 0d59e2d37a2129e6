//! The state of a part as people see it: a sign, a word, and a class that gives it a colour and a
//! border.

use weft_node_network::graph::model::{Change, Health, Part};

use super::words;

/// A state. A change to come says more than that something is in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// How far it is from being as the policies want it.
    pub health: Health,
    /// The change to come, if that is all that is to be said.
    change: Option<Change>,
}

impl From<Health> for State {
    fn from(health: Health) -> Self {
        Self {
            health,
            change: None,
        }
    }
}

impl From<Change> for State {
    fn from(change: Change) -> Self {
        Self {
            health: Health::Pending,
            change: Some(change),
        }
    }
}

impl From<&Part> for State {
    fn from(part: &Part) -> Self {
        Self {
            health: part.health,
            change: part.change,
        }
    }
}

impl State {
    /// Returns the worst state of these parts. Different changes together are a change.
    pub(super) fn worst<'a>(parts: impl Iterator<Item = &'a Part>) -> Self {
        parts
            .map(Self::from)
            .reduce(|worst, state| match worst.health.cmp(&state.health) {
                std::cmp::Ordering::Less => state,
                std::cmp::Ordering::Equal if worst != state => Self {
                    change: Some(Change::Changed),
                    ..worst
                },
                _ => worst,
            })
            .unwrap_or_default()
    }

    /// Returns true if there is nothing to say.
    pub(super) fn is_good(self) -> bool {
        self.health == Health::Good
    }

    /// Returns the sign.
    pub(super) fn sign(self) -> &'static str {
        match self.change {
            Some(change) => change.sign(),
            None => self.health.sign(),
        }
    }

    /// Returns sign and word: `~ drift`, `+ will be added`.
    pub(super) fn text(self) -> String {
        match self.change {
            Some(change) => format!("{} {}", change.sign(), change.word()),
            None => words::health(self.health),
        }
    }

    /// Returns the class that the style sheets know.
    pub(super) fn class(self) -> &'static str {
        match (self.change, self.health) {
            (Some(Change::Added), _) => "added",
            (Some(Change::Changed), _) => "changed",
            (Some(Change::Removed), _) => "removed",
            (None, Health::Good) => "ok",
            (None, Health::Unknown) => "unknown",
            (None, Health::Pending) => "pending",
            (None, Health::Drift) => "drift",
            (None, Health::Failed) => "failed",
        }
    }
}
