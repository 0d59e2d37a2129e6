//! The kinds of nmstate.io: what their definitions accept and refuse, in-process.

use super::{schema, table};

mod cases;
mod rules;
