//! From the complete configuration to units of objects.

use weft_plan::{Kind, ManifestError, Unit, kinds};

use crate::{
    config::Effective,
    provider::{Context, Provider},
};

/// The unit of the default network.
pub const DEFAULT_NETWORK: &str = "default-network";

/// Every kind that a unit may hold.
pub const KINDS: &[Kind] = &[
    kinds::NAMESPACE,
    kinds::CUSTOM_RESOURCE_DEFINITION,
    kinds::SERVICE_ACCOUNT,
    kinds::ROLE,
    kinds::ROLE_BINDING,
    kinds::CLUSTER_ROLE,
    kinds::CLUSTER_ROLE_BINDING,
    kinds::CONFIG_MAP,
    kinds::SERVICE,
    kinds::NETWORK_POLICY,
    kinds::DAEMON_SET,
];

/// Why objects could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A manifest is wrong, which is a defect of Weft.
    #[error("{0}; this is a defect of Weft, please report it")]
    Manifest(#[from] ManifestError),
    /// The configuration has no JSON form.
    #[error("the configuration has no JSON form: {0}")]
    Json(#[from] serde_json::Error),
    /// An image is needed and nobody has said which.
    #[error("{variable} is not set: the operator's environment must name the image of {what}")]
    Image {
        /// The environment variable.
        variable: &'static str,
        /// What runs the image.
        what: &'static str,
    },
}

/// The units of a configuration.
pub(crate) fn units(provider: &dyn Provider, config: &Effective, context: &Context<'_>) -> Result<Vec<Unit>, BuildError> {
    let objects = provider.render(config, context)?;
    Ok(vec![Unit { name: DEFAULT_NETWORK.to_owned(), objects }])
}
