//! `weft __complete`: completions for kubectl, which asks its plugins for them. kubectl runs
//! `kubectl_complete-weft` with the words after `kubectl weft`, the last one unfinished, and reads
//! the protocol of cobra: a candidate in each line, and a last line with a directive.

use std::{ffi::OsString, process::ExitCode};

use anyhow::Result;
use clap::{Arg, Command};

use crate::output;

/// The name of the command.
pub const NAME: &str = "__complete";
/// The shell completes names of files.
const FILES: u8 = 0;
/// The shell does not add names of files (cobra's `ShellCompDirectiveNoFileComp`).
const NO_FILES: u8 = 4;
/// Value names of flags that take a file or a folder.
const PATHS: [&str; 2] = ["FILE", "DIR"];

/// Print completions of a command line for kubectl
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// The words after `kubectl weft`. The last one is unfinished
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Prints the completions.
pub fn run(args: &Args, mut command: Command) -> Result<ExitCode> {
    command.build();
    let words: Vec<_> = args
        .words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let (candidates, directive) = complete(&command, &words);
    let mut text: String = candidates.iter().map(|line| format!("{line}\n")).collect();
    text.push_str(&format!(":{directive}\n"));
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the candidates for the last word, each with a description after a tab if it has one, and
/// the directive.
fn complete(command: &Command, words: &[String]) -> (Vec<String>, u8) {
    let (last, before) = match words.split_last() {
        Some((last, before)) => (last.as_str(), before),
        None => ("", words),
    };
    let mut command = command;
    // The flag whose value the next word is.
    let mut open: Option<&Arg> = None;
    for word in before {
        if open.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            open = flag(command, word).filter(|arg| takes_value(arg) && !word.contains('='));
        } else if let Some(found) = command.find_subcommand(word) {
            command = found;
        }
    }
    if let Some(arg) = open {
        return values(arg, "", last);
    }
    if let Some((name, value)) = last.split_once('=')
        && let Some(arg) = flag(command, name)
    {
        return values(arg, &format!("{name}="), value);
    }
    if last.starts_with('-') {
        let flags = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let flags = flags.filter_map(|arg| {
            let name = format!("--{}", arg.get_long()?);
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            name.starts_with(last)
                .then(|| described(&name, help.lines().next().unwrap_or_default()))
        });
        return (flags.collect(), NO_FILES);
    }
    let commands = command.get_subcommands().filter(|one| !one.is_hide_set());
    let mut candidates: Vec<_> = commands
        .filter(|one| one.get_name().starts_with(last))
        .map(|one| {
            let about = one.get_about().map(ToString::to_string).unwrap_or_default();
            described(one.get_name(), about.lines().next().unwrap_or_default())
        })
        .collect();
    let mut directive = NO_FILES;
    if let Some(arg) = command.get_positionals().next() {
        let (more, of_values) = values(arg, "", last);
        candidates.extend(more);
        directive = of_values;
    }
    (candidates, directive)
}

fn described(word: &str, help: &str) -> String {
    if help.is_empty() {
        word.to_owned()
    } else {
        format!("{word}\t{help}")
    }
}

fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or_default();
    command.get_arguments().find(|arg| {
        let is_long = arg
            .get_long()
            .is_some_and(|long| name == format!("--{long}"));
        is_long
            || arg
                .get_short()
                .is_some_and(|short| name == format!("-{short}"))
    })
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

/// The values of a flag that begin with this word, each after the part of the word that is said
/// already.
fn values(arg: &Arg, said: &str, word: &str) -> (Vec<String>, u8) {
    // Of a list, the last entry is unfinished.
    let (done, open) = match word
        .rfind(',')
        .filter(|_| arg.get_value_delimiter().is_some())
    {
        Some(comma) => word.split_at(comma + 1),
        None => ("", word),
    };
    let possible = arg.get_possible_values();
    let takes_path = arg
        .get_value_names()
        .into_iter()
        .flatten()
        .any(|name| PATHS.iter().any(|path| name.contains(path)));
    if possible.is_empty() && takes_path {
        return (Vec::new(), FILES);
    }
    let values = possible
        .iter()
        .map(|value| value.get_name())
        .filter(|value| value.starts_with(open))
        .map(|value| format!("{said}{done}{value}"));
    (values.collect(), NO_FILES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The candidates without their descriptions, and the directive.
    fn of(line: &[&str]) -> (Vec<String>, u8) {
        let mut command = crate::cli::command("weft");
        command.build();
        let words: Vec<_> = line.iter().map(|&word| word.to_owned()).collect();
        let (candidates, directive) = complete(&command, &words);
        let word = |line: &String| line.split('\t').next().unwrap_or_default().to_owned();
        (candidates.iter().map(word).collect(), directive)
    }

    #[test]
    fn commands_flags_and_values_are_completed() {
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        for (line, candidates, directive) in [
            (&["vali"][..], &["validate"][..], NO_FILES),
            (&["plan", "--st"], &["--state"], NO_FILES),
            (&["plan", "-f", "x", "-o", "j"], &["json"], NO_FILES),
            (&["plan", "--output=j"], &["--output=json"], NO_FILES),
            (&["plan", "-f", ""], &[], FILES),
            (
                &["status", "--domains", "addons,pl"],
                &["addons,placement"],
                NO_FILES,
            ),
            (&["release", "node"], &["node-network"], NO_FILES),
            (&["node", "m"], &["mtu"], NO_FILES),
            (&["__"], &[], NO_FILES),
        ] {
            assert_eq!(of(line), (words(candidates), directive), "{line:?}");
        }
        let (all, _) = of(&[""]);
        assert!(
            all.contains(&"status".to_owned()) && all.len() > 10,
            "{all:?}"
        );
    }
}
