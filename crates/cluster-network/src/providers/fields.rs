//! Common parts of the settings of networks: ranges, choices, and changes.

use std::{fmt::Debug, ops::RangeInclusive};

use weft_plan::{FieldChange, Problem};

/// Every IPv4 host takes packets of 576 bytes (RFC 791). A packet is at most 65536 bytes long.
pub(crate) const MTU: RangeInclusive<i64> = 576..=65536;

/// The least MTU of a link with IPv6 (RFC 8200).
pub(crate) const IPV6_MTU: i64 = 1280;

/// TCP and UDP ports that can be listened on.
pub(crate) const PORT: RangeInclusive<i64> = 1..=65535;

/// The problem of a number that is out of its range.
pub(crate) fn in_range(
    path: &str,
    field: &str,
    value: Option<i64>,
    range: RangeInclusive<i64>,
) -> Option<Problem> {
    let value = value.filter(|value| !range.contains(value))?;
    let (least, most) = range.into_inner();
    Some(problem(
        path,
        field,
        format!("{value} is out of range: choose {least} to {most}, or leave the field out"),
    ))
}

/// The problem of a word that is none of those that are known.
pub(crate) fn one_of(
    path: &str,
    field: &str,
    value: Option<&String>,
    known: &[&str],
) -> Option<Problem> {
    let value = value.filter(|value| !known.contains(&value.as_str()))?;
    Some(problem(
        path,
        field,
        format!(
            "{value:?} is not known: choose {}, or leave the field out",
            known.join(", ")
        ),
    ))
}

/// A problem of a field.
pub(crate) fn problem(path: &str, field: &str, message: String) -> Problem {
    Problem {
        field: format!("{path}.{field}"),
        message,
    }
}

/// Puts a word right: its letters' case (`Networkpolicy` is `NetworkPolicy`), and that an empty one
/// says nothing.
pub(crate) fn canonicalise(
    value: &mut Option<String>,
    known: impl IntoIterator<Item = &'static str>,
) {
    if value.as_ref().is_some_and(String::is_empty) {
        *value = None;
    }
    if let Some(value) = value
        && let Some(canonical) = known
            .into_iter()
            .find(|known| known.eq_ignore_ascii_case(value))
    {
        canonical.clone_into(value);
    }
}

/// Collects the fields that differ.
pub(crate) struct Changes {
    path: &'static str,
    found: Vec<FieldChange>,
}

impl Changes {
    pub(crate) fn under(path: &'static str) -> Self {
        Self {
            path,
            found: Vec::new(),
        }
    }

    /// Adds a field if it differs. Both configurations are complete, so there is a value.
    pub(crate) fn compare<T: PartialEq + Debug>(
        &mut self,
        field: &str,
        old: &Option<T>,
        new: &Option<T>,
        why: &str,
    ) {
        if old != new {
            let text = |value: &Option<T>| {
                value
                    .as_ref()
                    .map(|value| format!("{value:?}").trim_matches('"').to_owned())
                    .unwrap_or_default()
            };
            self.found.push(FieldChange {
                field: format!("{}.{field}", self.path),
                old: text(old),
                new: text(new),
                why: why.to_owned(),
            });
        }
    }

    pub(crate) fn found(self) -> Vec<FieldChange> {
        self.found
    }
}
