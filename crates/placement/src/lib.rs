//! `PlacementAPI`: what a Placement service is made of. Pure: no I/O, no clock, no random numbers.
//!
//! [`validate`] lists everything that is wrong with a specification. [`Config`] is one in which
//! nothing is wrong or open, and [`Inputs`] what else must be known: contents of Secrets, addresses
//! of Keystone, networks. From both of them [`files`] makes what Placement and Apache read, and
//! [`objects`] what is applied. Every value of another user's goes through [`ini`] or [`url`].
//!
//! An [`assess`]ment of the resource and of the [`World`] decides about the next step.
//! [`conditions`] and [`status`] report the progress.

pub mod assess;
pub mod certificate;
pub mod conditions;
mod config;
pub mod domain;
pub mod files;
pub mod handover;
#[cfg(test)]
mod hazards;
pub mod ini;
pub mod inputs;
pub mod networks;
pub mod objects;
pub mod peers;
pub mod preview;
pub mod registration;
pub mod singleton;
pub mod status;
pub mod url;
pub mod validate;
pub mod world;

pub use assess::{Assessment, assess, departure};
pub use config::Config;
pub use domain::{Placement, Settings};
pub use inputs::{Credentials, Inputs, KeystoneEndpoints, Network};
pub use url::Database;
pub use world::World;
