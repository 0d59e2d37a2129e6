//! Errors of building the objects of a configuration.

use weft_plan::{ManifestError, Problem};

/// Why objects could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A manifest is wrong, which is a defect of Weft.
    #[error("{0}; this is a defect of Weft, please report it")]
    Manifest(#[from] ManifestError),
    /// The configuration has no JSON form.
    #[error("the configuration has no JSON form: {0}")]
    Json(#[from] serde_json::Error),
    /// A configuration file has no text form, which is a defect of Weft.
    #[error(
        "a configuration file cannot be written: {0}; this is a defect of Weft, please report it"
    )]
    File(String),
    /// Images are needed, and their variables are not set.
    #[error("{}", not_set(.0))]
    Images(Vec<MissingImage>),
}

/// An image that is needed, and whose variable is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingImage {
    /// The environment variable.
    pub variable: &'static str,
    /// The program in the image.
    pub what: &'static str,
}

/// A text for each variable.
fn not_set(images: &[MissingImage]) -> String {
    let text = |MissingImage { variable, what }: &MissingImage| {
        format!("{variable} is not set: the operator's environment must name the image of {what}")
    };
    images.iter().map(text).collect::<Vec<_>>().join("; ")
}

impl BuildError {
    /// A later step refuses a configuration that validation has accepted.
    pub(crate) fn refused(problems: Vec<Problem>) -> Self {
        Self::File(
            problems
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; "),
        )
    }
}
