//! PlacementAPI: what its definition and its admission policy accept and refuse, in-process and on
//! a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cases;
mod cluster;
mod examples;
mod replacing;
mod rules;
mod server;
#[path = "../table/mod.rs"]
mod table;
