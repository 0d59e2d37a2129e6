//! The specification.
//!
//! Unlike in the other domains the schema sets defaults, those of placement-operator: tools read
//! them from the stored object.
//!
//! Doc comments of fields become the text of `kubectl explain`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApiOverride, Database, Keystone, rules, schemas};
use crate::{quantity::QuantityText, scheduling};

/// How the service is deployed, and what it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::spec()))]
pub struct PlacementApiSpec {
    /// The container image of Placement. Left out: the one that the operator was installed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024), extend("x-kubernetes-validations" = rules::image()))]
    pub container_image: Option<String>,

    /// Seconds after which a request is given up, by Apache in the pods and by a load balancer
    /// before them. 0 means 60.
    #[serde(
        rename = "apiTimeout",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(range(min = 0, max = 86400), extend("default" = 60, "x-kubernetes-validations" = rules::api_timeout()))]
    pub api_timeout: Option<i64>,

    /// The service's user in Keystone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("default" = "placement", "x-kubernetes-validations" = rules::one_line()))]
    pub service_user: Option<String>,

    /// The name of the Galera or MariaDB that mariadb-operator runs. Needed unless database is
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::object_name()))]
    pub database_instance: Option<String>,

    /// The name of the MariaDBAccount by which the service connects. It is made if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("default" = "placement", "x-kubernetes-validations" = rules::object_name()))]
    pub database_account: Option<String>,

    /// A database that mariadb-operator does not run, instead of databaseInstance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Database>,

    /// How many pods there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32), extend("default" = 1))]
    pub replicas: Option<i32>,

    /// The Secret that holds the password of the service's user. Needed unless auth.strategy is
    /// noauth2, or nobody registers the user and it has an application credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::object_name()))]
    pub secret: Option<String>,

    /// The keys of that Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {"service": "PlacementPassword"}))]
    pub password_selectors: Option<PasswordSelectors>,

    /// Labels of the nodes on which the pods run. Left out or empty: any node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scheduling::labels")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Keeps the Jobs that prepare the database after they are done, so that you can read their
    /// logs. Otherwise they go after ten minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub preserve_jobs: Option<bool>,

    /// Settings of Placement that are added to those that the operator makes, and count before
    /// them, in the form of oslo.config: sections in brackets, and below them lines of option =
    /// value. Options before the first section are of [DEFAULT]. The pods read it as
    /// /etc/placement/placement.conf.d/custom.conf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // With the length of the pattern, it keeps the cost of the rule within what the API server
    // allows one rule: 1,000,000.
    #[schemars(length(max = 131_072), extend("x-kubernetes-validations" = rules::oslo_config()))]
    pub custom_service_config: Option<String>,

    /// Files of Placement that are replaced as a whole. The only one is policy.yaml, the rules of
    /// who may do what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::config_overwrite")]
    pub default_config_overwrite: Option<BTreeMap<String, String>>,

    /// Requests and limits of the containers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,

    /// Names of NetworkAttachmentDefinitions in the same namespace: networks that the pods are
    /// attached to next to the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::attachments")]
    pub network_attachments: Option<Vec<String>>,

    /// Not a field of the API: an old example had networkAttachments misspelt like this. It is
    /// refused, so that the networks are not lost silently.
    // The API server drops fields that the schema does not know before any rule sees them, so a
    // rule can only refuse one that is declared.
    #[serde(
        rename = "networkAttachents",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub misspelt_network_attachments: Option<Vec<String>>,

    /// Changes to the created objects.
    #[serde(rename = "override", default, skip_serializing_if = "Option::is_none")]
    pub override_: Option<ApiOverride>,

    /// Certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,

    /// How clients prove who they are, and Placement to Keystone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,

    /// Which Keystone the service belongs to, and who registers it there. Left out: that of the
    /// KeystoneAPI in the namespace, by keystone-operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keystone: Option<Keystone>,

    /// The Topology by which the pods are placed, instead of the usual preference for different
    /// nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_ref: Option<TopologyRef>,
}

/// Keys of the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PasswordSelectors {
    /// The key that holds the password of the service's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("default" = "PlacementPassword", "x-kubernetes-validations" = rules::secret_key()))]
    pub service: Option<String>,
}

/// Requests and limits of containers, as in a container's resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// The most that a container may use, for example memory: 1Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::amounts")]
    pub limits: Option<BTreeMap<String, QuantityText>>,

    /// Resources that the node reserves for a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::amounts")]
    pub requests: Option<BTreeMap<String, QuantityText>>,

    /// Devices, by claims that the pod has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub claims: Option<Vec<ResourceClaim>>,
}

/// A claim of the pod that a container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceClaim {
    /// Its name.
    pub name: String,

    /// A request in it. Left out: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

/// Certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// The certificates that the service shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<TlsApi>,

    /// A Secret whose key tls-ca-bundle.pem holds the certificates that others, Keystone and the
    /// database, are verified by. Left out: those of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::object_name()))]
    pub ca_bundle_secret_name: Option<String>,
}

/// The certificates that the service shows: both or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = rules::tls_api()))]
pub struct TlsApi {
    /// Certificate of the Service placement-internal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub internal: Option<TlsService>,

    /// Certificate of the Service placement-public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public: Option<TlsService>,
}

/// A certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsService {
    /// The Secret with the keys tls.crt and tls.key. Left out: no TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::object_name()))]
    pub secret_name: Option<String>,
}

/// How clients prove who they are, and Placement to Keystone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Auth {
    /// A Secret with the keys AC_ID and AC_SECRET, an application credential by which Placement
    /// asks Keystone instead of the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::object_name()))]
    pub application_credential_secret: Option<String>,

    /// keystone, clients have a token of Keystone, or noauth2, everybody is believed who they say
    /// they are, which is for tests. Left out: keystone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["keystone", "noauth2"]))]
    pub strategy: Option<String>,
}

/// A Topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = rules::topology_ref()))]
pub struct TopologyRef {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::object_name()))]
    pub name: Option<String>,

    /// Its namespace, which is always that of the PlacementAPI. Leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub namespace: Option<String>,
}
