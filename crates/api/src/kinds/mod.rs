//! The kinds of objects that Weft reads and writes, one file for each party that defines them.
//!
//! They are known at compile time, so Weft sends no discovery request for them.

use crate::Kind;

mod add_ons;
mod kubernetes;
mod openshift;
mod openstack;
mod weft;

pub use add_ons::*;
pub use kubernetes::*;
pub use openshift::*;
pub use openstack::*;
pub use weft::*;

/// Declares kinds as `NAME = group, version, kind, plural, namespaced;` and lists them in `TABLE`.
macro_rules! kinds {
    ($($name:ident = $group:literal, $version:literal, $kind:literal, $plural:literal, $namespaced:literal;)*) => {
        use crate::Kind;

        $(
            #[doc = concat!("`", $kind, "`")]
            pub const $name: Kind = Kind {
                group: $group,
                version: $version,
                kind: $kind,
                plural: $plural,
                namespaced: $namespaced,
            };
        )*

        pub(super) const TABLE: &[Kind] = &[$($name),*];
    };
}
use kinds;

const TABLES: [&[Kind]; 5] = [
    kubernetes::TABLE,
    add_ons::TABLE,
    openshift::TABLE,
    weft::TABLE,
    openstack::TABLE,
];

/// All kinds.
pub const ALL: &[Kind] = &together::<{ count() }>();

/// Groups that a cluster may lack: those of others, and the one that the add-ons ask of another
/// domain of Weft.
pub const OPTIONAL_GROUPS: [&str; 9] = [
    "cert-manager.io",
    "k8s.cni.cncf.io",
    "keystone.openstack.org",
    "mariadb.openstack.org",
    "monitoring.coreos.com",
    "nmstate.io",
    "operator.openshift.io",
    "security.openshift.io",
    "topology.openstack.org",
];

/// Kinds by which the API server asks before it accepts an object: a server, or its own rules.
pub const ADMISSION: [Kind; 3] = [
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
    VALIDATING_ADMISSION_POLICY,
];

/// The policies by which the API server itself changes objects, each with the kind that binds it, in
/// the versions that an API server may serve. The newest comes first: it serves `v1` since Kubernetes
/// 1.36, and may serve older versions or none before. They are not among [`ALL`], which has one
/// version of each kind.
pub const MUTATING_ADMISSION: [[Kind; 2]; 3] = [
    mutating_admission("v1"),
    mutating_admission("v1beta1"),
    mutating_admission("v1alpha1"),
];

const fn mutating_admission(version: &'static str) -> [Kind; 2] {
    let policy = Kind {
        version,
        kind: "MutatingAdmissionPolicy",
        plural: "mutatingadmissionpolicies",
        ..MUTATING_WEBHOOK_CONFIGURATION
    };
    let binding = Kind {
        kind: "MutatingAdmissionPolicyBinding",
        plural: "mutatingadmissionpolicybindings",
        ..policy
    };
    [policy, binding]
}

const fn count() -> usize {
    let (mut all, mut table) = (0, 0);
    while table < TABLES.len() {
        all += TABLES[table].len();
        table += 1;
    }
    all
}

const fn together<const N: usize>() -> [Kind; N] {
    let mut all = [NAMESPACE; N];
    let (mut filled, mut table) = (0, 0);
    while table < TABLES.len() {
        let mut row = 0;
        while row < TABLES[table].len() {
            all[filled] = TABLES[table][row];
            filled += 1;
            row += 1;
        }
        table += 1;
    }
    all
}
