//! The kinds of nmstate.io: what their definitions and admission policies accept and refuse, on a
//! real API server.

use super::{answers, table};

mod agents;
#[path = "../../../../api/src/tests/node_network/cases.rs"]
mod cases;
mod cluster;
mod examples;
mod replacing;
mod server;
mod versions;
