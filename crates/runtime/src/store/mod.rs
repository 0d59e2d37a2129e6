//! Objects of the cluster as the watches report them: whole objects of a domain, or views of many
//! objects, and the streams that feed both.

pub mod cache;
pub mod notifier;
pub mod rewind;
pub mod stream;
pub mod views;
pub mod watch;
pub mod watches;
