//! `weft version`

use std::process::ExitCode;

use anyhow::Result;

use crate::{domains, output};

/// Print the version and the APIs that it serves
#[derive(clap::Args)]
pub struct Args {
    /// How to show them
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Prints the versions.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.output == Format::Json {
        let serves: Vec<_> = domains::ALL
            .iter()
            .flat_map(domains::Entry::definitions)
            .map(|(_, definition)| {
                serde_json::json!({
                    "kind": definition.spec.names.kind, "group": definition.spec.group,
                    "versions": domains::served_versions(definition)
                })
            })
            .collect();
        output::print_json(
            &serde_json::json!({ "version": env!("CARGO_PKG_VERSION"), "serves": serves }),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("weft {}\n", env!("CARGO_PKG_VERSION"));
    for (_, definition) in domains::ALL.iter().flat_map(domains::Entry::definitions) {
        for version in domains::served_versions(definition) {
            text.push_str(&format!(
                "serves {} {}/{version}\n",
                definition.spec.names.kind, definition.spec.group
            ));
        }
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
