//! Requests to the API server: the client with its timeouts and its connection, the fence that only
//! a leader's writes pass, and plain requests to other servers.

pub mod client;
pub mod cluster;
pub mod fence;
pub mod names;
pub mod web;
