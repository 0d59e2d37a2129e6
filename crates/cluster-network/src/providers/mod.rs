//! The default networks that Weft knows.

mod none;

use crate::provider::Provider;

/// All of them.
pub const ALL: &[&dyn Provider] = &[&none::None];
