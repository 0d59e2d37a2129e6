//! Text that changes in place on a terminal.

use anyhow::{Context, Result};
use console::{Term, truncate_str};

use crate::output::shown;

/// The terminal, and what stands on it.
pub struct Screen {
    terminal: Term,
    text: String,
    lines: usize,
}

impl Screen {
    /// Opens the screen that stdout is connected to.
    pub fn stdout() -> Self {
        Self {
            terminal: Term::buffered_stdout(),
            text: String::new(),
            lines: 0,
        }
    }

    /// Reports whether that is a terminal: else nothing can be changed in place.
    pub fn is_terminal(&self) -> bool {
        self.terminal.is_term()
    }

    /// Puts this text in place of the one before. Lines that do not fit are cut, and as many as fit
    /// are shown: what has scrolled away cannot be reached any more.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn show(&mut self, text: &str) -> Result<()> {
        if text == self.text {
            return Ok(());
        }
        let (rows, columns) = self.terminal.size();
        let (rows, columns) = (usize::from(rows).max(2), usize::from(columns).max(20));
        let drawn = shown(text);
        let lines: Vec<_> = drawn.lines().collect();
        let mut visible: Vec<_> = lines
            .iter()
            .take(rows - 1)
            .map(|line| truncate_str(line, columns, "…"))
            .collect();
        if lines.len() > visible.len() {
            visible.pop();
            visible.push(format!("… {} more lines", lines.len() - visible.len()).into());
        }
        self.replace(visible.iter().map(AsRef::as_ref))?;
        self.lines = visible.len();
        text.clone_into(&mut self.text);
        Ok(())
    }

    /// Puts the last text in place of the one before, whole: the terminal may scroll now.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn end(&mut self, text: &str) -> Result<()> {
        self.replace(shown(text).lines())?;
        self.lines = 0;
        Ok(())
    }

    fn replace<'a>(&self, mut lines: impl Iterator<Item = &'a str>) -> Result<()> {
        self.terminal
            .clear_last_lines(self.lines)
            .and_then(|()| lines.try_for_each(|line| self.terminal.write_line(line)))
            .and_then(|()| self.terminal.flush())
            .context("cannot write to the terminal")
    }
}
