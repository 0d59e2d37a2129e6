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
    /// An image is needed and nobody has said which.
    #[error("{variable} is not set: the operator's environment must name the image of {what}")]
    Image {
        /// The environment variable.
        variable: &'static str,
        /// The program in the image.
        what: &'static str,
    },
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
