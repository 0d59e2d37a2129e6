//! The helpers of the tests in `tests/`: the real `weft` binary as a process of its own, with the
//! shipped manifests and the token of the shipped ServiceAccount, against a real control plane with
//! kwok nodes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cluster;
#[path = "../../cli/tests/cli/common/mod.rs"]
pub mod command_line;
mod effect;
mod health;
mod host_effect;
mod idle;
mod operator;
pub mod owner;
mod program;
mod reasons;
mod snapshot;
pub mod suite;
mod warnings;

pub use cluster::{
    Cluster, ClusterOptions, NAMESPACE, OPERATOR, OPERATOR_USER, condition, example, manifests_of,
    render, weft_binary,
};
pub use effect::Planned;
pub use host_effect::HostPlan;
pub use idle::operator_is_idle;
pub use operator::{Operator, OperatorOptions, SHORT_LEASE};
pub use program::program;
pub use snapshot::{Snapshot, assert_same};
pub use warnings::assert_not_warned;
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
