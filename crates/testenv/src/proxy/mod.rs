//! Faults.
mod request_info;
pub use request_info::is_write;
