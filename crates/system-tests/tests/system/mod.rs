//! The operator as it is in life: the real binary with the shipped rights, against a real control
//! plane.

use weft_system_tests as harness;
#[path = "../../../addons/src/tests/histories.rs"]
mod histories;
#[path = "../../../addons/src/tests/options.rs"]
mod options;

mod alerts;
mod anew;
mod carry_over;
mod cert_manager;
pub mod certificates;
mod claims;
mod cluster_network;
mod components;
mod conflict;
mod definitions;
mod deletion;
mod documented;
mod drift;
mod escalation;
mod held;
mod hostile;
mod install;
mod known;
mod kubevirt;
mod leftovers;
mod limits;
mod macvtap;
mod metrics;
mod model;
mod monitoring;
mod namespace;
mod narrowed;
pub mod node_network;
mod open_vswitch;
mod openshift;
pub mod placement;
mod preflight;
mod process;
mod prometheus;
mod rbac;
mod refused;
mod replicas;
pub mod resistance;
mod restored;
mod rollout;
mod rolls;
mod warnings;
