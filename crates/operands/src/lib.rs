//! Parts that all domains use for their operands: references of images, edits of pods and of their
//! placement, names and paths, durations, and lists of mistakes in a resource. Pure, and it knows
//! no domain: a helper that only one of them needs stays there.

// The tests below `tests` name the crate as its users do.
#[cfg(test)]
extern crate self as weft_operands;

pub mod duration;
pub mod image;
pub mod namespace;
pub mod pod;
pub mod problems;
pub mod pull_policy;
pub mod scheduling;
#[cfg(test)]
mod tests;
pub mod text;
