//! The line of each test, the summary, and a JUnit file for CI systems.

use std::{
    fs::File,
    io::{Write, stdout},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};
use quick_junit::{NonSuccessKind, Report as JUnit, TestCase, TestCaseStatus, TestSuite};

/// The end of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The cluster behaves as users rely on.
    Passed,
    /// It does not. The text has the cause.
    Failed(String),
    /// The test did not run. The text has the reason.
    LeftOut(String),
}

/// The results so far, in the order of the tests.
#[derive(Default)]
pub struct Report {
    results: Vec<(String, Duration, Outcome)>,
}

impl Report {
    /// Prints the line of a test, and keeps its result.
    pub fn add(&mut self, name: &str, time: Duration, outcome: Outcome) {
        say(&line(name, time, &outcome));
        self.results.push((name.to_owned(), time, outcome));
    }

    /// Returns the outcome of a test of this name, if it has one yet.
    pub fn outcome(&self, name: &str) -> Option<&Outcome> {
        self.results
            .iter()
            .find(|(other, ..)| other == name)
            .map(|(_, _, outcome)| outcome)
    }

    /// Returns true if no test has failed.
    pub fn is_good(&self) -> bool {
        self.count(|outcome| matches!(outcome, Outcome::Failed(_))) == 0
    }

    fn count(&self, counts: impl Fn(&Outcome) -> bool) -> usize {
        self.results.iter().filter(|(.., one)| counts(one)).count()
    }

    /// Returns the last line of a run.
    pub fn summary(&self) -> String {
        let time: Duration = self.results.iter().map(|(_, time, _)| *time).sum();
        format!(
            "{} passed, {} failed, {} left out, {} s",
            self.count(|outcome| *outcome == Outcome::Passed),
            self.count(|outcome| matches!(outcome, Outcome::Failed(_))),
            self.count(|outcome| matches!(outcome, Outcome::LeftOut(_))),
            time.as_secs(),
        )
    }

    /// Writes the results in the form of JUnit.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_junit(&self, file: &Path) -> Result<()> {
        let mut suite = TestSuite::new("weft");
        for (name, time, outcome) in &self.results {
            let status = match outcome {
                Outcome::Passed => TestCaseStatus::success(),
                Outcome::Failed(cause) => {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                    status.set_message(cause.lines().next().unwrap_or_default());
                    status.set_description(cause.clone());
                    status
                }
                Outcome::LeftOut(reason) => {
                    let mut status = TestCaseStatus::skipped();
                    status.set_message(reason.clone());
                    status
                }
            };
            let mut case = TestCase::new(name.clone(), status);
            case.set_classname("weft").set_time(*time);
            suite.add_test_case(case);
        }
        let mut report = JUnit::new("weft-e2e");
        report.add_test_suite(suite);
        let opened = File::create(file)
            .with_context(|| format!("--junit {}: it cannot be written", file.display()))?;
        report.serialize(opened).context("JUnit file")
    }
}

/// Prints a line. Ignores the error of a closed terminal, so that the clean-up continues.
pub fn say(text: &str) {
    let _ = writeln!(stdout(), "{text}");
}

fn line(name: &str, time: Duration, outcome: &Outcome) -> String {
    let seconds = format!("{:.1} s", time.as_secs_f64());
    match outcome {
        Outcome::Passed => format!("{name:<40} {seconds:>8}  passed"),
        Outcome::Failed(cause) => {
            format!(
                "{name:<40} {seconds:>8}  FAILED\n    {}",
                cause.trim().replace('\n', "\n    ")
            )
        }
        Outcome::LeftOut(reason) => format!("{name:<40} {seconds:>8}  left out: {reason}"),
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
