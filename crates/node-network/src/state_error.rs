//! A mistake in a state, with the place and the fix.

use crate::path::Path;

/// A state that nmstate does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// A key that nmstate does not know.
    #[error("{path} is not known to nmstate{}", way_out(places, suggestion.as_deref()))]
    Unknown {
        /// The key, and where it stands.
        path: Path,
        /// The places where it is known, as words.
        places: Vec<String>,
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
    // Any short word would look like any other.
    (distance <= word.len().div_ceil(4) && distance < word.len()).then(|| best.to_owned())
}

/// The fix for an unknown key, behind the mistake. Empty if there is none to name.
pub(crate) fn way_out(places: &[String], suggestion: Option<&str>) -> String {
    match (places, suggestion) {
        ([], None) => String::new(),
        ([], Some(known)) => format!("; did you mean `{known}`?"),
        (places, _) => format!("; it belongs into {}", places.join(" or ")),
    }
}
