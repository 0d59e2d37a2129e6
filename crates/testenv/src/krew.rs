//! The real krew, built by `scripts/krew`.

use std::path::PathBuf;

use anyhow::Result;

use crate::programs::folder_from_script;

/// Returns the program.
///
/// # Errors
/// It cannot be built.
pub fn program() -> Result<PathBuf> {
    Ok(folder_from_script("krew", &[])?.join("krew"))
}
