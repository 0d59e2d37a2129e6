//! The agent on the hosts of a lab: which program, and what its DaemonSet would give it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::Host;

/// Namespace of the agent.
pub const NAMESPACE: &str = "nmstate";
/// ServiceAccount of the agent.
pub const SERVICE_ACCOUNT: &str = "nmstate-handler";

/// The agent's program: that of the environment variable `WEFT_AGENT_BIN`, else the one built beside this test.
///
/// # Errors
/// There is none.
pub fn program() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os("WEFT_AGENT_BIN").filter(|value| !value.is_empty()) {
        return Ok(program.into());
    }
    // target/<profile>/deps/<test>
    let test = std::env::current_exe()?;
    let profile = test.ancestors().nth(2).context("a test lies in target/<profile>/deps")?;
    let program = profile.join("weft-agent");
    if !program.is_file() {
        bail!("{} is missing: build it with `cargo build -p weft-agent`, or set WEFT_AGENT_BIN", program.display());
    }
    Ok(program)
}

/// What the DaemonSet's pod template and the kubelet put into its environment.
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
