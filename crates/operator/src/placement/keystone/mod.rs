//! Direct registration: Placement's user, service and endpoints in Keystone, by requests to
//! Keystone.
//!
//! `weft_placement::registration` decides about wanted entries and differences. This module holds
//! the client of Keystone ([`Keystone`]) and the steps ([`registration`]).

mod client;
mod error;
pub mod registration;

pub use client::Keystone;
pub use error::KeystoneError;
