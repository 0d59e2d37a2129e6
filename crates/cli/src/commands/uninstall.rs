//! `weft uninstall`

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use clap::builder::PossibleValuesParser;

use crate::{
    confirm::confirmed,
    domains,
    online::{ClusterArgs, block_on},
    output::{self, Style},
    uninstall::{Scope, Uninstall},
};

use super::status::duration;

/// Remove the configuration, its components and the operator from the cluster
///
/// Components are taken down in order, by the operator if it is at work, else by this command.
/// After that come the objects that `weft manifests` installs, the reports of operator and agents
/// about the nodes, and namespaces that are empty then. The definitions of the configurations stay,
/// and users' objects with them, unless --crds says otherwise.
#[derive(clap::Args)]
#[command(after_help = "\
Exit code 0: done, or nothing was there; 2: it could not be done. It can be repeated, and goes on where it was.

Examples:
  weft uninstall --dry-run
  weft uninstall
  weft uninstall --crds --yes")]
pub struct Args {
    /// Which domains [default: all]
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',', value_parser = PossibleValuesParser::new(domains::ALL.iter().map(|entry| entry.name)))]
    domains: Vec<String>,

    /// Remove the definitions of the configurations too
    #[arg(long)]
    crds: bool,

    /// Skip the confirmation
    #[arg(short, long)]
    yes: bool,

    /// Only show what would be removed
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,

    /// How long to wait for something to be gone, for example 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    timeout: Duration,

    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Removes the installation.
pub fn run(args: &Args) -> Result<ExitCode> {
    block_on(async {
        let online = args.cluster.connect().await?;
        let scope = Scope {
            domains: domains::chosen(&args.domains),
            crds: args.crds,
            timeout: args.timeout,
        };
        let uninstall = Uninstall::find(&online, scope).await?;
        if uninstall.is_nothing() {
            output::print("Nothing of Weft is installed.\n")?;
            output::print(&uninstall.kept(Style::stdout()))?;
            return Ok(ExitCode::SUCCESS);
        }
        if args.dry_run || !args.yes {
            output::print(&uninstall.preview(Style::stdout()))?;
        }
        if args.dry_run || !confirmed(args.yes, "Remove all of this?")? {
            output::print("Nothing was changed.\n")?;
            return Ok(ExitCode::SUCCESS);
        }
        uninstall.run().await?;
        Ok(ExitCode::SUCCESS)
    })
}
