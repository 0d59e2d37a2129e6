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

/// The name of what comes from stdin, in messages.
const STDIN: &str = "stdin";

/// Returns the argument of `-f` that names this source: `-` for stdin.
pub fn argument(name: &str) -> &str {
    if name == STDIN { "-" } else { name }
}

/// Reads files. `-` is stdin, and of a folder all its `.yaml`, `.yml` and `.json` files in the
/// order of their names, as with kubectl.
///
/// # Errors
/// A file cannot be read, or a folder holds none.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Source>> {
    read_from(paths, Folders::Flat)
}

/// The files of a folder that count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Folders {
    /// Its own files.
    Flat,
    /// Also the files of all folders below it. The command does not follow links to folders.
    Recursive,
}

impl From<bool> for Folders {
    fn from(recursive: bool) -> Self {
        if recursive {
            Self::Recursive
        } else {
            Self::Flat
        }
    }
}

/// Reads files as [`read`] does, and with [`Folders::Recursive`] also those of the folders below a
/// folder.
///
/// # Errors
/// As [`read`].
pub fn read_from(paths: &[PathBuf], folders: Folders) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            let mut bytes = Vec::new();
            std::io::stdin()
                .read_to_end(&mut bytes)
                .context("cannot read stdin")?;
            sources.push(Source {
                name: STDIN.into(),
                text: weft_documents::decode(bytes),
            });
        } else if path.is_dir() {
            let mut files = Vec::new();
            add_files_of(path, folders, &mut files)?;
            files.sort();
            if files.is_empty() {
                let way_out = match folders {
                    Folders::Flat => ": -R reads the folders below it, too",
                    Folders::Recursive => ", and no folder below it does",
                };
                bail!(
                    "the folder {} holds no .yaml, .yml or .json file{way_out}",
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
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Source {
        name: path.display().to_string(),
        text: weft_documents::decode(bytes),
    })
}

fn add_files_of(folder: &Path, folders: Folders, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder {}", folder.display()))?;
    for entry in entries {
        let entry =
            entry.with_context(|| format!("cannot read the folder {}", folder.display()))?;
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && folders == Folders::Recursive {
            add_files_of(&path, folders, files)?;
            continue;
        }
        let known = path.extension().is_some_and(|extension| {
            ["yaml", "yml", "json"]
                .iter()
                .any(|known| extension == *known)
        });
        if known && path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
