//! When images are pulled.

use std::{fmt, str::FromStr};

/// The pull policies of Kubernetes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PullPolicy {
    /// At every start of a container.
    Always,
    /// When the node does not have the image.
    #[default]
    IfNotPresent,
    /// Never: the image must be on the node.
    Never,
}

impl PullPolicy {
    /// The name that Kubernetes has for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// Not the name of a pull policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a pull policy: use Always, IfNotPresent or Never")]
pub struct PullPolicyError(String);

impl FromStr for PullPolicy {
    type Err = PullPolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Always, Self::IfNotPresent, Self::Never]
            .into_iter()
            .find(|policy| policy.as_str() == text)
            .ok_or_else(|| PullPolicyError(text.to_owned()))
    }
}

impl fmt::Display for PullPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
