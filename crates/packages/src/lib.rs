//! The packages of Weft, made from what `weft manifests` prints, so that each of them installs the
//! same objects.
//!
//! - [`chart`]: the Helm chart;
//! - [`manifests`]: the objects of an installation, from the program itself;
//! - [`permissions`]: the rules of roles, taken apart and put together.

pub mod chart;
pub mod manifests;
pub mod permissions;
