//! Questions of commands to a live cluster: the preview of a reconcile, an overview, the operators
//! that run there, and the removal or release of objects that Weft deployed.

pub mod overview;
pub mod presence;
pub mod preview;
pub mod reader;
pub mod release;
pub mod removal;
