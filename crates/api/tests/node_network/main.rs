//! The kinds of nmstate.io: what their definitions and admission policies accept and refuse,
//! in-process and on a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agents;
mod cases;
mod cluster;
mod examples;
mod replacing;
mod rules;
mod server;
#[path = "../table/mod.rs"]
mod table;
mod versions;
