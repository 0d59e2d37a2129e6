//! A mistake in a state, with the place and the fix.

use crate::path::Path;

/// A state that nmstate does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// A key that nmstate does not know.
    #[error("{path} is not known to nmstate{}", suggestion.as_deref().map(did_you_mean).unwrap_or_default())]
    Unknown {
        /// The key, and where it stands.
        path: Path,
        /// The known key that it looks like.
        suggestion: Option<String>,
    },
    /// A value that nmstate does not take.
    #[error("{path}: {message}")]
    Invalid {
        /// The value, or the interface or section that holds it.
        path: Path,
        /// The rule.
        message: String,
    },
    /// A key that must be there.
    #[error("{path} is missing")]
    Missing {
        /// The key, and where it belongs.
        path: Path,
    },
}

/// The known word that one looks like, if one does.
pub(crate) fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let plain = |text: &str| text.replace(['-', '_'], "").to_ascii_lowercase();
    let rated = known.into_iter().map(|candidate| {
        (
            strsim::damerau_levenshtein(&plain(word), &plain(candidate)),
            candidate,
        )
    });
    let (distance, best) = rated.min_by_key(|(distance, _)| *distance)?;
    (distance <= word.len().div_ceil(4)).then(|| best.to_owned())
}

fn did_you_mean(known: &str) -> String {
    format!("; did you mean `{known}`?")
}
