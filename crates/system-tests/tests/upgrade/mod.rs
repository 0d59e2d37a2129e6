//! Upgrades: from each release in `fixtures/releases` to this tree, and one version back.

use crate::system::{node_network, placement::site};
use weft_system_tests as harness;

mod fixture;
mod freeze;
mod manifests;
mod objects;
pub mod populated;
mod releases;
mod secrets;
mod stream;
mod text;
