//! The reconcile loop of a domain: decide what its resource asks for, apply and remove objects, and
//! report the outcome in status and events.

pub mod admission;
pub(crate) mod apply;
pub(crate) mod certificates;
pub mod confirm;
pub(crate) mod context;
pub mod controller;
pub(crate) mod decide;
pub mod defect;
pub(crate) mod dependents;
pub(crate) mod disown;
pub mod events;
pub mod finalizer;
pub mod objects;
pub mod originals;
mod other_controller;
pub(crate) mod outcome;
mod prune;
mod reach;
mod recording;
mod repairs;
mod resistance;
pub mod retry;
pub mod run;
pub mod seniority;
pub mod set;
pub mod starts;
pub mod status;
pub mod stored;
pub mod teardown;
#[cfg(test)]
mod testing;
