//! The inputs of a release. All packages are a function of these and of the program `weft` alone,
//! so that the same inputs lead to the same bytes.

use anyhow::{Result, bail};
use weft_operands::image::ImageReference;

use crate::manifests::Program;

/// The version of all packages.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The references of Weft's own images.
#[derive(Clone, Debug)]
pub struct Images {
    /// The operator.
    pub operator: ImageReference,
    /// The agents on the nodes.
    pub agent: ImageReference,
    /// The bundle for Operator Lifecycle Manager.
    pub bundle: ImageReference,
    /// The catalog for Operator Lifecycle Manager.
    pub catalog: ImageReference,
}

impl Images {
    /// Returns the images with the names that `make images` gives them, in this version.
    ///
    /// # Errors
    /// The version cannot be the tag of an image.
    pub fn usual() -> Result<Self> {
        let image = |name: &str| format!("localhost/{name}:{VERSION}").parse();
        Ok(Self {
            operator: image("weft")?,
            agent: image("weft-agent")?,
            bundle: image("weft-bundle")?,
            catalog: image("weft-catalog")?,
        })
    }

    /// Returns the arguments of `weft manifests` for these images.
    pub fn arguments(&self) -> [String; 4] {
        [
            "--image".to_owned(),
            self.operator.to_string(),
            "--agent-image".to_owned(),
            self.agent.to_string(),
        ]
    }
}

/// Checks that the program, the packages and the release that is asked for have one version.
///
/// # Errors
/// They differ, or the program does not start.
pub fn check_version(program: &Program, asked: Option<&str>) -> Result<()> {
    let found = program.version()?;
    if found != VERSION {
        bail!(
            "--weft: the program has version {found}, and weft-packages has {VERSION}: build both from the same commit"
        );
    }
    match asked {
        Some(asked) if asked.trim_start_matches('v') != VERSION => bail!(
            "--release {asked}: the program has version {VERSION}: set `version` in Cargo.toml to the version of the release, and build again"
        ),
        _ => Ok(()),
    }
}
