//! `NetworkAddonsConfig`: which network add-ons a cluster has, and how they are set up.

mod placement;
mod spec;
mod status;
mod tls;

pub use placement::{Placement, PlacementConfiguration};
pub use spec::{
    KubeMacPool, KubeSecondaryDns, KubevirtIpamController, LinuxBridge, Macvtap, Multus,
    MultusDynamicNetworks, NetworkAddonsConfigSpec, NmState, Ovs, SelfSignConfiguration,
};
pub use status::{ComponentStatus, Container, NetworkAddonsConfigStatus};
pub use tls::{CustomTlsProfile, TlsProfile, TlsSecurityProfile};

mod resource;
pub use resource::NetworkAddonsConfig;

/// The API group.
pub const GROUP: &str = "networkaddonsoperator.network.kubevirt.io";
/// The version that is stored. `v1alpha1` has the same schema and is served as well.
pub const VERSION: &str = "v1";
/// The older version, served for those who still use it.
pub const VERSION_V1ALPHA1: &str = "v1alpha1";
/// The kind.
pub const KIND: &str = "NetworkAddonsConfig";
/// The name in URLs and in RBAC.
pub const PLURAL: &str = "networkaddonsconfigs";
/// The only name of an object that is acted on.
pub const NAME: &str = "cluster";
