//! `weft`: the operator and, offline, the same code for people.
//!
//! Each command is a file in [`commands`]. Common properties of all commands:
//!
//! - [`domains`]: which domains there are, the only place that names one;
//! - [`sources`]: files. `weft_documents` reads them;
//! - [`schema`], [`check`], [`review`]: whether a custom resource is valid;
//! - [`defaults`]: what the API server adds to it;
//! - [`install`]: what `weft manifests` prints;
//! - [`running_images`]: the images that an operator in the cluster gives its operands;
//! - [`reinstall`], [`left_out`]: its command line for a cluster, and what another one would leave
//!   out;
//! - [`nodes`]: policies of nodes' networks, and what they would change;
//! - [`placement`]: what a PlacementAPI leads to with what stands next to it;
//! - [`keepers`], [`migration`]: which operators Weft would replace, and what keeps them;
//! - [`policies`], [`tree`], [`mood`], [`wanted`]: the state that `weft status` shows;
//! - [`online`]: which cluster, and what of Weft is in it;
//! - [`reasons`]: the meaning of each condition and event;
//! - [`bundle`]: the parts of a report about a cluster;
//! - [`graph`]: the forms of a picture of nodes' networks;
//! - [`account`]: the steps of a command that changes a cluster, as lines or JSON;
//! - [`output`]: how results are written.
//!
//! Exit codes: 0 done, 1 the answer is no (invalid, changes), 2 it could not be found out: wrong
//! usage, unreadable files.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what is printed goes through `output`, which escapes control characters of others"
)]

mod account;
mod addresses;
mod attachments;
mod bundle;
mod check;
mod cli;
mod commands;
mod confirm;
mod defaults;
mod definitions;
mod domains;
mod dropped;
mod graph;
mod handover;
mod held;
mod install;
mod installed;
mod keepers;
mod left_out;
mod leftovers;
mod mac_collisions;
mod mac_range;
mod migration;
mod mood;
mod nodes;
mod online;
mod output;
mod placement;
mod planned;
mod policies;
mod reasons;
mod reinstall;
mod reports;
mod review;
mod running_images;
mod schema;
mod screen;
mod sources;
mod suggest;
mod tree;
mod uninstall;
mod wanted;

use std::process::ExitCode;

fn main() -> ExitCode {
    weft_runtime::api_server::names::look_up_by_files_and_dns();
    match cli::Cli::read().run() {
        Ok(code) => code,
        Err(error) => {
            output::say(&format!(
                "{}: {error:#}",
                output::Style::stderr().bad("error")
            ));
            ExitCode::from(2)
        }
    }
}
