//! The content of an image.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use goblin::elf::{Elf, header};
use lddtree::DependencyAnalyzer;
use oci_spec::image::Arch;

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
    /// Further names.
    pub(crate) also: Vec<String>,
    pub(crate) entries: BTreeMap<PathBuf, Entry>,
    pub(crate) entrypoint: Vec<String>,
    pub(crate) env: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) user: Option<String>,
    pub(crate) architecture: Arch,
}

impl Image {
    /// An empty image of this full name, with tag: `localhost/weft:0.1.0`.
    pub fn new(reference: impl Into<String>) -> Self {
        Self {
            reference: reference.into(),
            also: vec![],
            entries: BTreeMap::new(),
            entrypoint: vec![],
            env: vec![],
            labels: BTreeMap::new(),
            user: None,
            architecture: Arch::default(),
        }
    }

    /// Its full name, with tag.
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// Gives it a further full name. An import of the archive brings the image under each name.
    #[must_use]
    pub fn also_named(mut self, reference: impl Into<String>) -> Self {
        self.also.push(reference.into());
        self
    }

    /// Adds a script, mode 0755. Its first line names the program that runs it.
    #[must_use]
    pub fn script(self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>) -> Self {
        self.with(
            path,
            Entry::File {
                content: content.into(),
                mode: 0o755,
            },
        )
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

    /// Adds all files and symbolic links of a folder of this machine, and of the folders in it, below
    /// this path.
    ///
    /// # Errors
    /// A file or folder cannot be read.
    pub fn tree(self, path: impl AsRef<Path>, from: impl AsRef<Path>) -> Result<Self, Error> {
        let (path, from) = (path.as_ref(), from.as_ref());
        let mut image = self;
        for entry in fs::read_dir(from).map_err(Error::file(from))? {
            let entry = entry.map_err(Error::file(from))?.path();
            let inside = path.join(entry.file_name().unwrap_or_default());
            let kind = fs::symlink_metadata(&entry)
                .map_err(Error::file(&entry))?
                .file_type();
            image = if kind.is_symlink() {
                let target = fs::read_link(&entry).map_err(Error::file(&entry))?;
                image.symlink(inside, target)
            } else if kind.is_dir() {
                image.tree(inside, &entry)?
            } else {
                image.copy(inside, &entry)?
            };
        }
        Ok(image)
    }

    /// Adds a program (or a plugin that one loads) of this machine, with the shared libraries it is
    /// linked to and their loader, at the paths that they have here. The image is for the
    /// architecture of the last program.
    ///
    /// # Errors
    /// It is no ELF file, it is for an architecture other than amd64 and arm64, or a library is
    /// missing.
    pub fn program(self, path: impl AsRef<Path>, from: impl AsRef<Path>) -> Result<Self, Error> {
        self.program_below("/", path, from)
    }

    /// The same with the libraries and the loader of another root folder, such as that of unpacked
    /// Debian packages. In the image, they are at the paths that they have below `root`.
    ///
    /// # Errors
    /// As [`Self::program`].
    pub fn program_below(
        self,
        root: impl AsRef<Path>,
        path: impl AsRef<Path>,
        from: impl AsRef<Path>,
    ) -> Result<Self, Error> {
        let (root, from) = (root.as_ref(), from.as_ref());
        let architecture = architecture(from)?;
        // The configuration of the loader, which names this folder, is not in unpacked packages.
        let libraries = ["x86_64-linux-gnu", "aarch64-linux-gnu"]
            .map(|triplet| root.join("usr/lib").join(triplet));
        let tree = DependencyAnalyzer::new(root.to_owned())
            .library_paths(libraries.into())
            .analyze(from)
            .map_err(|error| Error::Libraries {
                program: from.to_owned(),
                error,
            })?;
        let mut image = self.copy(path, from)?;
        image.architecture = architecture;
        for library in tree.libraries.into_values() {
            if library.realpath.is_none() {
                return Err(Error::MissingLibrary {
                    program: from.to_owned(),
                    library: library.name,
                });
            }
            let path = library.path.strip_prefix(root).unwrap_or(&library.path);
            image = image.copy(Path::new("/").join(path), &library.path)?;
        }
        if let Some(loader) = tree.interpreter {
            let from = root.join(loader.trim_start_matches('/'));
            image = image.copy(loader, from)?;
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

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// The same image for amd64 and for arm64, for one that holds no program.
    pub fn for_each_platform(self) -> [Self; 2] {
        [Arch::Amd64, Arch::ARM64].map(|architecture| Self {
            architecture,
            ..self.clone()
        })
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

/// The architecture that an ELF file names in `e_machine`, as Go and OCI call it.
fn architecture(program: &Path) -> Result<Arch, Error> {
    let content = fs::read(program).map_err(Error::file(program))?;
    let header = Elf::parse_header(&content).map_err(|error| Error::NoProgram {
        program: program.to_owned(),
        error,
    })?;
    match header.e_machine {
        header::EM_X86_64 => Ok(Arch::Amd64),
        header::EM_AARCH64 => Ok(Arch::ARM64),
        machine => Err(Error::Architecture {
            program: program.to_owned(),
            machine,
        }),
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
        assert_eq!(image.architecture, Arch::default());
    }

    #[test]
    fn a_program_of_another_root_folder_brings_its_libraries() {
        let this = std::env::current_exe().unwrap();
        let real = Image::new("localhost/x:1")
            .program("/bin/this", &this)
            .unwrap();
        let root = tempfile::tempdir().unwrap();
        // Folders as a usr-merged system has them.
        for folder in ["lib", "lib64"] {
            fs::create_dir_all(root.path().join("usr").join(folder)).unwrap();
            std::os::unix::fs::symlink(format!("usr/{folder}"), root.path().join(folder)).unwrap();
        }
        for path in real.entries.keys().filter(|path| path.is_file()) {
            let there = root.path().join(path.strip_prefix("/").unwrap());
            fs::create_dir_all(there.parent().unwrap()).unwrap();
            fs::copy(path, there).unwrap();
        }
        fs::create_dir(root.path().join("bin")).unwrap();
        let copy = root.path().join("bin/this");
        fs::copy(&this, &copy).unwrap();

        let image = Image::new("localhost/x:1")
            .program_below(root.path(), "/bin/this", &copy)
            .unwrap();
        let names = |image: &Image| -> std::collections::BTreeSet<_> {
            let files = image.entries.iter();
            files
                .filter(|(_, entry)| matches!(entry, Entry::File { .. }))
                .map(|(path, _)| path.file_name().unwrap().to_owned())
                .collect()
        };
        assert_eq!(names(&image), names(&real));
        for path in image.entries.keys() {
            assert!(!path.starts_with(root.path()), "{}", path.display());
        }

        // A library that only this machine has is none of that folder.
        let library = root.path().join("usr/lib/x86_64-linux-gnu/libc.so.6");
        let other = root.path().join("usr/lib/aarch64-linux-gnu/libc.so.6");
        fs::remove_file(&library)
            .or_else(|_| fs::remove_file(&other))
            .unwrap();
        let error = Image::new("localhost/x:1")
            .program_below(root.path(), "/bin/this", &copy)
            .map(|_| "an image")
            .unwrap_err();
        assert!(error.to_string().contains("libc.so.6"), "{error}");
    }

    #[test]
    fn a_tree_keeps_its_links_and_a_script_can_be_run() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/file"), "x").unwrap();
        std::os::unix::fs::symlink("sub", folder.path().join("link")).unwrap();
        let image = Image::new("localhost/x:1")
            .tree("/there", folder.path())
            .unwrap()
            .script("/run", "#!/bin/sh\n");
        let entry = |path: &str| &image.entries[Path::new(path)];
        assert!(
            matches!(entry("/there/link"), Entry::Symlink { target } if target == Path::new("sub"))
        );
        assert!(matches!(
            entry("/there/sub/file"),
            Entry::File { mode: 0o644, .. }
        ));
        assert!(matches!(entry("/run"), Entry::File { mode: 0o755, .. }));
        assert!(!image.entries.contains_key(Path::new("/there/link/file")));
    }

    #[test]
    fn an_image_is_for_the_architecture_of_its_program() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        let mut program = fs::read(std::env::current_exe().unwrap()).unwrap();
        // `e_machine` in the header (System V ABI, chapter 4)
        let mut of = |machine: u16| {
            program[18..20].copy_from_slice(&machine.to_le_bytes());
            fs::write(&file, &program).unwrap();
            architecture(&file)
        };
        assert_eq!(of(header::EM_AARCH64).unwrap(), Arch::ARM64);
        assert_eq!(of(header::EM_X86_64).unwrap(), Arch::Amd64);
        let error = of(header::EM_RISCV).unwrap_err().to_string();
        assert!(error.contains("243") && error.contains("arm64"), "{error}");
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
