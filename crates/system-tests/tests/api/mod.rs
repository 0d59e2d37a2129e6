//! The definitions and admission policies on a real API server, and the behaviour of the API server
//! that they rely on. The rules in-process are tests of the crate `weft-api`, by the same tables.

#[path = "../../../api/src/tests/addons_cases.rs"]
mod addons_cases;
mod answers;
mod network_config;
mod node_network;
mod peers;
mod placement;
mod pruning;
mod scheduling;
mod server;
#[path = "../../../api/src/tests/table.rs"]
mod table;
