//! `weft migrate`

use std::process::ExitCode;

use anyhow::Result;
use clap::builder::PossibleValuesParser;

use crate::{
    domains,
    migration::Inspection,
    online::{ClusterArgs, block_on},
    output::{self, Style},
};

/// Inspect a cluster before you switch it to Weft
///
/// Shows the operators that Weft would replace, the tools that keep them, what the switch would
/// change and restart, and what is in the way. Reads only. The switch itself is one
/// `kubectl apply`, which the output names.
#[derive(clap::Args)]
#[command(after_help = "\
Exit code 0: nothing is in the way, 1: something is, 2: it could not be found out.

Examples:
  weft migrate --check
  weft migrate --check --domains addons
  weft migrate --check -o json | jq '.domains[].inTheWay[]'")]
pub struct Args {
    /// Only inspect. Required: there is nothing else to do
    #[arg(long, required = true)]
    check: bool,

    /// How to show the result. The fields of json are described in docs/command-line.md
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,

    /// Which domains [default: all]
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',', value_parser = PossibleValuesParser::new(domains::ALL.iter().map(|entry| entry.name)))]
    domains: Vec<String>,

    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Inspects, and shows what was found.
pub fn run(args: &Args) -> Result<ExitCode> {
    debug_assert!(args.check, "clap requires the flag");
    block_on(async {
        let online = args.cluster.connect().await?;
        let mut inspections = Vec::new();
        for site in online.sites(domains::chosen(&args.domains)).await? {
            inspections.push(Inspection::of(&online, site).await?);
        }
        match args.output {
            Format::Text => {
                let texts: Vec<_> = inspections
                    .iter()
                    .map(|inspection| inspection.text(Style::stdout()))
                    .collect();
                output::print(&texts.join("\n"))?;
            }
            Format::Json => {
                let all = serde_json::json!({
                    "domains": inspections.iter().map(Inspection::json).collect::<Vec<_>>()
                });
                output::print(&format!("{}\n", serde_json::to_string_pretty(&all)?))?;
            }
        }
        Ok(ExitCode::from(u8::from(
            inspections.iter().any(Inspection::is_obstructed),
        )))
    })
}
