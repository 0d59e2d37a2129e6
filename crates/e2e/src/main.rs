//! `weft-e2e`: tests Weft in a cluster that you own, and removes everything afterwards.
//! `make test-e2e` builds and runs it.

mod cleanup;
mod kubectl;
mod listing;
mod operator;
mod options;
mod preflight;
mod report;
mod run;
mod stop;
mod suites;

use std::process::ExitCode;

use clap::Parser;
use options::Options;

fn main() -> ExitCode {
    match run::run(Options::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(run::REFUSED)
        }
    }
}
