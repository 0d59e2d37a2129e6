//! The node agent.

pub mod commands;
pub mod history;
pub mod host;
pub mod ports;
pub mod probes;
pub mod state_dir;
pub mod transaction;

#[cfg(test)]
#[path = "../tests/common/mod.rs"]
#[allow(clippy::expect_used)]
mod common;
