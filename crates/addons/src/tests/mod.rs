//! Tests of the crate by its public API alone. The system tests use two of these files too.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fuzz;
mod histories;
mod install_scripts;
mod known;
mod model;
mod options;
mod rolls;
