//! `NetworkConfig`: the cluster's default network, its service proxy, and additional networks.
//!
//! Beside the types: [`crd`], the definition with schema and printer columns.

mod crd;
mod resource;
mod spec;
mod status;

pub use crd::crd;
pub use resource::NetworkConfig;
pub use spec::{
    AdditionalNetwork, ClusterNetwork, DefaultNetwork, FlannelConfig, NetworkConfigSpec, OpenShiftSdnConfig, ProxyConfig, ServiceNetwork,
};
pub use status::{AdditionalNetworkStatus, NetworkConfigStatus, RefusedChange, RefusedField};

/// The API group.
pub const GROUP: &str = "networkoperator.openshift.io";
/// The one version.
pub const VERSION: &str = "v1";
/// The kind.
pub const KIND: &str = "NetworkConfig";
/// The name of the resource in URLs and RBAC rules.
pub const PLURAL: &str = "networkconfigs";
/// The name of the one object that is acted on.
pub const NAME: &str = "default";
