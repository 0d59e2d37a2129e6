//! Tests of the crate by its public API alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
mod documented;
mod fuzz;
mod provider;
mod snapshots;
