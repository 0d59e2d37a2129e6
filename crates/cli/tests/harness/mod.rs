//! Weft as it is in life, for tests: the real `weft` binary as a process of its own, with the
//! shipped manifests and the token of the shipped ServiceAccount, against a real control plane with
//! kwok nodes.
//!
//! Every test binary that needs it takes it in by `#[path = "../harness/mod.rs"] mod harness;`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    unused_imports
)]

mod cluster;
mod effect;
mod health;
mod idle;
mod operator;
mod reasons;
mod snapshot;

pub use cluster::{
    Cluster, ClusterOptions, NAMESPACE, OPERATOR, OPERATOR_USER, condition, example, manifests_of,
    render, weft_binary,
};
pub use effect::Planned;
pub use idle::operator_is_idle;
pub use operator::{Operator, OperatorOptions, SHORT_LEASE};
pub use snapshot::{Snapshot, assert_same};
pub use weft_testenv::wait::{
    COMMAND_LIMIT, PATIENCE, answer_within, wait_until, wait_within, with_patience,
};

/// Reports whether everything is to be tried, however long that takes: `make test-long`.
pub fn is_exhaustive() -> bool {
    std::env::var_os("WEFT_EXHAUSTIVE").is_some_and(|value| value == "1")
}

/// Where the random numbers of a test begin: `WEFT_SEED`, to see a failure again, or any number. It
/// is printed, so a failing test shows it.
pub fn seed() -> u64 {
    let seed = std::env::var("WEFT_SEED")
        .ok()
        .map_or_else(rand::random, |seed| {
            seed.parse().expect("WEFT_SEED is a number")
        });
    println!("WEFT_SEED={seed}");
    seed
}
