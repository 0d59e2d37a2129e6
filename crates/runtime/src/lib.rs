//! The shell over the Kubernetes client: watches, apply, inventory, status, events, leader lease, metrics and shutdown.

pub mod backoff;
pub mod cache;
mod certificates;
pub mod client;
pub mod cluster;
pub mod controller;
mod events;
pub mod fence;
pub mod lease;
pub mod metrics;
pub mod objects;
pub mod overview;
pub mod pass;
pub mod presence;
pub mod preview;
pub mod release;
pub mod removal;
pub mod retry;
pub mod server;
pub mod status;
pub mod stored;
pub mod teardown;
pub mod watch;
mod watches;
