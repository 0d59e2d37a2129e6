//! One file a command: its arguments, and what it does.

pub mod complete;
pub mod completion;
pub mod crds;
pub mod explain;
pub mod graph;
pub mod man;
pub mod manifests;
pub mod migrate;
pub mod node;
pub mod operator;
pub mod plan;
pub mod release;
pub mod render;
pub mod render_network;
pub mod report;
pub mod status;
pub mod uninstall;
pub mod validate;
pub mod version;
