//! Decides about the network of a node, by the policies that select it, and about the time of a
//! change.
//!
//! Everything here is pure: what is on the host, what the policies say and what was applied before
//! are handed in. States are JSON in the form of nmstate, since that is what the API holds.
//! [`schema`] knows the states that nmstate accepts, without the library.
//!
//! The way of a policy on a node: [`select`] says whether it is meant, [`render`] makes its desired
//! state ([`translate`], [`interfaces`], [`capture`], [`bridge`], [`bond`]), [`merge`] joins it
//! with those of the others, [`secrets`] fills in what only the node may know, [`drift`] says what
//! of it is not so, [`removal`] what an apply takes away besides, [`feasible`] what the host would
//! refuse, [`plan`] writes that for people, and [`revert`] takes it back. [`normalise`] makes the
//! report. [`rollout`] says when, and [`deployment`] brings the agent to the nodes.

pub mod blame;
pub mod bond;
pub mod bridge;
pub mod canonical;
pub mod capture;
pub mod check;
pub mod claims;
pub mod contradictions;
pub mod counts;
pub mod deployment;
pub mod drift;
pub mod expression;
pub mod feasible;
pub mod glob;
pub mod interfaces;
pub mod merge;
pub mod normalise;
pub mod path;
pub mod plan;
pub mod ranges;
pub mod removal;
pub mod render;
pub mod revert;
pub mod review;
pub mod rollout;
pub mod route;
pub mod schema;
pub mod secrets;
pub mod select;
pub mod state;
pub mod state_error;
pub mod translate;
pub mod validate;
mod vlan;
