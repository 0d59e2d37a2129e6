//! The command line without a cluster: the real binary, the documentation and the tree. No test
//! here needs root, a control plane or other programs than Rust's, make, git and Python.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

mod attachments;
mod docs;
mod examples;
mod explain;
mod graph;
mod help;
mod host_ports;
mod house;
mod make;
mod manifests;
mod placement;
mod plan_nodes;
mod render_network;
mod rooms;
mod style;
mod validate;
mod wrong_inputs;
