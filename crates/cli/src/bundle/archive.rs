//! A tar archive, compressed by gzip, that is written while its content is collected.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;

/// The archive. Dropped before [`Archive::finish`], it removes its file.
pub struct Archive {
    tar: Option<tar::Builder<GzEncoder<BufWriter<File>>>>,
    path: PathBuf,
    folder: String,
    time: u64,
    errors: Vec<String>,
    files: usize,
}

/// The content of a finished archive.
#[derive(Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many files it has, `errors.txt` included.
    pub files: usize,
    /// How many parts are missing.
    pub errors: usize,
}

/// The name of the file with the parts that are missing.
const ERRORS: &str = "errors.txt";

impl Archive {
    /// Creates the file, which only its owner may read, and replaces an older one. All entries are
    /// in this folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path, folder: &str, now: Timestamp) -> Result<Self> {
        let _ = fs::remove_file(path);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        let encoder = GzEncoder::new(BufWriter::new(file), Compression::default());
        Ok(Self {
            tar: Some(tar::Builder::new(encoder)),
            path: path.to_owned(),
            folder: folder.to_owned(),
            time: now.as_second().try_into().unwrap_or_default(),
            errors: Vec::new(),
            files: 0,
        })
    }

    /// Adds a file. `name` is a path inside the archive's folder.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub fn add(&mut self, name: &str, content: &str) -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.time);
        let Some(tar) = &mut self.tar else {
            return Ok(());
        };
        let path = format!("{}/{name}", self.folder);
        tar.append_data(&mut header, path, content.as_bytes())
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        self.files += 1;
        Ok(())
    }

    /// Notes that a part is missing, and why.
    pub fn lacks(&mut self, part: &str, why: &str) {
        let line = format!("{part}: {why}");
        if !self.errors.contains(&line) {
            self.errors.push(line);
        }
    }

    /// Adds the list of missing parts and ends the file.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub fn finish(mut self) -> Result<Summary> {
        let text: String = self.errors.iter().map(|line| format!("{line}\n")).collect();
        self.add(ERRORS, &text)?;
        if let Some(tar) = self.tar.take() {
            let write = || tar.into_inner()?.finish()?.flush();
            write().with_context(|| format!("cannot write {}", self.path.display()))?;
        }
        Ok(Summary {
            files: self.files,
            errors: self.errors.len(),
        })
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        if self.tar.take().is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns a name as one part of a path inside the archive.
pub fn part(name: &str) -> String {
    let safe: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    match safe.trim_start_matches('.') {
        "" => "_".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{io::Read, os::unix::fs::PermissionsExt};

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn an_archive_has_its_files_and_the_list_of_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.tar.gz");
        fs::write(&path, "an older one").unwrap();
        let mut archive = Archive::create(&path, "report", Timestamp::UNIX_EPOCH).unwrap();
        archive.add("a/b.yaml", "b: 1\n").unwrap();
        archive.lacks("nodes", "not permitted");
        archive.lacks("nodes", "not permitted");
        let summary = archive.finish().unwrap();
        assert_eq!(
            summary,
            Summary {
                files: 2,
                errors: 1
            }
        );
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut read = tar::Archive::new(GzDecoder::new(File::open(&path).unwrap()));
        let files: Vec<_> = read
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                (entry.path().unwrap().display().to_string(), text)
            })
            .collect();
        assert_eq!(
            files,
            [
                ("report/a/b.yaml".to_owned(), "b: 1\n".to_owned()),
                (
                    "report/errors.txt".to_owned(),
                    "nodes: not permitted\n".to_owned()
                ),
            ]
        );
    }

    #[test]
    fn an_unfinished_archive_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.tar.gz");
        let mut archive = Archive::create(&path, "report", Timestamp::UNIX_EPOCH).unwrap();
        archive.add("a", "text").unwrap();
        drop(archive);
        assert!(!path.exists());
    }

    #[test]
    fn a_name_leaves_no_folder() {
        for (name, safe) in [
            ("node-1.br1", "node-1.br1"),
            ("../../etc", "_.._etc"),
            ("system:node", "system_node"),
            ("..", "_"),
        ] {
            assert_eq!(part(name), safe);
        }
    }
}
