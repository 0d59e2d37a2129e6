//! PlacementAPI: what its definition and its admission policy accept and refuse, on a real API
//! server.

use super::{answers, table};

#[path = "../../../../api/src/tests/placement/cases.rs"]
mod cases;
mod cluster;
mod examples;
mod replacing;
mod server;
