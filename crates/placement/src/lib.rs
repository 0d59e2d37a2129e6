//! `PlacementAPI`: what a Placement service is made of. Pure: no I/O, no clock, no dice.
//!
//! [`validate`] lists everything that is wrong with a specification; [`Config`] is one in which nothing is wrong or open, and [`Inputs`] what else
//! must be known: contents of Secrets, addresses of Keystone, networks. From both of them [`files`] makes what Placement and Apache read, and
//! [`objects`] what is applied. Every value of somebody else's goes through [`ini`] or [`url`].
//!
//! No operator runs this yet.

pub mod config;
pub mod files;
pub mod ini;
pub mod inputs;
pub mod objects;
pub mod url;
pub mod validate;

pub use config::Config;
pub use inputs::{Credentials, Inputs, KeystoneEndpoints, Network};
pub use url::Database;
