//! Placement without the operators of MariaDB and Keystone: which database, which Keystone, and who
//! registers the service there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules;

/// A database that mariadb-operator does not run: urlSecret, or host and credentialsSecret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::database()))]
pub struct Database {
    /// A key of a Secret that holds the whole address of the database, as SQLAlchemy takes it, for
    /// example mysql+pymysql://placement:secret@db.example/placement. Special characters in user
    /// and password must be percent-encoded there.
    #[serde(rename = "urlSecret", default, skip_serializing_if = "Option::is_none")]
    pub url_secret: Option<SecretKey>,

    /// The name or address of the host that the database runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::host()))]
    pub host: Option<String>,

    /// Its port. Left out: 3306.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,

    /// The name of the database, which must be there. Left out: placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = rules::database_name()))]
    pub name: Option<String>,

    /// The Secret with user and password, as they are: they are encoded where that is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret: Option<CredentialsSecret>,

    /// Encrypts the connection, and verifies the server's certificate by tls.caBundleSecretName.
    /// Left out: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<bool>,
}

/// A key of a Secret in the namespace of the PlacementAPI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKey {
    /// The name of the Secret.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::needed_name()))]
    pub name: String,

    /// The key. Left out: url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::secret_key()))]
    pub key: Option<String>,
}

/// A Secret with user and password in the namespace of the PlacementAPI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialsSecret {
    /// The name of the Secret.
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::needed_name()))]
    pub name: String,

    /// The key that holds the user's name. Left out: username.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::secret_key()))]
    pub user_key: Option<String>,

    /// The key that holds the password. Left out: password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::secret_key()))]
    pub password_key: Option<String>,
}

/// Which Keystone the service belongs to, and who registers it there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::keystone()))]
pub struct Keystone {
    /// A Keystone that no KeystoneAPI in the namespace stands for. Left out: that of the one
    /// KeystoneAPI there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalKeystone>,

    /// The owner of user, service and endpoints: Operator, by a KeystoneService and a
    /// KeystoneEndpoint for keystone-operator. Direct, this operator, by requests to Keystone.
    /// None, if they exist already. Left out: Operator, or None if external is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Operator", "Direct", "None"]))]
    pub registration: Option<String>,

    /// The Secret with name and password of a user who administers Keystone (role admin, scope
    /// system), in its domain Default. Direct needs it. The annotation weft.network/keystone-url of
    /// the Secret names the address that both may be sent to, weft.network/keystone-keys other keys
    /// than username and password, and weft.network/keystone-users other users than placement who
    /// may be registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_secret: Option<CredentialsSecret>,
}

/// Where a Keystone is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalKeystone {
    /// Where Placement asks it, for example https://keystone.example:5000. With registration
    /// Direct, the Secrets or the operator's administrator must permit that passwords are sent
    /// there.
    #[serde(rename = "authURL")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = rules::keystone_url()))]
    pub auth_url: String,

    /// Where clients that have no token are sent. Left out: authURL.
    #[serde(
        rename = "wwwAuthenticateURI",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = rules::url()))]
    pub www_authenticate_uri: Option<String>,

    /// The region that Placement belongs to. Left out: Keystone's only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = rules::one_line()))]
    pub region: Option<String>,

    /// A Secret whose key tls-ca-bundle.pem holds the certificates that Keystone's is verified by.
    /// Left out: those of tls.caBundleSecretName.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = rules::object_name()))]
    pub ca_bundle_secret_name: Option<String>,
}
