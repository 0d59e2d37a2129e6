//! `weft uninstall`

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use clap::builder::PossibleValuesParser;

use crate::{
    confirm::confirmed,
    domains::{self, Entry},
    online::{ClusterArgs, block_on},
    output::{self, Style},
    uninstall::{Scope, Uninstall},
};

use super::status::duration;

/// Remove the configuration, its components and the operator from the cluster
///
/// The command lists what there is of each domain, and asks you for each, unless you give --yes.
///
/// Components are taken down in order, by the operator if it is at work, else by this command.
/// After that come the objects that `weft manifests` installs, the reports of operator and agents
/// about the nodes, and namespaces that are empty then. The definitions of the configurations stay,
/// and users' objects with them, unless --crds says otherwise.
#[derive(clap::Args)]
#[command(after_help = "\
Exit code 0: done, or nothing was there; 2: it could not be done. You can repeat
it, and it goes on from there.

Examples:
  weft uninstall --dry-run
  weft uninstall
  weft uninstall --domains addons,placement
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
        let scope = |domains| Scope {
            domains,
            crds: args.crds,
            timeout: args.timeout,
        };
        let uninstall = Uninstall::find(&online, scope(domains::chosen(&args.domains))).await?;
        if uninstall.is_nothing() {
            output::print("Nothing of Weft is installed.\n")?;
            output::print(&uninstall.kept(Style::stdout()))?;
            return Ok(ExitCode::SUCCESS);
        }
        if args.yes {
            uninstall.run().await?;
            return Ok(ExitCode::SUCCESS);
        }
        let installed = uninstall.domains();
        output::print(&uninstall.preview(Style::stdout()))?;
        let agreed = if args.dry_run {
            Vec::new()
        } else {
            agreed(&installed, |question| confirmed(false, question))?
        };
        if agreed.is_empty() {
            output::print("Nothing was changed.\n")?;
            return Ok(ExitCode::SUCCESS);
        }
        if agreed.len() == installed.len() {
            uninstall.run().await?;
            return Ok(ExitCode::SUCCESS);
        }
        // Of fewer domains other parts stay, for example an operator that serves the rest.
        let part = Uninstall::find(&online, scope(agreed)).await?;
        output::print(&part.preview(Style::stdout()))?;
        if confirmed(false, "Remove this part?")? {
            part.run().await?;
        } else {
            output::print("Nothing was changed.\n")?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Asks for each domain. Returns those that the user agrees to remove.
fn agreed(
    domains: &[&'static Entry],
    mut ask: impl FnMut(&str) -> Result<bool>,
) -> Result<Vec<&'static Entry>> {
    let mut agreed = Vec::new();
    for entry in domains {
        let question = format!("Remove {} ({})?", entry.name, entry.resource.kind);
        if ask(&question)? {
            agreed.push(*entry);
        }
    }
    Ok(agreed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_domain_has_a_question_of_its_own() {
        let all = domains::chosen(&[]);
        let mut questions = Vec::new();
        let chosen = agreed(&all, |question| {
            questions.push(question.to_owned());
            Ok(question.contains("placement"))
        })
        .unwrap();
        assert_eq!(questions.len(), all.len());
        assert_eq!(questions[0], "Remove addons (NetworkAddonsConfig)?");
        let names: Vec<_> = chosen.iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["placement"]);
    }
}
