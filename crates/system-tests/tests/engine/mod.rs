//! The engine of the controllers on a real API server.

mod certificates;
mod events;
mod lease;
mod new_domain;
mod panic;
mod semantics;
mod waits;
