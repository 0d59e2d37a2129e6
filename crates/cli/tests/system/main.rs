//! The operator as it is in life: the real binary with the shipped rights, against a real control
//! plane.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../harness/mod.rs"]
mod harness;
#[path = "../../../addons/tests/common/histories.rs"]
mod histories;
#[path = "../../../addons/tests/common/options.rs"]
mod options;

mod anew;
mod carry_over;
mod cert_manager;
mod certificates;
mod cluster_network;
mod components;
mod conflict;
mod deletion;
mod documented;
mod drift;
mod escalation;
mod held;
mod hostile;
mod install;
mod known;
mod leftovers;
mod limits;
mod macvtap;
mod metrics;
mod model;
mod monitoring;
mod narrowed;
mod node_network;
mod openshift;
mod placement;
mod preflight;
mod process;
mod prometheus;
mod rbac;
mod refused;
mod replicas;
mod restored;
mod rollout;
mod rolls;
