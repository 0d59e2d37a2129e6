//! The content of an image.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use lddtree::DependencyAnalyzer;

use crate::Error;

/// A file of an image.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Directory { mode: u32 },
    File { content: Vec<u8>, mode: u32 },
    Symlink { target: PathBuf },
}

/// An image to be written. All paths in it are absolute. Folders above a file are made by
/// themselves. Everything belongs to root.
#[derive(Clone, Debug)]
pub struct Image {
    pub(crate) reference: String,
    pub(crate) entries: BTreeMap<PathBuf, Entry>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) user: Option<String>,
}

impl Image {
    /// An empty image of this full name, with tag: `localhost/weft:0.1.0`.
    pub fn new(reference: impl Into<String>) -> Self {
        Self {
            reference: reference.into(),
            entries: BTreeMap::new(),
            entrypoint: vec![],
            env: vec![],
            user: None,
        }
    }

    /// Its full name, with tag.
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// Adds a file, mode 0644.
    #[must_use]
    pub fn file(self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) -> Self {
        self.with(
            path,
            Entry::File {
                content: content.into(),
                mode: 0o644,
            },
        )
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn symlink(self, path: impl AsRef<Path>, target: impl Into<PathBuf>) -> Self {
        self.with(
            path,
            Entry::Symlink {
                target: target.into(),
            },
        )
    }

    /// Adds a folder. Of use for an empty one, or for one of another mode than 0755.
    #[must_use]
    pub fn directory(self, path: impl AsRef<Path>, mode: u32) -> Self {
        self.with(path, Entry::Directory { mode })
    }

    /// Adds a file of this machine, executable if it is one here.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn copy(self, path: impl AsRef<Path>, from: impl AsRef<Path>) -> Result<Self, Error> {
        let from = from.as_ref();
        let content = fs::read(from).map_err(Error::file(from))?;
        let executable = fs::metadata(from)
            .map_err(Error::file(from))?
            .permissions()
            .mode()
            & 0o111
            != 0;
        Ok(self.with(
            path,
            Entry::File {
                content,
                mode: if executable { 0o755 } else { 0o644 },
            },
        ))
    }

    /// Adds a program (or a plugin that one loads) of this machine, with the shared libraries it is
    /// linked to and their loader, at the paths that they have here.
    ///
    /// # Errors
    /// It is no ELF file, or a library is missing.
    pub fn program(self, path: impl AsRef<Path>, from: impl AsRef<Path>) -> Result<Self, Error> {
        let from = from.as_ref();
        let tree = DependencyAnalyzer::default()
            .analyze(from)
            .map_err(|error| Error::Libraries {
                program: from.to_owned(),
                error,
            })?;
        let mut image = self.copy(path, from)?;
        for library in tree.libraries.into_values() {
            if library.realpath.is_none() {
                return Err(Error::MissingLibrary {
                    program: from.to_owned(),
                    library: library.name,
                });
            }
            image = image.copy(&library.path, &library.path)?;
        }
        if let Some(loader) = tree.interpreter {
            image = image.copy(&loader, &loader)?;
        }
        Ok(image)
    }

    /// Sets the program that the container runs unless the pod names another one.
    #[must_use]
    pub fn entrypoint<T: Into<String>>(mut self, command: impl IntoIterator<Item = T>) -> Self {
        self.entrypoint = command.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push(format!("{name}={value}"));
        self
    }

    /// Sets user and group by number, because `runAsNonRoot` knows no names. Root without this.
    #[must_use]
    pub fn user(mut self, uid: u32, gid: u32) -> Self {
        self.user = Some(format!("{uid}:{gid}"));
        self
    }

    fn with(mut self, path: impl AsRef<Path>, entry: Entry) -> Self {
        let path = path.as_ref();
        for folder in path
            .ancestors()
            .skip(1)
            .filter(|folder| folder.parent().is_some())
        {
            self.entries
                .entry(folder.to_owned())
                .or_insert(Entry::Directory { mode: 0o755 });
        }
        self.entries.insert(path.to_owned(), entry);
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_program_brings_its_libraries_and_their_loader() {
        let image = Image::new("localhost/x:1")
            .program("/bin/this", std::env::current_exe().unwrap())
            .unwrap();
        let files: Vec<_> = image
            .entries
            .keys()
            .map(|path| path.display().to_string())
            .collect();
        assert!(
            files.iter().any(|file| file.contains("libc.so.6")),
            "{files:?}"
        );
        assert!(
            files.iter().any(|file| file.contains("/ld-linux")),
            "{files:?}"
        );
        assert!(
            matches!(
                image.entries[Path::new("/bin")],
                Entry::Directory { mode: 0o755 }
            ),
            "folders come by themselves"
        );
        assert!(!image.entries.contains_key(Path::new("/")));
    }

    #[test]
    fn a_file_that_is_no_program_is_refused_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("note.txt");
        fs::write(&file, "no program").unwrap();
        assert!(
            Image::new("localhost/x:1")
                .program("/x", &file)
                .unwrap_err()
                .to_string()
                .contains("note.txt")
        );
        assert!(
            Image::new("localhost/x:1")
                .copy("/x", folder.path().join("none"))
                .unwrap_err()
                .to_string()
                .contains("none")
        );
    }
}
