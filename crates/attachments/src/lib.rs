//! The networks that pods have next to the default one: requests, definitions and reports. Pure.
//!
//! [`request`] reads what a pod asks for, [`status`] what Multus reports about it, and [`Config`]
//! the CNI configuration in a NetworkAttachmentDefinition. [`Config::verdicts`] judges such a
//! configuration by its text alone, and [`overlap`] judges several of them together.
//!
//! The rules are those of the programs that read these texts: Multus 4.2, libcni 1.3, the plugins
//! of containernetworking 1.10 and whereabouts 0.9.2. Unknown plugins and unknown fields are right,
//! because anyone may write a plugin.

mod address;
mod chain;
mod config;
mod go;
mod interfaces;
mod ipam;
pub mod overlap;
pub mod request;
mod section;
pub mod status;
mod verdict;
mod whereabouts;

pub use config::{Config, Plugin, text};
pub use verdict::{Level, Verdict};
