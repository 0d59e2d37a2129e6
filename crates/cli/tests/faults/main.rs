//! Faults between the operator and its cluster. The result must be the same: the same end state,
//! nothing left over, nothing done twice, and a status without false claims.
//!
//! The operator is the real binary, the API server is the real one. Faults are made between them by
//! the proxy of `weft-testenv`. `WEFT_EXHAUSTIVE=1` kills at every write instead of at a sample of
//! them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../harness/mod.rs"]
mod harness;

mod cluster_network;
mod history;
mod idle;
mod kills;
mod latency;
mod node_network;
mod placement;
mod refused;
mod refused_watches;
mod requests;
mod scenario;
#[allow(dead_code)]
#[path = "../system/placement/site.rs"]
mod site;
mod start;
mod trouble;
#[allow(dead_code)]
#[path = "../online/user.rs"]
mod user;
mod watches;
