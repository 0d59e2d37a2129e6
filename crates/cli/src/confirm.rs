//! The question before something is removed.

use std::io::{self, BufRead, IsTerminal};

use anyhow::{Context, Result, bail};

use crate::output;

/// Reports whether the user agrees: said by `--yes`, or asked on a terminal.
///
/// # Errors
/// stdin is no terminal, so no user can answer.
pub fn confirmed(yes: bool, question: &str) -> Result<bool> {
    if yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        bail!(
            "stdin is no terminal, so the command cannot ask you, and nothing was done: give --yes, or --dry-run to see what would be done"
        );
    }
    output::say_here(&format!("{question} [y/N] "));
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .context("cannot read the answer")?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
