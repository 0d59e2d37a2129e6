//! Faults between the operator and its cluster. The result must be the same: the same end state,
//! nothing left over, nothing done twice, and a status without false claims.
//!
//! The operator is the real binary, the API server is the real one. Faults are made between them by
//! the proxy of `weft-testenv`. `WEFT_EXHAUSTIVE=1` kills at every write instead of at a sample of
//! them. In `observer` users act, too, and the observer compares status with the truth.

use crate::{commands::user, system::placement::site};
use weft_system_tests as harness;

mod all_domains;
mod bodies;
mod clocks;
mod cluster_network;
mod history;
mod idle;
mod kills;
mod latency;
mod node_network;
mod observer;
mod other_operators;
mod placement;
mod refused;
mod refused_watches;
mod requests;
mod scenario;
mod start;
mod trouble;
mod watches;
