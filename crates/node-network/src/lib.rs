//! What a node is to look like, by the policies that select it, and when it may change.
//!
//! Everything here is pure: what is on the host, what the policies say and what was applied before are handed in. States are JSON in the
//! form of nmstate, since that is what the API holds; where their meaning counts, the library `nmstate` reads them.

pub mod canonical;
pub mod claims;
pub mod merge;
pub mod path;
pub mod route;
