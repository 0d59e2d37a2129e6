//! Decides about the network of a node, by the policies that select it, and about the time of a
//! change.
//!
//! The crate is pure: callers hand in the state of the host, the policies and the states that were
//! applied before. States are JSON in the form of nmstate, since the API holds that form.
//! [`schema`] names each wrong key and value of a state at its place, and [`verdict`] asks nmstate
//! itself.
//!
//! A policy takes these steps on a node:
//!
//! - `select` decides if the policy selects the node.
//! - `values` finds the labels and other values of the node that the policy refers to.
//! - [`render`] makes its desired state with `translate`, `interfaces`, [`bonding`], [`capture`],
//!   [`template`], `bridge` and `bond`.
//! - [`merge`] joins the desired state with those of other policies.
//! - [`secrets`] fills in the values that only the node may know.
//! - [`desired`] holds the result as nmstate has read it, up to the host.
//! - [`drift`] lists the differences between the desired state and the host.
//! - [`removal`] lists the things that an apply removes besides. [`losses`] has those of ports, and
//!   [`consequences`] those that the desired state does not name.
//! - [`feasible`] and [`verdict`] name the parts that the host would refuse, and [`kernel_subset`]
//!   those that one without NetworkManager would refuse.
//! - [`lifelines`] names the interfaces with the default route and the node's address that all of
//!   that touches, and [`shared_addresses`] an address that several nodes would get.
//! - [`plan`] writes all of that for people.
//! - [`revert`] makes the state that takes the policy back.
//!
//! [`notes`] has hints about a desired state where no host is known.
//! [`normalise`] makes the report of a node. [`graph`] makes a picture of it. [`rollout`] decides when a node may change, and
//! [`deployment`] brings the agent to the nodes.

pub mod addresses;
mod belongs;
pub mod blame;
mod bond;
pub mod bonding;
mod bridge;
mod canonical;
pub mod capture;
pub mod check;
pub mod claims;
pub mod consequences;
mod contradictions;
pub mod counts;
pub mod deployment;
pub mod desired;
mod dispatch;
pub mod drift;
mod expression;
pub mod feasible;
mod form;
mod functions;
mod glob;
pub mod graph;
mod hidden;
mod index;
mod interfaces;
pub mod kernel_subset;
pub mod lifelines;
mod link;
mod listed_ports;
pub mod lldp;
pub mod losses;
mod matching;
pub mod merge;
mod nmstate_schema;
pub mod normalise;
pub mod notes;
pub mod path;
pub mod plan;
pub mod ports;
#[cfg(test)]
mod properties;
mod ranges;
mod references;
pub mod removal;
pub mod render;
pub mod resolve;
pub mod revert;
pub mod review;
pub mod rollout;
mod route;
pub mod schema;
pub mod secrets;
mod select;
pub mod shared_addresses;
pub mod state;
mod state_error;
mod static_addresses;
pub mod template;
mod translate;
mod validate;
mod values;
pub mod verdict;
mod vlan;
