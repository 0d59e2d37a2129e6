//! The packages of Weft, made from what `weft manifests` prints, so that each of them installs the
//! same objects.
//!
//! - [`chart`]: the Helm chart;
//! - [`yaml`]: the release as plain YAML;
//! - [`krew`]: the manifest of the kubectl plugin;
//! - [`olm`]: bundle and catalog for Operator Lifecycle Manager;
//! - [`release`]: the inputs of a release;
//! - [`domains`]: the domains, by the names that packages have for them;
//! - [`kustomize`]: bases and an overlay for kustomize;
//! - [`manifests`]: the objects of an installation, from the program itself;
//! - [`permissions`]: the rules of roles, taken apart and put together;
//! - [`files`]: the files of a package.

pub mod chart;
pub mod domains;
pub mod files;
pub mod krew;
pub mod kustomize;
pub mod manifests;
pub mod olm;
pub mod permissions;
pub mod release;
pub mod yaml;
