//! What a container consists of, as its pod says.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::programs::folder_from_script;

const INSTALL_SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/services");

/// An image, mounts and environment. What runs in it writes to a copy of its own, and to the mounts.
#[derive(Clone, Debug)]
pub struct Container {
    mounts: Vec<(PathBuf, String)>,
    environment: Vec<(String, String)>,
}

impl Container {
    /// Of OpenStack Placement: `/usr/bin/placement-manage`, `placement-status`, `placement-api`, Apache as `/usr/sbin/httpd`, `kolla_start`. It is
    /// installed first if need be.
    ///
    /// # Errors
    /// The installation failed.
    pub fn placement() -> Result<Self> {
        Self::of("placement")
    }

    /// Of OpenStack Keystone.
    ///
    /// # Errors
    /// The installation failed.
    pub fn keystone() -> Result<Self> {
        Self::of("keystone")
    }

    fn of(service: &str) -> Result<Self> {
        let folder = folder_from_script(INSTALL_SCRIPT, &[service])?;
        Ok(Self { mounts: vec![(folder, format!("/opt/{service}"))], environment: vec![] })
    }

    /// Mounts a file or folder of this machine at an absolute path, which is made if need be.
    #[must_use]
    pub fn mount(mut self, source: impl AsRef<Path>, target: &str) -> Self {
        self.mounts.push((source.as_ref().to_owned(), target.to_owned()));
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The mounts as `container.sh` reads them.
    pub(super) fn mounts(&self) -> String {
        self.mounts.iter().fold(String::new(), |mut text, (source, target)| {
            let _ = writeln!(text, "{target}\t{}", source.display());
            text
        })
    }

    pub(super) fn environment(&self) -> impl Iterator<Item = String> {
        self.environment.iter().map(|(name, value)| format!("{name}={value}"))
    }
}
