//! One transaction for all policies of a node.

mod failure;
mod phase;

pub use self::{failure::Failure, phase::Phase};
