//! The agent on the hosts of a lab: which program, and what its DaemonSet would give it.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Host;
use super::installation::built;

/// Namespace of the agent.
pub const NAMESPACE: &str = "nmstate";
/// ServiceAccount of the agent.
pub const SERVICE_ACCOUNT: &str = "nmstate-handler";

/// The agent's program: that of the environment variable `WEFT_AGENT_BIN`, else the one built
/// next to this test.
///
/// # Errors
/// There is none.
pub fn program() -> Result<PathBuf> {
    built("WEFT_AGENT_BIN", "weft-agent")
}

/// Returns the environment that the DaemonSet's pod template and the kubelet set.
pub fn environment(host: &Host, kubeconfig: &Path) -> Vec<(String, String)> {
    [
        ("KUBECONFIG", kubeconfig.display().to_string()),
        ("NODE_NAME", host.name().to_owned()),
        ("POD_NAMESPACE", NAMESPACE.to_owned()),
        ("POD_NAME", format!("{SERVICE_ACCOUNT}-{}", host.name())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}
