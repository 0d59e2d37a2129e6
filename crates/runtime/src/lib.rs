//! The shell over the Kubernetes client: watches, apply, inventory, status, events, leader lease, metrics and shutdown.

pub mod backoff;
pub mod cache;
pub mod cluster;
pub mod fence;
pub mod lease;
pub mod metrics;
pub mod server;
pub mod watch;
