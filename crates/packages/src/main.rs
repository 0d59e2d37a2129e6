//! `weft-packages`: writes the packages of Weft.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use weft_packages::{chart, files, kustomize, manifests::Program};

/// Writes the packages of Weft from what `weft manifests` prints: the Helm chart into the folder
/// `weft`, and the kustomize bases into the folder `kustomize`
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// The `weft` program, built before
    #[arg(long, default_value = "target/release/weft")]
    weft: PathBuf,
    /// The folder for the packages. Files that are there already are replaced
    #[arg(long, default_value = "target/packages")]
    out: PathBuf,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let program = Program::new(&cli.weft);
    files::write(&cli.out.join("weft"), &chart::files(&program)?)?;
    files::write(&cli.out.join("kustomize"), &kustomize::files(&program)?)
}
