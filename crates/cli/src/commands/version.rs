//! `weft version`

use std::process::ExitCode;

use anyhow::Result;

use crate::{domains, output};

/// Print the version and the APIs that it serves
#[derive(clap::Args)]
pub struct Args {}

/// Prints the versions.
pub fn run(_: &Args) -> Result<ExitCode> {
    let mut text = format!("weft {}\n", env!("CARGO_PKG_VERSION"));
    for (_, definition) in domains::ALL.iter().flat_map(domains::Entry::definitions) {
        for version in domains::served_versions(&definition) {
            text.push_str(&format!(
                "serves {} {}/{version}\n",
                definition.spec.names.kind, definition.spec.group
            ));
        }
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
