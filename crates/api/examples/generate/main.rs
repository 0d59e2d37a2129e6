//! Writes the generated files: the CRDs, the admission policies and the health checks for Argo CD of
//! `deploy/`, and the API reference of `docs/api/`.
#![allow(clippy::expect_used)]

mod files;

fn main() -> std::io::Result<()> {
    for (path, text) in files::all() {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, text)?;
        println!("{}", path.display());
    }
    Ok(())
}
