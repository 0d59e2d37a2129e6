//! `placement.openstack.org`: the Placement service of an OpenStack.
//!
//! - [`spec`](PlacementApiSpec): what is asked for, and [`overrides`](ApiOverride), what is changed
//!   of the objects that are made for it;
//! - [`standalone`](Database): how it runs without the operators of MariaDB and Keystone;
//! - [`status`](PlacementApiStatus): what the operator reports.
//!
//! Next to the types: [`crd`], the definition with schema, CEL rules and printer columns, and
//! [`admission`], the rule that the schema cannot hold. Both are written to `deploy/` by
//! `cargo run -p weft-api --example generate`.

mod accounts;
mod admission;
mod crd;
mod overrides;
pub mod patterns;
mod resource;
mod rules;
mod schemas;
mod spec;
mod standalone;
mod status;

pub use accounts::OPERATOR_POLICY;
pub use admission::admission;
pub use crd::crd;
pub use overrides::{
    ApiOverride, ClientIpConfig, EmbeddedMetadata, ProbeOverride, ProbeOverrides, RoutedOverride,
    ServiceOverride, SessionAffinityConfig,
};
pub use resource::PlacementApi;
pub use spec::{
    Auth, PasswordSelectors, PlacementApiSpec, ResourceClaim, Resources, Tls, TlsApi, TlsService,
    TopologyRef,
};
pub use standalone::{CredentialsSecret, Database, ExternalKeystone, Keystone, SecretKey};
pub use status::{AppliedTopology, Condition, PlacementApiStatus};

/// The API group.
pub const GROUP: &str = "placement.openstack.org";
/// The one version.
pub const VERSION: &str = "v1beta1";
/// The kind.
pub const KIND: &str = "PlacementAPI";
/// The name of the resource in URLs and RBAC rules.
pub const PLURAL: &str = "placementapis";
/// The ways in which the service is reached, each with a Service and an endpoint in Keystone of its
/// own. In this order everywhere.
pub const ENDPOINTS: [&str; 2] = ["internal", "public"];
/// The one file of Placement that may be replaced as a whole.
pub const POLICY_FILE: &str = "policy.yaml";
