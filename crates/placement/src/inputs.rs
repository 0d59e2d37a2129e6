//! The input besides the resource: the operator reads it, or a user gives it on the command line.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::url::Database;

/// How Placement proves to Keystone who it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// By the password of `spec.serviceUser`.
    Password(String),
    /// By an application credential.
    Application {
        /// key AC_ID
        id: String,
        /// key AC_SECRET
        secret: String,
    },
}

/// Where Keystone is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeystoneEndpoints {
    /// Where clients without a token are sent.
    pub public: String,
    /// Where Placement asks.
    pub internal: String,
    /// The region, if Keystone names one.
    pub region: Option<String>,
}

/// A network that pods are attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its NetworkAttachmentDefinition.
    pub name: String,
    /// The gateway in its configuration, which becomes that of the pod.
    pub gateway: Option<String>,
}

/// All that must be known.
#[derive(Clone, PartialEq)]
pub struct Inputs {
    /// The image that the operator was installed with.
    pub default_image: String,
    /// The database.
    pub database: Database,
    /// True if the connection to it is encrypted. True if the database requires a bundle of
    /// certificates.
    pub database_tls: bool,
    /// Keystone, and who Placement is there. Nothing with `auth.strategy: noauth2`.
    pub keystone: Option<(KeystoneEndpoints, Credentials)>,
    /// Digests of what the pods read and Weft does not write: certificates and bundles, by the name
    /// of the Secret.
    pub mounted: BTreeMap<String, String>,
    /// The networks of `spec.networkAttachments`, in that order.
    pub networks: Vec<Network>,
    /// `spec` of the Topology, if one is referred to.
    pub topology: Option<Value>,
}
