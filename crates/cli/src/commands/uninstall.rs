//! `weft uninstall`

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use clap::builder::PossibleValuesParser;

use crate::{
    account::{Account, End, Format},
    confirm::confirmed,
    domains::{self, Entry},
    online::{ClusterArgs, Online, block_on},
    output::Style,
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
it, and it continues from there.

Examples:
  weft uninstall --dry-run
  weft uninstall
  weft uninstall --domains addons,placement
  weft uninstall --crds --yes
  weft uninstall --yes -o json | jq '.verdict'")]
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
    // The operator tries a Keystone for 5 minutes before it gives up what is registered there.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,

    /// How to show the result. The fields of json are described in docs/command-line.md
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,

    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Removes the installation.
pub fn run(args: &Args) -> Result<ExitCode> {
    block_on(async {
        let online = args.cluster.connect().await?;
        let account = Account::new(args.output);
        let end = uninstall(args, &online, &account).await;
        account.close(end)?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn uninstall(args: &Args, online: &Online, account: &Account) -> Result<End> {
    let scope = |domains| Scope {
        domains,
        crds: args.crds,
        timeout: args.timeout,
    };
    let style = Style::stdout();
    let uninstall = Uninstall::find(online, scope(domains::chosen(&args.domains))).await?;
    let installed = uninstall.domains();
    if uninstall.is_nothing() {
        account.plan([], uninstall.steps());
        if !account.is_json() {
            account.show("Nothing of Weft is installed.\n")?;
            account.show(&uninstall.kept(style))?;
        }
        return Ok(End::Nothing);
    }
    account.plan(names(&installed), uninstall.steps());
    if args.yes {
        uninstall.run(account).await?;
        return Ok(End::Done("Removed"));
    }
    let asks = !args.dry_run;
    if asks || !account.is_json() {
        account.show(&uninstall.preview(style))?;
    }
    let agreed = if asks {
        agreed(&installed, |question| confirmed(false, question))?
    } else {
        Vec::new()
    };
    if agreed.is_empty() {
        return unchanged(account);
    }
    if agreed.len() == installed.len() {
        uninstall.run(account).await?;
        return Ok(End::Done("Removed"));
    }
    // Of fewer domains other parts stay, for example an operator that serves the rest.
    let part = Uninstall::find(online, scope(agreed.clone())).await?;
    account.plan(names(&agreed), part.steps());
    account.show(&part.preview(style))?;
    if !confirmed(false, "Remove this part?")? {
        return unchanged(account);
    }
    part.run(account).await?;
    Ok(End::Done("Removed"))
}

fn unchanged(account: &Account) -> Result<End> {
    if !account.is_json() {
        account.show("Nothing was changed.\n")?;
    }
    Ok(End::Unchanged)
}

fn names(domains: &[&'static Entry]) -> impl Iterator<Item = &'static str> {
    domains.iter().map(|entry| entry.name)
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
