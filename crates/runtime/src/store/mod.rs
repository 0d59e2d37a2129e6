//! Objects of the cluster as the watches report them: whole objects of a domain, or views of many
//! objects. One table of versions serves both, and streams feed them.

pub mod cache;
pub mod notifier;
pub mod rewind;
pub mod stream;
pub mod table;
pub mod views;
pub mod watch;
pub mod watches;
