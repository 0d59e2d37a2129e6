//! Weft's figures, measured on a real control plane, next to lower bounds that are taken in the
//! same run.
//!
//! - [`parts`]: one module for each part of the table. Each works in a fresh control plane of its
//!   own;
//! - [`domain`]: what differs between the domains;
//! - [`lab`]: a control plane with Weft installed as a user installs it, and the release binary as
//!   a process;
//! - [`rest`]: requests as administrator, for disturbances, lower bounds and looks;
//! - [`objects`] and [`recording`]: the objects that a configuration leads to, and the very requests
//!   that Weft makes for them;
//! - [`audit`]: what the API server recorded, for counts and times;
//! - [`figure`]: a figure, its target, the table and the JSON.

mod audit;
mod cli;
mod domain;
mod figure;
mod lab;
mod objects;
mod part;
mod parts;
mod recording;
mod rest;
mod wait;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use crate::{cli::Args, figure::Figure};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    match tokio::select! { done = run(&args) => done, _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")) }
    {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether every figure is there and holds.
async fn run(args: &Args) -> Result<bool> {
    if args.on_host {
        return parts::hosts::apply::on_host().await.map(|()| true);
    }
    if let Some(file) = &args.fleet {
        return parts::hosts::fleet::run(file).await.map(|()| true);
    }
    let weft = args.weft()?;
    println!("{}\n", cli::METHOD);
    println!("weft: {}\n", weft.display());
    let mut figures = Vec::new();
    for config in &args.configs() {
        let setup = lab::Setup::new(&weft, config)?;
        for part in args.parts(setup.domain) {
            eprintln!("measuring {} with {} ...", part.name(), config.display());
            let measured = parts::measure(part, &setup, args).await;
            let measured =
                measured.unwrap_or_else(|error| vec![Figure::failed(&part.name(), &error)]);
            figures.extend(
                measured
                    .into_iter()
                    .map(|figure| figure.of(setup.domain.name)),
            );
        }
        let of_domain: Vec<_> = figures
            .iter()
            .filter(|figure| figure.domain == setup.domain.name)
            .collect();
        println!(
            "{}, {}:\n{}\n",
            setup.domain.name,
            config.display(),
            figure::table(&of_domain)
        );
    }
    if let Some(file) = &args.json {
        std::fs::write(file, serde_json::to_string_pretty(&figures)? + "\n")
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let missed = figures.iter().filter(|figure| !figure.holds()).count();
    if missed > 0 {
        println!("{missed} of {} figures miss their target.", figures.len());
    }
    Ok(missed == 0)
}
