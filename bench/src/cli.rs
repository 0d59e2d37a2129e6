//! The command line, and the words about what is measured.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Parser;

use crate::{
    domain::{self, Domain},
    part::Part,
};

/// How it is measured, for the top of the output and for `--help`.
pub const METHOD: &str = "\
Weft's figures on a real control plane (etcd, kube-apiserver, kube-controller-manager, kube-scheduler) with 3 kwok nodes, whose pods
are Ready at once. Each part has a fresh control plane, with the output of `weft manifests` applied; the release binary runs as a
process with the arguments, environment and ServiceAccount of the shipped Deployment. Requests are counted, and their times taken,
from the API server's audit log: from when the first request is received until the last one is answered. Memory is read from
/proc/PID/status. A lower bound is a bare client with the operator's token that applies the same bodies, 16 requests in flight over
warm connections, and asks for nothing. The column of CNAO 0.102 holds what was once measured on the same control plane with all of its components; it is not
measured here.";

/// Print Weft's figures next to lower bounds that are taken in the same run
#[derive(Parser)]
#[command(name = "weft-bench", after_help = METHOD, after_long_help = METHOD)]
pub struct Args {
    /// Measure only this part. May be given several times
    #[arg(long, value_name = "PART", value_enum)]
    only: Vec<Part>,

    /// The configuration to measure with. May be given several times [default: an example of each
    /// domain]
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,

    /// Write the figures into this file, too
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// How many seconds nothing is done while requests are counted
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(10..))]
    pub idle_seconds: u32,

    /// How often an installation and its lower bound are measured, in turns. The median counts
    #[arg(long, value_name = "TIMES", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,

    /// Measure changes of the host that this runs on, which the part apply makes
    #[arg(long, hide = true)]
    pub on_host: bool,

    /// Be the agents that this file names, which the part fleet writes
    #[arg(long, hide = true)]
    pub fleet: Option<PathBuf>,

    /// How many agents are simulated
    #[arg(long, value_name = "AGENTS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub agents: u32,

    /// Print when each of the operator's requests came in and how long it took, for each
    /// installation
    #[arg(long)]
    pub timeline: bool,

    /// The binary to measure [default: target/release/weft of this tree]
    #[arg(long, value_name = "FILE", env = "WEFT_BIN")]
    weft: Option<PathBuf>,
}

impl Args {
    /// The configurations to measure with.
    pub fn configs(&self) -> Vec<PathBuf> {
        if self.config.is_empty() {
            domain::examples().collect()
        } else {
            self.config.clone()
        }
    }

    /// The parts to measure of a domain, in the order of the table.
    pub fn parts(&self, domain: &Domain) -> impl Iterator<Item = Part> {
        domain
            .parts
            .iter()
            .copied()
            .filter(|part| self.only.is_empty() || self.only.contains(part))
    }

    /// The binary to measure.
    ///
    /// # Errors
    /// It is not there.
    pub fn weft(&self) -> Result<PathBuf> {
        let weft = self.weft.clone().unwrap_or_else(|| {
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/weft")
        });
        if !weft.is_file() {
            bail!(
                "there is no {}: run `make build`, or set WEFT_BIN to a release binary of weft",
                weft.display()
            );
        }
        Ok(weft.canonicalize()?)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}
