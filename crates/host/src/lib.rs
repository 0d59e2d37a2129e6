//! The host that the program runs on: what its kernel says of its network, and the CNI
//! configuration of its container runtime.
//!
//! It reads the host's network and never changes it. The one thing that it writes is a CNI
//! configuration file, which only the container runtime reads. It knows no Kubernetes: who calls it
//! says what to write.

mod cni;
pub mod conf_dir;
mod mtu;
mod rtnetlink;

pub use cni::{CniType, NetworkList, NotACidr};
pub use mtu::{DefaultMtu, MtuError, default_mtu};
