//! The picture of a node's network: its parts, from the switch to the pods, the links between them,
//! the policies behind each part, and the parts that are not as a policy wants them.
//!
//! Commands draw the picture. This room only decides its content, from the node's report, the
//! policies, their enactments and the pods of the node.

mod build;
mod interfaces;
pub mod model;
pub mod pods;
pub mod policies;
mod routes;

pub use build::{Known, graph};

#[cfg(test)]
mod tests;
