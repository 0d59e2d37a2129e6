//! The engine over the Kubernetes client, in rooms that show the flow. A room uses the rooms above
//! it in this list, and none below:
//!
//! - [`backoff`], [`boot_clock`], [`heap`], [`metrics`] and [`process`] are small tools for all rooms.
//! - [`api_server`] sends requests to the API server.
//! - [`store`] watches objects and keeps what Weft needs of them.
//! - [`leader`] holds the Lease that lets one replica act.
//! - [`reconcile`] decides, applies and reports.
//! - [`serve`] answers the kubelet's probes and Prometheus.
//! - [`inspect`] shows and changes a cluster on behalf of a command.

pub mod api_server;
pub mod backoff;
pub mod boot_clock;
pub mod heap;
pub mod inspect;
pub mod leader;
pub mod metrics;
pub mod process;
pub mod reconcile;
pub mod serve;
pub mod store;
