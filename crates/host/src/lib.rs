//! The host that the program runs on: what its kernel says of its network, and the CNI
//! configuration of its container runtime.
//!
//! It reads the host's network and never changes it. It writes nothing but CNI configuration files
//! and CNI plugins, which only the container runtime uses. It knows no Kubernetes: the caller says
//! which ones.

mod cni;
pub mod conf_dir;
mod mtu;
pub mod plugins;
mod rtnetlink;

pub use cni::{CniType, NetworkList, NotACidr};
pub use mtu::{DefaultMtu, MtuError, default_mtu};
