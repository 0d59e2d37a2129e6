//! The TLS profile, in the shape of OpenShift's `TLSSecurityProfile`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A named TLS profile, or one of the user's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TlsSecurityProfile {
    /// Old, Intermediate, Modern or Custom.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,

    /// Has no settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<TlsProfile>,

    /// Has no settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intermediate: Option<TlsProfile>,

    /// Has no settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modern: Option<TlsProfile>,

    /// The user's own profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<CustomTlsProfile>,
}

/// A named profile has no settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TlsProfile {}

/// A TLS profile of the user's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomTlsProfile {
    /// The ciphers, by their OpenSSL names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ciphers: Option<Vec<String>>,

    /// The lowest TLS version.
    #[serde(
        rename = "minTLSVersion",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub min_tls_version: Option<String>,

    /// The key exchange groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<String>>,
}
