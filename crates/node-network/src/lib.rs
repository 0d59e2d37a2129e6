//! Decides about the network of a node, by the policies that select it, and about the time of a
//! change.
//!
//! The crate is pure: callers hand in the state of the host, the policies and the states that were
//! applied before. States are JSON in the form of nmstate, since the API holds that form.
//! [`schema`] knows the states that nmstate accepts, without the library.
//!
//! A policy takes these steps on a node:
//!
//! - `select` decides if the policy selects the node.
//! - `values` finds the labels and other values of the node that the policy refers to.
//! - [`render`] makes its desired state with `translate`, `interfaces`, [`bonding`], [`capture`],
//!   [`template`], `bridge` and `bond`.
//! - [`merge`] joins the desired state with those of other policies.
//! - [`secrets`] fills in the values that only the node may know.
//! - [`drift`] lists the differences between the desired state and the host.
//! - [`removal`] lists the things that an apply removes besides.
//! - [`feasible`] names the parts that the host would refuse, and [`kernel_subset`] those that one
//!   without NetworkManager would refuse.
//! - [`plan`] writes all of that for people.
//! - [`revert`] makes the state that takes the policy back.
//!
//! [`normalise`] makes the report of a node. [`graph`] makes a picture of it. [`rollout`] decides when a node may change, and
//! [`deployment`] brings the agent to the nodes.

pub mod addresses;
pub mod blame;
mod bond;
pub mod bonding;
mod bridge;
mod canonical;
pub mod capture;
pub mod check;
pub mod claims;
mod contradictions;
pub mod counts;
pub mod deployment;
pub mod drift;
mod expression;
pub mod feasible;
mod glob;
pub mod graph;
mod interfaces;
pub mod kernel_subset;
pub mod lldp;
mod matching;
pub mod merge;
pub mod normalise;
pub mod path;
pub mod plan;
mod ranges;
pub mod removal;
pub mod render;
pub mod revert;
pub mod review;
pub mod rollout;
mod route;
pub mod schema;
pub mod secrets;
mod select;
pub mod state;
mod state_error;
pub mod template;
mod translate;
mod validate;
mod values;
mod vlan;
