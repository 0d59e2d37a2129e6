//! The meaning of a TLS profile for a server written in Go.
//!
//! The profiles are those of Mozilla (version 5.7) in the shape that OpenShift gave them.

use weft_api::addons::TlsSecurityProfile;
use weft_plan::Problem;

/// TLS settings of the components' servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The lowest version, by OpenShift's name, for example `VersionTLS13`.
    pub min_version: &'static str,
    /// Cipher suites up to TLS 1.2, by Go's names, without repetition. Those of TLS 1.3 cannot be
    /// chosen in Go.
    pub cipher_suites: Vec<&'static str>,
    /// Key exchange groups, by OpenShift's names, as far as the profile names any.
    pub groups: Vec<String>,
}

const VERSIONS: [&str; 4] = [
    "VersionTLS10",
    "VersionTLS11",
    "VersionTLS12",
    "VersionTLS13",
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
/// The groups of the named profiles.
const USUAL_GROUPS: [&str; 4] = ["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"];

/// OpenSSL's name of a cipher, and Go's where it is a suite that Go lets one choose. In the order
/// of the profile Old. Modern is the first 3, Intermediate the first 9.
const CIPHERS: [(&str, Option<&str>); 21] = [
    ("TLS_AES_128_GCM_SHA256", None),
    ("TLS_AES_256_GCM_SHA384", None),
    ("TLS_CHACHA20_POLY1305_SHA256", None),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        Some("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        Some("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ),
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        Some("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        Some("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        Some("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        Some("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ),
    (
        "ECDHE-ECDSA-AES128-SHA256",
        Some("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    ),
    (
        "ECDHE-RSA-AES128-SHA256",
        Some("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    ),
    (
        "ECDHE-ECDSA-AES128-SHA",
        Some("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    ),
    (
        "ECDHE-RSA-AES128-SHA",
        Some("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    ),
    (
        "ECDHE-ECDSA-AES256-SHA",
        Some("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    ),
    (
        "ECDHE-RSA-AES256-SHA",
        Some("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    ),
    ("AES128-GCM-SHA256", Some("TLS_RSA_WITH_AES_128_GCM_SHA256")),
    ("AES256-GCM-SHA384", Some("TLS_RSA_WITH_AES_256_GCM_SHA384")),
    ("AES128-SHA256", Some("TLS_RSA_WITH_AES_128_CBC_SHA256")),
    ("AES128-SHA", Some("TLS_RSA_WITH_AES_128_CBC_SHA")),
    ("AES256-SHA", Some("TLS_RSA_WITH_AES_256_CBC_SHA")),
    ("DES-CBC3-SHA", Some("TLS_RSA_WITH_3DES_EDE_CBC_SHA")),
];

impl Default for Tls {
    /// The profile Modern.
    fn default() -> Self {
        Self::named("VersionTLS13", 3)
    }
}

impl Tls {
    fn named(min_version: &'static str, ciphers: usize) -> Self {
        Self {
            min_version,
            cipher_suites: CIPHERS
                .iter()
                .take(ciphers)
                .filter_map(|(_, go)| *go)
                .collect(),
            groups: USUAL_GROUPS.map(str::to_owned).to_vec(),
        }
    }

    /// Replaces the TLS arguments of KubeMacPool and the KubeVirt IPAM controller. Leaves the
    /// groups out: the IPAM controller had a flag `--tls-curve-preferences` and has
    /// `--tls-group-preferences` now, and it does not start with a flag that it does not know.
    pub(crate) fn set_arguments(&self, args: &mut Vec<String>) {
        args.retain(|arg| !arg.starts_with("--tls-"));
        args.push(format!("--tls-min-version={}", self.min_version));
        if !self.cipher_suites.is_empty() {
            args.push(format!(
                "--tls-cipher-suites={}",
                self.cipher_suites.join(",")
            ));
        }
    }

    /// The settings of a profile. No profile is Modern. As in the original, `custom` counts
    /// whenever it is there, whatever `type` says.
    ///
    /// # Errors
    /// Everything that is wrong with it. Fields are below `spec.tlsSecurityProfile`.
    pub fn of(profile: Option<&TlsSecurityProfile>) -> Result<Self, Vec<Problem>> {
        let Some(profile) = profile else {
            return Ok(Self::default());
        };
        let problem = |field: &str, message: String| Problem {
            field: format!("spec.tlsSecurityProfile{field}"),
            message,
        };
        let Some(custom) = &profile.custom else {
            return match profile.type_.as_deref().unwrap_or_default() {
                "Old" => Ok(Self::named("VersionTLS10", 21)),
                "Intermediate" => Ok(Self::named("VersionTLS12", 9)),
                "Modern" => Ok(Self::default()),
                "Custom" => Err(vec![problem(
                    ".custom",
                    "is missing, and type is Custom: give ciphers and minTLSVersion, or choose another type".into(),
                )]),
                "" => Err(vec![problem(
                    ".type",
                    "is missing: choose Old, Intermediate, Modern or Custom, or leave tlsSecurityProfile out altogether for Modern".into(),
                )]),
                other => Err(vec![problem(".type", format!("{other:?} is not a profile: choose Old, Intermediate, Modern or Custom"))]),
            };
        };

        let mut problems = Vec::new();
        let wanted = custom.min_tls_version.as_deref().unwrap_or_default();
        let min_version = VERSIONS.into_iter().find(|version| *version == wanted);
        if min_version.is_none() {
            let what = if wanted.is_empty() {
                "is missing".to_owned()
            } else {
                format!("{wanted:?} is not a TLS version")
            };
            problems.push(problem(
                ".custom.minTLSVersion",
                format!("{what}: choose one of {}", VERSIONS.join(", ")),
            ));
        }
        let mut cipher_suites = Vec::new();
        for (index, name) in custom.ciphers.iter().flatten().enumerate() {
            match CIPHERS.iter().find(|(openssl, _)| openssl == name) {
                Some((_, Some(go))) if !cipher_suites.contains(go) => cipher_suites.push(*go),
                // A repetition, or a suite that Go does not let one choose: valid, without effect.
                Some(_) => {}
                None => problems.push(problem(
                    &format!(".custom.ciphers[{index}]"),
                    format!("{name:?} is not a known cipher: use OpenSSL's names, for example ECDHE-RSA-AES128-GCM-SHA256"),
                )),
            }
        }
        let mut groups: Vec<String> = Vec::new();
        for (index, name) in custom.groups.iter().flatten().enumerate() {
            if !GROUPS.contains(&name.as_str()) {
                problems.push(problem(
                    &format!(".custom.groups[{index}]"),
                    format!(
                        "{name:?} is not a known group: choose from {}",
                        GROUPS.join(", ")
                    ),
                ));
            } else if !groups.contains(name) {
                groups.push(name.clone());
            }
        }
        match min_version {
            Some(min_version) if problems.is_empty() => Ok(Self {
                min_version,
                cipher_suites,
                groups,
            }),
            _ => Err(problems),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn of(profile: Value) -> Result<Tls, Vec<String>> {
        Tls::of(Some(&serde_json::from_value(profile).unwrap()))
            .map_err(|problems| problems.iter().map(|p| p.field.clone()).collect())
    }

    #[test]
    fn none_is_modern() {
        assert_eq!(Tls::of(None).unwrap(), Tls::default());
        assert_eq!(
            of(json!({"type": "Modern", "modern": {}})).unwrap(),
            Tls::default()
        );
        assert_eq!(
            (
                Tls::default().min_version,
                Tls::default().cipher_suites.len()
            ),
            ("VersionTLS13", 0)
        );
    }

    #[test]
    fn the_older_profiles_name_suites() {
        let intermediate = of(json!({"type": "Intermediate"})).unwrap();
        assert_eq!(
            (intermediate.min_version, intermediate.cipher_suites.len()),
            ("VersionTLS12", 6)
        );
        let old = of(json!({"type": "Old"})).unwrap();
        assert_eq!(
            (old.min_version, old.cipher_suites.len()),
            ("VersionTLS10", 18)
        );
    }

    #[test]
    fn custom_wins_over_type_and_is_deduplicated() {
        let ciphers = ["AES128-SHA", "TLS_AES_128_GCM_SHA256", "AES128-SHA"];
        let custom = of(json!({
            "type": "Old",
            "custom": {
                "minTLSVersion": "VersionTLS11", "ciphers": ciphers,
                "groups": ["X25519", "X25519"]
            }
        }))
        .unwrap();
        assert_eq!(
            custom,
            Tls {
                min_version: "VersionTLS11",
                cipher_suites: vec!["TLS_RSA_WITH_AES_128_CBC_SHA"],
                groups: vec!["X25519".into()]
            }
        );
    }

    #[test]
    fn an_empty_profile_is_an_error_and_no_panic() {
        assert_eq!(of(json!({})).unwrap_err(), ["spec.tlsSecurityProfile.type"]);
        assert_eq!(
            of(json!({"type": "Custom"})).unwrap_err(),
            ["spec.tlsSecurityProfile.custom"]
        );
        assert_eq!(
            of(json!({"type": "Paranoid"})).unwrap_err(),
            ["spec.tlsSecurityProfile.type"]
        );
        assert_eq!(
            of(json!({"custom": {"ciphers": ["ROT13"], "groups": ["modp1"]}})).unwrap_err(),
            [
                "spec.tlsSecurityProfile.custom.minTLSVersion",
                "spec.tlsSecurityProfile.custom.ciphers[0]",
                "spec.tlsSecurityProfile.custom.groups[0]"
            ]
        );
    }
}
