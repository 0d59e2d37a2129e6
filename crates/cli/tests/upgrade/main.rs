//! Upgrades: from each release in `fixtures/releases` to this tree, and one version back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod fixture;
mod freeze;
#[path = "../harness/mod.rs"]
mod harness;
mod manifests;
mod node_network;
mod objects;
mod populated;
mod secrets;
#[allow(dead_code)]
#[path = "../system/placement/site.rs"]
mod site;
mod stream;
mod text;
mod upgrade;
