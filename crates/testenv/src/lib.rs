//! A real Kubernetes control plane on loopback for tests and for the demo, and faults between its clients and its API server.

mod audit;
mod control_plane;
mod nodes;
mod pki;
mod process;
mod programs;
pub mod proxy;
mod stages;
mod workdir;

pub use audit::AuditEvent;
pub use control_plane::{ADMIN, Builder, ControlPlane, client_from};
pub use programs::Programs;
pub use stages::{Pods, Stage, Stuck};
