//! `NetworkConfig`: the cluster's default network, its service proxy, and additional networks.
//!
//! Next to the types: [`crd`], the definition with schema, CEL rules and printer columns, and
//! [`admission`], the rules that the schema cannot hold. Both are written to `deploy/` by
//! `cargo run -p weft-api --example generate`.

mod accounts;
mod additional;
mod admission;
mod crd;
mod resource;
mod rules;
mod spec;
mod status;

pub use accounts::{NAMESPACES_OF_OTHER_DOMAINS, NODES_POLICY, OPERATOR_POLICY, OTHER_DOMAINS};
pub use additional::{
    AdditionalNetwork, IpamConfig, SimpleMacvlanConfig, StaticIpamAddress, StaticIpamConfig,
    StaticIpamDns, StaticIpamRoute,
};
pub use admission::admission;
pub use crd::crd;
pub use resource::NetworkConfig;
pub use spec::{
    ClusterNetwork, DefaultNetwork, FlannelConfig, NetworkConfigSpec, OpenShiftSdnConfig,
    ProxyConfig, ServiceNetwork,
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
/// The types of default networks.
pub const TYPES: [&str; 3] = ["OpenShiftSDN", "Flannel", "None"];
