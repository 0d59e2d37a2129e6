//! What a change would do: object identity, inventory, comparison of desired and live, rollout and conditions. Pure.
//!
//! Nothing in this crate reads a clock, a file or a socket: what it needs is handed to it, so that `weft plan`, the operator and
//! the tests run the same code. A domain (add-ons, cluster network, ...) implements [`Domain`]; everything else here is common.

mod domain;
mod kind;
mod object;
pub mod report;
pub mod rollout;
mod unit;

pub use domain::{Decision, Domain, Facts, Input, Notice, Platform, Problem, Refusal};
pub use kind::{Kind, kinds};
pub use object::{Manifest, ManifestError, ObjectKey, parse_yaml};
pub use unit::{Mode, Stage, Unit};
