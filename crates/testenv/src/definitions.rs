//! Definitions of kinds that others install in a cluster: the real ones.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

/// Fetches the definitions the first time, and prints the folder that they are in.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/definitions");

/// The CustomResourceDefinition of this name, for example `certificates.cert-manager.io`, as YAML.
///
/// # Errors
/// They cannot be fetched, or it is none of those that `scripts/definitions` lists.
pub fn definition(name: &str) -> Result<String> {
    let output = Command::new(SCRIPT)
        .output()
        .with_context(|| format!("cannot run {SCRIPT}"))?;
    if !output.status.success() {
        bail!(
            "{SCRIPT} failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let folder = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    let path = folder.join(format!("{name}.yaml"));
    std::fs::read_to_string(&path)
        .with_context(|| format!("{}: add {name} to {SCRIPT}", path.display()))
}

/// The definitions of operators that tests play: not theirs but written for tests, with the same
/// fields, types and defaults.
pub mod played {
    /// MariaDBDatabase and MariaDBAccount, of mariadb-operator.
    pub const MARIADB: &str = include_str!("../definitions/mariadb.yaml");
    /// KeystoneAPI, KeystoneService and KeystoneEndpoint, of keystone-operator.
    pub const KEYSTONE: &str = include_str!("../definitions/keystone.yaml");
    /// Topology, of infra-operator.
    pub const TOPOLOGY: &str = include_str!("../definitions/topology.yaml");
}
