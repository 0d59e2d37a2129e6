//! The default networks that Weft knows.

mod fields;
mod flannel;
mod none;
mod openshift_sdn;

use crate::provider::Provider;

/// All providers.
pub const ALL: &[&dyn Provider] = &[&openshift_sdn::OpenShiftSdn, &flannel::Flannel, &none::None];
