//! The files of a package.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};

/// The text of each file, by its path in the folder of the package.
pub type Files = BTreeMap<String, String>;

/// Writes the files into a folder, and replaces those that are there.
///
/// # Errors
/// A file or folder cannot be written.
pub fn write(folder: &Path, files: &Files) -> Result<()> {
    for (name, text) in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .with_context(|| format!("cannot make the folder {}", parent.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
