//! Which node may change when: the rollout of policies over nodes.
//!
//! The operator decides, the agents of the nodes act. An enactment connects both, one for each
//! policy and node. Its `spec` holds the state that the node may apply, and its `status` the
//! result. All that is needed to decide is in the objects themselves, so an operator that was
//! killed between any two writes goes on where it was, and no count can be wrong for longer than it
//! takes to look again.
//!
//! - [`view`]: what is kept of the API server's objects;
//! - [`limit`]: how many nodes may be changed at the same time;
//! - [`standing`]: where a policy stands on one node;
//! - [`progress`]: the same in words that commands count by;
//! - [`addresses`]: which node gets which address of a pool, [`held`]: which it has;
//! - [`predict`]: the same for a plan;
//! - [`slots`]: what is to be written next, [`writes`]: how;
//! - [`readiness`]: which nodes have all policies that are for them, [`node_condition`]: what Nodes
//!   say about it;
//! - [`status`]: what a policy says about all that.

mod addresses;
mod held;
mod limit;
mod node_condition;
mod predict;
pub mod progress;
pub mod readiness;
mod selection;
mod slots;
mod standing;
pub mod status;
pub mod view;
pub mod writes;

#[cfg(test)]
mod address_model;
#[cfg(test)]
mod readiness_tests;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod testing;

pub use addresses::{addresses, assign};
pub use held::Addresses;
pub use node_condition::{Readiness, Ready};
pub use predict::{Predicted, predict};
pub use slots::{Action, decide};
pub use view::{Decision, Enactment, Node, Policy, Wanted, World};
