//! The packages of a release, judged and installed by the programs that users install them with.

mod chart;
pub mod common;
mod compare;
mod kustomize;
mod olm;
mod olm_programs;
mod release;
