//! The reconcile loop of a domain: decide what its resource asks for, apply and remove objects, and
//! report the outcome in status and events.

pub(crate) mod certificates;
pub mod controller;
pub(crate) mod disown;
pub mod events;
pub mod objects;
pub(crate) mod outcome;
pub mod pass;
pub mod retry;
pub mod seniority;
pub mod status;
pub mod stored;
pub mod teardown;
