//! NetworkConfig: what its definition accepts and refuses, in-process.

use super::{schema, table};

mod cases;
mod rules;
