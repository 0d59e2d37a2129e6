//! The custom resources that Weft serves: types, schema, CEL rules, defaults and printer columns.
//! No I/O, no logic.
//!
//! One module a domain, and parts that all domains share:
//!
//! - [`addons`]: `NetworkAddonsConfig`, the add-ons of a cluster's network;
//! - [`cluster_network`]: `NetworkConfig`, the default network of a cluster;
//! - [`node_network`]: `NodeNetworkState` and its kin, the networks of the nodes themselves;
//! - [`placement`]: `PlacementAPI`, the Placement service of an OpenStack;
//! - [`Condition`] and [`DriftedObject`]: entries of `status.conditions` and `status.drift`, the
//!   same in every domain;
//! - [`Kind`] and [`kinds`]: the kinds of objects that Weft reads and writes.
//!
//! The types read more than the schema admits. A stored object may be older than the schema and
//! break one of its rules, and a type that refused it would stop the watch of all objects of its
//! kind. So choices (`imagePullPolicy`, the TLS ciphers ...) are strings here, unknown fields are
//! ignored, and nearly everything may be absent. The schema refuses early what can never work, and
//! the crate of a domain turns what was read into a type that holds nothing invalid.

// The tests below `tests` name the crate as its users do.
#[cfg(test)]
extern crate self as weft_api;

pub mod addons;
mod admission;
pub mod cluster_network;
mod condition;
mod definition;
mod drift;
mod kind;
pub mod kinds;
pub mod node_network;
mod patterns;
pub mod placement;
mod quantity;
mod resource;
mod rules;
mod scheduling;
mod schema;
#[cfg(test)]
mod tests;

pub use condition::Condition;
pub use drift::{DriftedField, DriftedObject};
pub use kind::Kind;
pub use patterns::{LABEL_KEY, LABEL_KEY_LENGTH, LABEL_VALUE};
pub use quantity::{QUANTITY_PATTERN, QuantityText};
