//! The table of all conditions of Weft's resources, and of Weft's events: `table.yaml`.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::suggest::did_you_mean;

/// Stands for the reason of the condition that a condition repeats.
pub const REPEATED: &str = "*";

/// The table, or the part of it that a word names.
#[derive(Debug, Deserialize, Serialize)]
pub struct Table {
    /// The types of conditions.
    pub types: Vec<Type>,
    /// The statuses and reasons of conditions, by kind.
    pub sections: Vec<Section>,
    /// The events.
    pub events: Vec<Event>,
}

/// A type of conditions.
#[derive(Debug, Deserialize, Serialize)]
pub struct Type {
    /// The name, for example `Available`.
    pub name: String,
    /// The kinds that have it.
    pub kinds: Vec<String>,
    /// The meaning of a condition of this type that is True.
    pub meaning: String,
}

/// The conditions of some kinds.
#[derive(Debug, Deserialize, Serialize)]
pub struct Section {
    /// The kinds.
    pub kinds: Vec<String>,
    /// The conditions.
    pub rows: Vec<Row>,
}

/// A combination of type, status and reason.
#[derive(Debug, Deserialize, Serialize)]
pub struct Row {
    /// The types.
    pub types: Vec<String>,
    /// True, False or Unknown.
    pub statuses: Vec<String>,
    /// The reasons. An empty one means that the condition has none. [`REPEATED`] means any reason
    /// of the kind.
    pub reasons: Vec<String>,
    /// The kinds of the section that have this. Empty: all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// When a condition is so.
    pub when: String,
    /// The action that the user takes. Empty: none.
    #[serde(default)]
    pub fix: String,
}

/// An event.
#[derive(Debug, Deserialize, Serialize)]
pub struct Event {
    /// Normal or Warning.
    #[serde(rename = "type")]
    pub type_: String,
    /// The kinds that it is about.
    pub kinds: Vec<String>,
    /// The reasons.
    pub reasons: Vec<String>,
    /// When Weft publishes it.
    pub when: String,
}

impl Table {
    /// Reads the table.
    ///
    /// # Errors
    /// The table is not valid, which a test excludes.
    pub fn read() -> Result<Self> {
        serde_saphyr::from_str(include_str!("table.yaml")).context("the table of reasons")
    }

    /// Returns all words that the table explains.
    pub fn words(&self) -> Vec<&str> {
        let types = self.types.iter().map(|one| one.name.as_str());
        let reasons = self
            .sections
            .iter()
            .flat_map(|section| &section.rows)
            .flat_map(|row| &row.reasons);
        let events = self.events.iter().flat_map(|event| &event.reasons);
        let mut words: Vec<&str> = types
            .chain(reasons.chain(events).map(|word| first_word(word)))
            .filter(|word| !word.is_empty() && *word != REPEATED)
            .collect();
        words.sort_unstable();
        words.dedup();
        words
    }

    /// Returns the word of the table that is equal but for the case of letters.
    pub fn find(&self, word: &str) -> Option<String> {
        self.words()
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(word))
            .map(str::to_owned)
    }

    /// Returns the word that a mistyped one may mean.
    pub fn suggest(&self, word: &str) -> Option<String> {
        did_you_mean(word, self.words()).map(str::to_owned)
    }

    /// Returns the part of the table that is about a word: a type of conditions or a reason.
    #[must_use]
    pub fn about(mut self, word: &str) -> Self {
        self.types.retain(|one| one.name == word);
        for section in &mut self.sections {
            section.rows.retain(|row| {
                let names = row.types.iter().chain(&row.reasons);
                names.into_iter().any(|name| name == word)
            });
            for row in &mut section.rows {
                narrow(&mut row.types, word);
                narrow(&mut row.reasons, word);
            }
        }
        self.sections.retain(|section| !section.rows.is_empty());
        self.events.retain(|event| {
            event
                .reasons
                .iter()
                .any(|reason| first_word(reason) == word)
        });
        for event in &mut self.events {
            event.reasons.retain(|reason| first_word(reason) == word);
        }
        self
    }
}

/// Keeps only the word in a list that has it.
fn narrow(names: &mut Vec<String>, word: &str) {
    if names.iter().any(|name| name == word) {
        names.retain(|name| name == word);
    }
}

/// The word that a user looks for: `Failed` of `Failed: REASON`.
fn first_word(reason: &str) -> &str {
    reason.split(':').next().unwrap_or_default()
}

impl Section {
    /// Returns the kinds that have what a row says.
    pub fn kinds_of<'a>(&'a self, row: &'a Row) -> &'a [String] {
        if row.only.is_empty() {
            &self.kinds
        } else {
            &row.only
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_type_of_a_row_has_a_meaning_for_each_of_its_kinds() {
        let table = Table::read().unwrap();
        for section in &table.sections {
            for row in &section.rows {
                for (kind, type_) in section
                    .kinds_of(row)
                    .iter()
                    .flat_map(|kind| row.types.iter().map(move |type_| (kind, type_)))
                {
                    assert!(
                        table
                            .types
                            .iter()
                            .any(|one| one.name == *type_ && one.kinds.contains(kind)),
                        "{kind} {type_}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_row_that_a_user_must_act_on_says_how() {
        let table = Table::read().unwrap();
        for row in table.sections.iter().flat_map(|section| &section.rows) {
            assert!(!row.when.is_empty(), "{row:?}");
            let bad = ["Degraded", "Failing", "Blocked", "Stalled", "Conflict"];
            if row.statuses == ["True"] && row.types.iter().any(|one| bad.contains(&&**one)) {
                assert!(!row.fix.is_empty(), "{row:?}");
            }
        }
    }

    #[test]
    fn the_part_about_a_word_names_no_other_reason() {
        for word in Table::read().unwrap().words() {
            let part = Table::read().unwrap().about(word);
            let found = part.types.len() + part.sections.len() + part.events.len();
            assert!(found > 0, "{word}");
        }
        let part = Table::read().unwrap().about("RolloutStuck");
        let reasons: BTreeSet<_> = part
            .sections
            .iter()
            .flat_map(|section| &section.rows)
            .flat_map(|row| row.reasons.clone())
            .collect();
        assert_eq!(reasons, ["RolloutStuck".to_owned()].into());
    }
}
