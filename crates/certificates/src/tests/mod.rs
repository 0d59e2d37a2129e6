//! Tests of the crate by its public API alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod rotation;
