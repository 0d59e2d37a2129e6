//! The TLS profile, in the shape of OpenShift's `TLSSecurityProfile`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::rules;

const TYPES: [&str; 4] = ["Old", "Intermediate", "Modern", "Custom"];

const VERSIONS: [&str; 4] = [
    "VersionTLS10",
    "VersionTLS11",
    "VersionTLS12",
    "VersionTLS13",
];

/// The ciphers of the profile Old, by the names that OpenSSL has for them, those of TLS 1.3 by the
/// names of the standard.
const CIPHERS: [&str; 21] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-SHA256",
    "ECDHE-RSA-AES128-SHA256",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
    "AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-SHA256",
    "AES128-SHA",
    "AES256-SHA",
    "DES-CBC3-SHA",
];

const GROUPS: [&str; 7] = [
    "X25519",
    "secp256r1",
    "secp384r1",
    "secp521r1",
    "X25519MLKEM768",
    "SecP256r1MLKEM768",
    "SecP384r1MLKEM1024",
];

/// A TLS profile by name, or one of the user's own. The names are those of Mozilla's
/// recommendations for servers (version 5.7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::tls_profile()))]
pub struct TlsSecurityProfile {
    /// Old (TLS 1.0 and newer), Intermediate (TLS 1.2 and newer), Modern (TLS 1.3 only), or Custom
    /// for what custom says.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = TYPES))]
    pub type_: Option<String>,

    /// Goes with type Old and has no settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub old: Option<NamedTlsProfile>,

    /// Goes with type Intermediate and has no settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub intermediate: Option<NamedTlsProfile>,

    /// Goes with type Modern and has no settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub modern: Option<NamedTlsProfile>,

    /// Goes with type Custom: a profile of your own. If it is there it counts, whatever type says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub custom: Option<CustomTlsProfile>,
}

/// A profile that is known by name has no settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedTlsProfile {}

/// A TLS profile of the user's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomTlsProfile {
    /// The ciphers that are accepted, best first, by their OpenSSL names. A component drops those
    /// that it does not know. The ciphers of TLS 1.3 cannot be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ciphers")]
    pub ciphers: Option<Vec<String>>,

    /// The lowest TLS version that is accepted.
    #[serde(
        rename = "minTLSVersion",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("enum" = VERSIONS))]
    pub min_tls_version: Option<String>,

    /// The groups for the key exchange, best first. Left out, each component uses those that its
    /// TLS library prefers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "groups")]
    pub groups: Option<Vec<String>>,
}

fn ciphers(_: &mut SchemaGenerator) -> Schema {
    ordered_choice(&CIPHERS)
}

fn groups(_: &mut SchemaGenerator) -> Schema {
    ordered_choice(&GROUPS)
}

/// A list of some of these values in an order that matters.
fn ordered_choice(values: &[&str]) -> Schema {
    json_schema!({
        "type": "array",
        "items": {"type": "string", "enum": values},
        "x-kubernetes-list-type": "atomic",
    })
}
