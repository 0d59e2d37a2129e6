//! The list of all that is wrong with a resource, as it is gathered field by field.

use std::{fmt::Display, str::FromStr};

use weft_plan::Problem;

/// The mistakes found so far.
#[derive(Debug, Default)]
pub struct Problems(Vec<Problem>);

/// A text that is there and not empty: an empty one counts as left out.
pub fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

impl Problems {
    /// Adds one. `message` has the value, the rule and the way out.
    pub fn push(&mut self, field: &str, message: impl Into<String>) {
        self.0.push(Problem {
            field: field.to_owned(),
            message: message.into(),
        });
    }

    /// Adds one, and is the value that cannot be had.
    pub fn none<T>(&mut self, field: &str, message: &str) -> Option<T> {
        self.push(field, message);
        None
    }

    /// Adds those that another user has found.
    pub fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        self.0.extend(problems);
    }

    /// The value of a field that may be left out. A problem if it cannot be read.
    pub fn parse<T: FromStr<Err: Display>>(
        &mut self,
        field: &str,
        text: Option<&str>,
    ) -> Option<T> {
        text?
            .parse()
            .map_err(|error: T::Err| self.push(field, error.to_string()))
            .ok()
    }

    /// A text that may be left out, and follows a rule. `complaint` says so after the value.
    pub fn text(
        &mut self,
        field: &str,
        text: &Option<String>,
        rule: fn(&str) -> bool,
        complaint: &str,
    ) -> Option<String> {
        let text = given(text)?;
        if !rule(text) {
            return self.none(field, &format!("{text:?} {complaint}"));
        }
        Some(text.to_owned())
    }

    /// Returns all problems.
    pub fn into_vec(self) -> Vec<Problem> {
        self.0
    }

    /// Returns `right` if there is no mistake.
    ///
    /// # Errors
    /// All problems.
    pub fn or<T>(self, right: T) -> Result<T, Vec<Problem>> {
        if self.0.is_empty() {
            Ok(right)
        } else {
            Err(self.0)
        }
    }
}
