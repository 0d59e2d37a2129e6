//! Settings that resources request for the operator's own process.

use std::collections::BTreeMap;

use crate::LogLevel;

/// Settings that a resource requests for the process that serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSettings {
    /// From which level on it logs. `None`: what it was started with.
    pub log_level: Option<LogLevel>,
    /// How the servers of the process speak TLS. `None`: as [`ServerTls::default`].
    pub tls: Option<ServerTls>,
}

/// How a server speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// The lowest version, by OpenShift's name, for example `VersionTLS12`.
    pub min_version: String,
    /// Cipher suites up to TLS 1.2 by their IANA names, for example
    /// `TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256`.
    pub cipher_suites: Vec<String>,
    /// Key exchange groups, by OpenShift's names, best first, for example `secp256r1`. None: what
    /// the library prefers.
    pub groups: Vec<String>,
}

impl Default for ServerTls {
    /// TLS 1.3 only.
    fn default() -> Self {
        Self {
            min_version: "VersionTLS13".to_owned(),
            cipher_suites: Vec::new(),
            groups: Vec::new(),
        }
    }
}

impl ProcessSettings {
    /// Merges the settings of several domains in one process: the most verbose log level, and the
    /// TLS settings of the first domain that has any.
    pub fn together(settings: &BTreeMap<&'static str, ProcessSettings>) -> Self {
        Self {
            log_level: settings.values().filter_map(|one| one.log_level).min(),
            tls: settings.values().find_map(|one| one.tls.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_talkative_level_counts() {
        let with = |log_level| ProcessSettings {
            log_level,
            ..Default::default()
        };
        let all = [
            ("a", with(None)),
            ("b", with(Some(LogLevel::Error))),
            ("c", with(Some(LogLevel::Debug))),
        ];
        assert_eq!(
            ProcessSettings::together(&all.into()).log_level,
            Some(LogLevel::Debug)
        );
        assert_eq!(
            ProcessSettings::together(&[("a", with(None))].into()),
            ProcessSettings::default()
        );
    }
}
