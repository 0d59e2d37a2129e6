//! What the domains share about what they deploy: references of images, edits of pods and where
//! they run, names and paths, durations, and the list of what is wrong with a resource. Pure, and
//! it knows no domain: a helper that only one of them needs stays there.

pub mod duration;
pub mod image;
pub mod namespace;
pub mod pod;
pub mod problems;
pub mod pull_policy;
pub mod scheduling;
pub mod text;
