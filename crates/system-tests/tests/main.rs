//! The tests of the whole product, one module a suite. Each suite needs a control plane (built by
//! `scripts/control-plane`), and the suites `in_…`, `on_…` and `with_…` need more: root, a browser,
//! nodes, hosts or services. [Testing](../../../docs/design/testing.md) lists what each suite needs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod api;
mod commands;
mod engine;
mod faults;
mod in_browser;
mod in_namespaces;
mod on_hosts;
mod on_nodes;
mod packages;
mod system;
mod testenv;
mod upgrade;
mod with_services;
