//! Weft as it is in life, for tests: the real `weft` binary as a process of its own, with the shipped manifests and the token of the
//! shipped ServiceAccount, against a real control plane with kwok nodes.
//!
//! Every test binary that needs it takes it in by `#[path = "../harness/mod.rs"] mod harness;`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code, unused_imports)]

mod cluster;
mod operator;
mod snapshot;
mod wait;

pub use cluster::{Cluster, ClusterOptions, NAMESPACE, OPERATOR, OPERATOR_USER, condition, example, render, weft_binary};
pub use operator::{Operator, OperatorOptions};
pub use snapshot::{Snapshot, assert_same};
pub use wait::{PATIENCE, wait_until, wait_within};
