//! What commands ask of a live cluster: a preview of a reconcile, an overview, the operators that
//! run there, and the removal or release of what Weft deployed.

pub mod overview;
pub mod presence;
pub mod preview;
pub mod release;
pub mod removal;
