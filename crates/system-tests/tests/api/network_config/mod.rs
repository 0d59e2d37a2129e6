//! NetworkConfig: what its definition and its admission policy accept and refuse, on a real API
//! server.

use super::{answers, table};

#[path = "../../../../api/src/tests/network_config/cases.rs"]
mod cases;
mod server;
