//! `weft crds`

use std::process::ExitCode;

use anyhow::Result;
use clap::builder::PossibleValuesParser;

use crate::{
    domains,
    output::{self, Target},
};

/// Print the custom resource definitions
///
/// They are part of what `weft manifests` prints.
#[derive(clap::Args)]
pub struct Args {
    /// How to print them, yaml or json, or a folder for one file a definition
    #[arg(short, long, value_name = "yaml|json|DIR", default_value = "yaml")]
    output: Target,

    /// Of which domains [default: all]
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',', value_parser = PossibleValuesParser::new(domains::ALL.iter().map(|entry| entry.name)))]
    domains: Vec<String>,
}

/// Prints or writes them.
pub fn run(args: &Args) -> Result<ExitCode> {
    let definitions = domains::chosen(&args.domains)
        .into_iter()
        .flat_map(domains::Entry::definitions)
        .map(|(file, definition)| Ok((file, serde_json::to_value(definition)?)))
        .collect::<Result<Vec<_>>>()?;
    let objects = definitions.iter().map(|(_, definition)| definition);
    match &args.output {
        Target::Folder(folder) => {
            let texts = definitions
                .iter()
                .map(|(name, definition)| Ok((*name, output::yaml(definition)?)))
                .collect::<Result<Vec<_>>>()?;
            let files = texts.iter().map(|(name, text)| (*name, text.as_str()));
            output::write_files(folder, files)?;
        }
        Target::Json => output::print_list(objects)?,
        Target::Yaml => output::print_as_is(&output::yaml_stream(objects)?)?,
    }
    Ok(ExitCode::SUCCESS)
}
