//! Files that are named on the command line.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

/// The text of one file.
pub struct Source {
    /// The name in messages: the path, or `stdin`.
    pub name: String,
    /// The content.
    pub text: String,
}

/// Reads files. `-` is stdin, and of a folder all its `.yaml`, `.yml` and `.json` files in the
/// order of their names, as with kubectl.
///
/// # Errors
/// A file cannot be read or is not UTF-8, or a folder holds none.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("cannot read stdin")?;
            sources.push(Source {
                name: "stdin".into(),
                text,
            });
        } else if path.is_dir() {
            let files = files_of(path)?;
            if files.is_empty() {
                bail!(
                    "the folder {} holds no .yaml, .yml or .json file",
                    path.display()
                );
            }
            for file in files {
                sources.push(read_file(&file)?);
            }
        } else {
            sources.push(read_file(path)?);
        }
    }
    Ok(sources)
}

fn read_file(path: &Path) -> Result<Source> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Source {
        name: path.display().to_string(),
        text,
    })
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot read the folder {}", folder.display()))?
            .path();
        let known = path.extension().is_some_and(|extension| {
            ["yaml", "yml", "json"]
                .iter()
                .any(|known| extension == *known)
        });
        if known && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
