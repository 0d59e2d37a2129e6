//! Weft on hosts with a real NetworkManager each: control plane, shipped manifests, operator and agents. `make test-host`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[allow(dead_code)] // Not all of it is used yet.
mod support;
