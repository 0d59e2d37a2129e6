//! `weft man`

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};

use crate::output;

/// Print the manual page
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weft man | man -l -
  weft man -o ~/.local/share/man/man1 && man weft-plan")]
pub struct Args {
    /// Write a page for each command into this folder instead
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints or writes the pages.
pub fn run(args: &Args, command: clap::Command) -> Result<ExitCode> {
    match &args.output {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
            clap_mangen::generate_to(command, folder)
                .with_context(|| format!("cannot write into {}", folder.display()))?;
            output::say(&format!("wrote the pages into {}", folder.display()));
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command)
                .render(&mut page)
                .context("the page cannot be made")?;
            output::print_as_is(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
