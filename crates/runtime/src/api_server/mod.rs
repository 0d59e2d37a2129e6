//! Requests to the API server: the client with its timeouts and its connection, the fence that only
//! a leader's writes pass, its clock, and plain requests to other servers.

pub mod answer;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod fence;
pub mod names;
pub mod web;
