//! `weft explain`

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    output::{self, Style},
    reasons::{Row, Section, Table},
};

/// Explain a condition type, a reason or an event: its meaning, and what you can do
#[derive(clap::Args)]
#[command(after_help = "\
Exit code 0: explained; 1: there is no such word.

Examples:
  weft explain RolloutStuck
  weft explain Degraded
  weft explain                  List all condition types, reasons and events")]
pub struct Args {
    /// A condition type or a reason, for example RolloutStuck. The case of letters does not matter
    #[arg(value_name = "REASON")]
    word: Option<String>,

    /// How to show it. The fields of json are described in docs/command-line.md
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// Prints the part of the table that is asked for.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut table = Table::read()?;
    let word = match args.word.as_deref() {
        None => None,
        Some(word) => match table.find(word) {
            Some(word) => Some(word),
            None => {
                let help = match table.suggest(word) {
                    Some(meant) => format!("did you mean {meant}?"),
                    None => "weft explain lists all of them".to_owned(),
                };
                output::say(&format!(
                    "{}: Weft has no condition type, reason or event {word:?}; {help}",
                    Style::stderr().bad("error"),
                ));
                return Ok(ExitCode::from(1));
            }
        },
    };
    if let Some(word) = &word {
        table = table.about(word);
    }
    match (args.output, &word) {
        (Format::Json, _) => output::print(&format!("{}\n", serde_json::to_string_pretty(&table)?)),
        (Format::Text, Some(word)) => output::print(&explanation(word, &table, Style::stdout())),
        (Format::Text, None) => output::print(&list(&table, Style::stdout())),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// A paragraph for each meaning of a word.
fn explanation(word: &str, table: &Table, style: Style) -> String {
    let mut text = String::new();
    for one in &table.types {
        text += &format!(
            "{} of {}: {}\n\n",
            style.bold(word),
            one.kinds.join(", "),
            one.meaning
        );
    }
    for section in &table.sections {
        for row in &section.rows {
            text += &format!(
                "{} ({})\n  when: {}\n",
                style.bold(&conditions(row)),
                section.kinds_of(row).join(", "),
                row.when
            );
            if !row.fix.is_empty() {
                text += &format!("  what to do: {}\n", row.fix);
            }
            text.push('\n');
        }
    }
    for event in &table.events {
        text += &format!(
            "{} ({})\n  when: {}\n\n",
            style.bold(&format!(
                "event {} {}",
                event.type_,
                event.reasons.join(", ")
            )),
            event.kinds.join(", "),
            event.when
        );
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// `Degraded=True RolloutStuck`, with all types, statuses and reasons of a row.
fn conditions(row: &Row) -> String {
    let reasons: Vec<_> = row
        .reasons
        .iter()
        .map(|reason| match reason.as_str() {
            "" => "without reason",
            crate::reasons::REPEATED => "with the reason that it repeats",
            reason => reason,
        })
        .collect();
    format!(
        "{}={} {}",
        row.types.join(", "),
        row.statuses.join(" or "),
        reasons.join(", ")
    )
}

/// A line for each combination, by kind.
fn list(table: &Table, style: Style) -> String {
    let mut text = String::new();
    for section in &table.sections {
        text += &format!("{}\n", style.bold(&section.kinds.join(", ")));
        for row in &section.rows {
            text += &format!(
                "  {}{}: {}\n",
                conditions(row),
                only(section, row),
                row.when
            );
        }
        text.push('\n');
    }
    text += &format!("{}\n", style.bold("Events"));
    for event in &table.events {
        text += &format!(
            "  {} {} ({}): {}\n",
            event.type_,
            event.reasons.join(", "),
            event.kinds.join(", "),
            event.when
        );
    }
    text + "\nMore about one of them: weft explain REASON\n"
}

fn only(section: &Section, row: &Row) -> String {
    if row.only.is_empty() {
        String::new()
    } else {
        format!(" ({})", section.kinds_of(row).join(", "))
    }
}
