//! Direct registration: Placement's user, service and endpoints in Keystone, by requests to
//! Keystone.
//!
//! What is wanted and what differs is decided by `weft_placement::registration`; here is the way to
//! Keystone ([`Keystone`]) and the steps on it ([`registration`]).

mod client;
mod error;
pub mod registration;

pub use client::Keystone;
pub use error::KeystoneError;
