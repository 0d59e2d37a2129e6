//! The node agent.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what is printed goes through `commands::output`, which escapes control characters of others"
)]

pub mod cluster;
pub mod commands;
pub mod enact;
pub mod guardian;
pub mod health;
pub mod heap;
pub mod history;
pub mod host;
pub mod lock;
pub mod observe;
pub mod own_address;
mod pause;
pub mod ports;
pub mod probes;
pub mod process;
pub mod report;
pub mod secrets;
pub mod settings;
pub mod state_dir;
mod stop;
pub mod transaction;
pub mod work;

#[cfg(test)]
mod aliases_tests;
#[cfg(test)]
mod captures_tests;
#[cfg(test)]
mod reach_tests;
#[cfg(test)]
mod schema_tests;
#[cfg(test)]
mod verdict_tests;
