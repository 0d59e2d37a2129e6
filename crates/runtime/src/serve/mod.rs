//! The ports of the operator and the agent: probes for the kubelet, and metrics over TLS for whom
//! the API server permits.

mod access;
mod access_limit;
mod connections;
mod exposition;
pub mod metrics;
pub mod probes;
mod tls;
