//! The commands that talk to a cluster: the real binary, run by a user with a kubeconfig, against a
//! real control plane.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../harness/mod.rs"]
mod harness;

mod cnao;
mod errors;
mod exported;
mod graph;
mod migrate;
mod pages;
mod plan;
mod plan_nodes;
mod plan_placement;
mod readme;
mod release;
mod release_network;
mod release_nodes;
mod releases;
mod report;
mod status;
mod status_nodes;
mod status_watch;
mod switch;
mod uninstall;
mod user;
