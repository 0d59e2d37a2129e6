//! The packages of Weft, made from what `weft manifests` prints, so that each of them installs the
//! same objects.
//!
//! - [`chart`]: the Helm chart;
//! - [`domains`]: the domains, by the names that packages have for them;
//! - [`kustomize`]: bases and an overlay for kustomize;
//! - [`manifests`]: the objects of an installation, from the program itself;
//! - [`permissions`]: the rules of roles, taken apart and put together;
//! - [`files`]: the files of a package.

pub mod chart;
pub mod domains;
pub mod files;
pub mod kustomize;
pub mod manifests;
pub mod permissions;
