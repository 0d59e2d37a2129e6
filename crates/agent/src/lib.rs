//! The node agent.

pub mod ports;
pub mod state_dir;
pub mod transaction;
