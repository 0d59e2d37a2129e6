//! Tests of the crate by its public API alone. `crates/system-tests/tests/api` asks a real API server
//! about the same tables.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod addons_cases;
mod generated;
mod network_config;
mod node_network;
mod placement;
mod rules;
mod scheduling;
mod schema;
mod table;
