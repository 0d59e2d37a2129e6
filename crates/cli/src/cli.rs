//! The command line: what can be typed, and what runs then.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{
    commands::{
        complete, completion, crds, explain, graph, man, manifests, migrate, node, operator, plan,
        release, render, render_network, report, status, uninstall, validate, version,
    },
    output::{self, Style},
};

const ABOUT: &str = "Weft runs the networks of a Kubernetes cluster.";

const AFTER_HELP: &str = "\
Examples:
  weft manifests | kubectl apply -f -    Install the operator
  weft validate -f addons.yaml           Check a configuration, without a cluster
  weft plan -f addons.yaml               See what it would change in the cluster
  weft status --watch                    Follow its state
  weft render -f addons.yaml             See all objects that it leads to

Also as `kubectl weft ...`, where this program is in the PATH under the name
kubectl-weft.";

/// All of the command line.
#[derive(Parser)]
#[command(name = "weft", about = ABOUT, after_help = AFTER_HELP, version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Operator(operator::Args),
    Validate(validate::Args),
    Render(render::Args),
    RenderNetwork(render_network::Args),
    Plan(plan::Args),
    Graph(graph::Args),
    Migrate(migrate::Args),
    Status(status::Args),
    Explain(explain::Args),
    Report(report::Args),
    Uninstall(uninstall::Args),
    Release(release::Args),
    Manifests(manifests::Args),
    Crds(crds::Args),
    Completion(completion::Args),
    Man(man::Args),
    #[command(name = complete::NAME, hide = true)]
    Complete(complete::Args),
    Node(node::Args),
    Version(version::Args),
}

impl Cli {
    /// Reads the command line. Help, and errors in it, end the program.
    pub fn read() -> Self {
        let name = invoked_as();
        let matches = command(&name).try_get_matches_from(arguments(&name, std::env::args_os()));
        matches
            .and_then(|matches| Self::from_arg_matches(&matches))
            .unwrap_or_else(|error| refuse(&error))
    }

    /// Runs the command. Its exit code is part of its result.
    ///
    /// # Errors
    /// The reason why the command cannot do its work, in words for the user.
    pub fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::Operator(args) => operator::run(args),
            Command::Validate(args) => validate::run(&args),
            Command::Render(args) => render::run(&args),
            Command::RenderNetwork(args) => render_network::run(&args),
            Command::Plan(args) => plan::run(&args),
            Command::Graph(args) => graph::run(&args),
            Command::Migrate(args) => migrate::run(&args),
            Command::Status(args) => status::run(&args),
            Command::Explain(args) => explain::run(&args),
            Command::Report(args) => report::run(&args),
            Command::Uninstall(args) => uninstall::run(&args),
            Command::Release(args) => release::run(&args),
            Command::Manifests(args) => manifests::run(&args),
            Command::Crds(args) => crds::run(&args),
            Command::Completion(args) => completion::run(&args, command("weft")),
            Command::Man(args) => man::run(&args, command("weft")),
            Command::Complete(args) => complete::run(&args, command("weft")),
            Command::Node(args) => node::run(args),
            Command::Version(args) => version::run(&args),
        }
    }
}

/// Ends the program with help, or with what is wrong with the command line. clap's message repeats
/// the input of a person, or of a script.
fn refuse(error: &clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    let text = error.to_string();
    match text.strip_prefix("error:") {
        Some(rest) => output::say_here(&format!("{}:{rest}", Style::stderr().bad("error"))),
        None => output::say_here(&text),
    }
    std::process::exit(error.exit_code())
}

/// The command line, as if it had been typed for this program: under the names of the programs that
/// it replaces it does what they do.
fn arguments(invoked_as: &str, typed: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = typed.into_iter().collect();
    let is_said = |flag: &str, arguments: &[OsString]| {
        arguments
            .iter()
            .any(|argument| argument.to_string_lossy().starts_with(flag))
    };
    let before: &[&str] = match invoked_as {
        "cluster-network-operator" if is_said("--domains", &arguments) => &["operator"],
        "cluster-network-operator" => &["operator", "--domains", "cluster-network"],
        "cluster-network-renderer" => &["render-network"],
        "kubectl_complete-weft" => &[complete::NAME],
        _ => &[],
    };
    // A caller that names the command in full, as the image of Weft does, means it.
    let in_full = before
        .first()
        .is_some_and(|command| arguments.get(1).is_some_and(|typed| typed == *command));
    if !in_full {
        arguments.splice(
            1.min(arguments.len())..1.min(arguments.len()),
            before.iter().map(OsString::from),
        );
    }
    arguments
}

/// The command line as clap sees it, with usage texts that show the name under which it was called.
pub fn command(invoked_as: &str) -> clap::Command {
    let command = Cli::command().mut_subcommand("operator", |operator| {
        operator.after_help(operator::environment())
    });
    if invoked_as == "kubectl-weft" {
        command.bin_name("kubectl weft")
    } else {
        command
    }
}

/// The file name of this program as it was called. kubectl runs its plugin `weft` as
/// `kubectl-weft`.
fn invoked_as() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    std::path::Path::new(&program)
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_replaced_programs_stand_for_commands() {
        let read = |line: &str| {
            let typed: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let name = typed[0].to_string_lossy().into_owned();
            arguments(&name, typed)
                .iter()
                .map(|one| one.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        for (typed, meant) in [
            ("weft status", "weft status"),
            (
                "cluster-network-operator",
                "cluster-network-operator operator --domains cluster-network",
            ),
            (
                "cluster-network-operator --url-only-kubeconfig=/k",
                "cluster-network-operator operator --domains cluster-network --url-only-kubeconfig=/k",
            ),
            (
                "cluster-network-operator --domains addons",
                "cluster-network-operator operator --domains addons",
            ),
            (
                "cluster-network-operator operator --domains a",
                "cluster-network-operator operator --domains a",
            ),
            (
                "kubectl_complete-weft plan --st",
                "kubectl_complete-weft __complete plan --st",
            ),
            (
                "cluster-network-renderer --config a --out b",
                "cluster-network-renderer render-network --config a --out b",
            ),
        ] {
            assert_eq!(read(typed), meant);
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        command("weft").debug_assert();
    }
}
