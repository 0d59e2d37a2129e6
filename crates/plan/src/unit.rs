//! Units: the objects that stand or fall together, and the order within one.

use crate::{Kind, Manifest, kinds};

/// The objects of one component. Units fail alone: what is wrong with one never stops another.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// The component's name as users see it in status, for example `multus`.
    pub name: String,
    /// Its objects, in any order: [`Stage`] gives the order of work.
    pub objects: Vec<Manifest>,
}

/// How an object is kept once it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Weft answers for all of its fields, always.
    #[default]
    Managed,
    /// Created once where it is missing. From then on it belongs to the user.
    CreateOnly,
}

/// The order of work inside a unit: a later stage starts when the ones before are done. Removal
/// goes the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Namespaces, which everything else lives in.
    Namespace,
    /// Custom resource definitions.
    Definition,
    /// Service accounts and roles: a pod must find its permissions.
    Access,
    /// Role bindings: the API server looks into the role before it lets anybody bind it.
    Binding,
    /// ConfigMaps, Secrets, Services, policies: a pod must find its configuration.
    Config,
    /// DaemonSets and Deployments.
    Workload,
    /// Admission webhooks, last: a webhook without its server refuses everything.
    Webhook,
}

impl Stage {
    /// All stages, in the order of work.
    pub const ALL: [Stage; 7] = [
        Stage::Namespace,
        Stage::Definition,
        Stage::Access,
        Stage::Binding,
        Stage::Config,
        Stage::Workload,
        Stage::Webhook,
    ];

    /// When objects of this kind are applied.
    pub fn of(kind: Kind) -> Stage {
        match kind {
            kinds::NAMESPACE => Stage::Namespace,
            kinds::CUSTOM_RESOURCE_DEFINITION => Stage::Definition,
            kinds::SERVICE_ACCOUNT
            | kinds::ROLE
            | kinds::CLUSTER_ROLE
            | kinds::SECURITY_CONTEXT_CONSTRAINTS => Stage::Access,
            kinds::ROLE_BINDING | kinds::CLUSTER_ROLE_BINDING => Stage::Binding,
            kinds::DAEMON_SET | kinds::DEPLOYMENT => Stage::Workload,
            kinds::MUTATING_WEBHOOK_CONFIGURATION | kinds::VALIDATING_WEBHOOK_CONFIGURATION => {
                Stage::Webhook
            }
            _ => Stage::Config,
        }
    }
}
