//! The checks of Operator Framework for bundles and catalogs, built by `scripts/olm`.

use std::path::PathBuf;

use anyhow::Result;

use crate::programs::folder_from_script;

/// Returns the program. Its commands are at the top of `testenv/olm/main.go`.
///
/// # Errors
/// It cannot be built.
pub fn program() -> Result<PathBuf> {
    Ok(folder_from_script("olm", &[])?.join("olm"))
}
