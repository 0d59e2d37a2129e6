//! The archive of `weft report`: what a person who is not at the cluster needs to understand it.
//!
//! - [`redaction`]: the removal of secret values from everything that goes into the archive;
//! - [`archive`]: the file itself, which grows object by object;
//! - [`pages`]: lists of a cluster, page by page;
//! - [`collect`]: the parts of the archive.
//!
//! Memory holds one page of objects, a few logs and the values of Secrets at a time, whatever the
//! size of the cluster.

pub mod archive;
pub mod collect;
mod pages;
mod redaction;
