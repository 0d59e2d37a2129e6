//! Definitions of kinds that others install in a cluster: the real ones.

use anyhow::{Context, Result};

use crate::programs::folder_from_script;

/// The CustomResourceDefinition of this name, for example `certificates.cert-manager.io`, as YAML.
///
/// # Errors
/// They cannot be fetched, or it is none of those that `scripts/definitions` lists.
pub fn definition(name: &str) -> Result<String> {
    let path = folder_from_script("definitions", &[])?.join(format!("{name}.yaml"));
    std::fs::read_to_string(&path)
        .with_context(|| format!("{}: add {name} to scripts/definitions", path.display()))
}

/// The definitions of operators that tests play: not theirs but written for tests, with the same
/// fields, types and defaults.
pub mod played {
    /// VirtualMachine and VirtualMachineInstance, of KubeVirt.
    pub const KUBEVIRT: &str = include_str!("../definitions/kubevirt.yaml");
    /// MariaDBDatabase and MariaDBAccount, of mariadb-operator.
    pub const MARIADB: &str = include_str!("../definitions/mariadb.yaml");
    /// KeystoneAPI, KeystoneService and KeystoneEndpoint, of keystone-operator.
    pub const KEYSTONE: &str = include_str!("../definitions/keystone.yaml");
    /// Topology, of infra-operator.
    pub const TOPOLOGY: &str = include_str!("../definitions/topology.yaml");
}
