//! `weft crds`

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;

use crate::{domains, output};

/// Print the custom resource definitions
///
/// They are part of what `weft manifests` prints.
#[derive(clap::Args)]
pub struct Args {
    /// Write one file a definition into this folder instead of printing them
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints or writes them.
pub fn run(args: &Args) -> Result<ExitCode> {
    let definitions = domains::ALL
        .iter()
        .flat_map(domains::Entry::definitions)
        .map(|(file, definition)| Ok((file, output::yaml(&serde_json::to_value(definition)?)?)))
        .collect::<Result<Vec<_>>>()?;
    match &args.output {
        Some(folder) => output::write_files(
            folder,
            definitions
                .iter()
                .map(|(name, text)| (*name, text.as_str())),
        )?,
        None => output::print_as_is(
            &definitions
                .into_iter()
                .map(|(_, text)| text)
                .collect::<Vec<_>>()
                .join("---\n"),
        )?,
    }
    Ok(ExitCode::SUCCESS)
}
