//! The commands that talk to a cluster: the real binary, run by a user with a kubeconfig, against a
//! real control plane.

use weft_system_tests as harness;

mod cnao;
mod documents;
mod e2e;
mod errors;
mod exported;
mod graph;
mod install;
mod migrate;
mod node;
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
pub mod user;
