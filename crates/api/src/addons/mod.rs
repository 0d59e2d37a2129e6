//! `NetworkAddonsConfig`: which network add-ons a cluster has, and how they are set up.
//!
//! Next to the types: [`crd`], the definition with schema, CEL rules and printer columns, and
//! [`admission`], warnings about outdated spellings and limits to what accounts may write. Both are
//! written to `deploy/` by `cargo run -p weft-api --example generate`.

mod accounts;
mod admission;
mod crd;
mod host;
mod images;
mod placement;
mod resource;
mod resources;
mod rules;
mod spec;
mod status;
mod tls;

pub use accounts::{MARKERS_POLICY, PODS_POLICY, SECRETS_POLICY};
pub use admission::admission;
pub use crd::crd;
pub use host::HostPaths;
pub use images::{ImagePullSecret, Images};
pub use placement::{Placement, PlacementConfiguration};
pub use resource::NetworkAddonsConfig;
pub use resources::{Amounts, CONTAINERS, ContainerResources};
pub use spec::{
    KubeMacPool, KubeSecondaryDns, KubevirtIpamController, LinuxBridge, Macvtap, Multus,
    MultusDynamicNetworks, NetworkAddonsConfigSpec, NmState, Ovs, SelfSignConfiguration,
};
pub use status::{ComponentStatus, Container, NetworkAddonsConfigStatus};
pub use tls::{CustomTlsProfile, NamedTlsProfile, TlsSecurityProfile};

/// The API group.
pub const GROUP: &str = "networkaddonsoperator.network.kubevirt.io";
/// The version that is stored.
pub const VERSION: &str = "v1";
/// The older version. It has the same schema and is served for those who still use it.
pub const VERSION_V1ALPHA1: &str = "v1alpha1";
/// The kind.
pub const KIND: &str = "NetworkAddonsConfig";
/// The name of the resource in URLs and RBAC rules.
pub const PLURAL: &str = "networkaddonsconfigs";
/// The name of the one object that is acted on.
pub const NAME: &str = "cluster";
