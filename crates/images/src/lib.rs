//! Container images as OCI archives, without a registry, a daemon or a base image: `podman load`,
//! `docker load`, `skopeo copy oci-archive:…` and `ctr images import` read them.
//!
//! An image is what a program needs and nothing else: itself, its shared libraries and their
//! loader. The same files make the same bytes.
//!
//! ```no_run
//! # fn main() -> Result<(), weft_images::Error> {
//! let image = weft_images::Image::new("localhost/weft:0.1.0")
//!     .user(65532, 65532)
//!     .program("/usr/bin/weft", "target/release/weft")?
//!     .entrypoint(["/usr/bin/weft"]);
//! println!("{} bytes", image.write("weft.tar")?);
//! # Ok(())
//! # }
//! ```

mod archive;
mod content;
pub mod olm;
mod product;

use std::path::PathBuf;

pub use content::Image;
pub use product::{weft, weft_agent};

/// Why an image cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{path}: {error}", path = .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// A file that should be a program is none.
    #[error("{program} is no program: {error}", program = .program.display())]
    NoProgram {
        /// Path of the file.
        program: PathBuf,
        /// The error in its header.
        error: goblin::error::Error,
    },
    /// A program is for an architecture that Weft has no images for.
    #[error("{program} is for the ELF machine {machine}: images are made for amd64 (62) and arm64 (183)", program = .program.display())]
    Architecture {
        /// Path of the file.
        program: PathBuf,
        /// Its `e_machine`.
        machine: u16,
    },
    /// An archive for no platform.
    #[error("an image needs a program for one platform at least")]
    NoPlatform,
    /// Two images of an archive are for one platform.
    #[error("two programs are for linux/{architecture}: name one for each platform")]
    SamePlatform {
        /// The architecture, such as `arm64`.
        architecture: String,
    },
    /// The libraries of a program cannot be found out.
    #[error("{program}: {error}", program = .program.display())]
    Libraries {
        /// Path of the file.
        program: PathBuf,
        /// The error in its libraries.
        error: lddtree::Error,
    },
    /// A library that a program needs is not on this machine.
    #[error("{program} needs {library}, which is not on this machine: install the package that has it", program = .program.display())]
    MissingLibrary {
        /// The path of the program.
        program: PathBuf,
        /// Name of the library.
        library: String,
    },
    /// The image's own description cannot be written.
    #[error(transparent)]
    Description(#[from] oci_spec::OciSpecError),
    /// As above, at a lower layer.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl Error {
    fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }
}
