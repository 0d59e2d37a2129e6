//! The agent on the hosts of a lab: its program and its account.

use std::path::PathBuf;

use anyhow::Result;

use crate::programs::built;

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
    built("weft-agent")
}
