//! `weft-packages`: writes the packages of Weft.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use weft_packages::{chart, manifests::Program};

/// Writes the packages of Weft from what `weft manifests` prints
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// The `weft` program, built before
    #[arg(long, default_value = "target/release/weft")]
    weft: PathBuf,
    #[command(subcommand)]
    package: Package,
}

#[derive(Subcommand)]
enum Package {
    /// The Helm chart, as a folder
    Chart {
        /// The folder. Files that are there already are replaced
        #[arg(long, default_value = "target/packages/weft")]
        out: PathBuf,
    },
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let program = Program::new(&cli.weft);
    match cli.package {
        Package::Chart { out } => write(&out, &chart::files(&program)?),
    }
}

fn write(folder: &Path, files: &chart::Files) -> Result<()> {
    for (name, text) in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .with_context(|| format!("cannot make the folder {}", parent.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
