//! TLS of the operator's own server: its certificate, and the profile that a resource asks for.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use rustls::{
    ALL_VERSIONS, CipherSuite, NamedGroup, ServerConfig, SupportedProtocolVersion,
    crypto::{CryptoProvider, SupportedKxGroup, ring},
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
    server::NoServerSessionStorage,
    version::TLS13,
};
use weft_certificates::SelfSigned;
use weft_plan::ServerTls;

/// How long a certificate is valid. It is kept in memory only: each process has its own.
const VALIDITY: SignedDuration = SignedDuration::from_hours(90 * 24);

/// Why a connection cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// The certificate cannot be made.
    #[error(transparent)]
    Certificate(#[from] weft_certificates::Error),
    /// The profile leaves no usable cipher or version.
    #[error("no TLS is possible with these settings: {0}")]
    Settings(#[from] rustls::Error),
}

/// The certificate of a server, made when it is first needed and anew before it ends.
#[derive(Default)]
pub struct Identity {
    current: Mutex<Option<Arc<SelfSigned>>>,
}

impl Identity {
    /// The certificate as of now.
    fn at(&self, now: Timestamp) -> Result<Arc<SelfSigned>, weft_certificates::Error> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = current.as_ref().filter(|current| now < current.renew_at) {
            return Ok(Arc::clone(current));
        }
        let new = Arc::new(SelfSigned::new("localhost", now, VALIDITY)?);
        *current = Some(Arc::clone(&new));
        Ok(new)
    }

    /// Returns the settings of one handshake. They are made for each, so that a profile counts from
    /// the next connection on. Nothing of an earlier one (a ticket, a session) lets a client in.
    ///
    /// # Errors
    /// No certificate can be made, or the settings leave nothing.
    pub fn config(&self, tls: &ServerTls, now: Timestamp) -> Result<ServerConfig, TlsError> {
        let identity = self.at(now)?;
        let builder = ServerConfig::builder_with_provider(Arc::new(provider(tls)))
            .with_protocol_versions(versions(tls))?;
        let (certificate, key) = (
            CertificateDer::from(identity.certificate.clone()),
            PrivatePkcs8KeyDer::from(identity.key.clone()),
        );
        let mut config = builder
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key.into())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

/// The versions of a profile, as far as rustls has them: older ones than TLS 1.2 it does not speak.
fn versions(tls: &ServerTls) -> &'static [&'static SupportedProtocolVersion] {
    static MODERN: &[&SupportedProtocolVersion] = &[&TLS13];
    if tls.min_version == "VersionTLS13" {
        MODERN
    } else {
        ALL_VERSIONS
    }
}

/// Suites and groups of a profile. As in Go, the suites of TLS 1.3 cannot be chosen. Of others and
/// of groups, what the library lacks is left out, and where nothing is left, all that it has is
/// offered.
fn provider(tls: &ServerTls) -> CryptoProvider {
    let mut provider = ring::default_provider();
    let is_chosen = |suite: CipherSuite| {
        suite
            .as_str()
            .is_some_and(|name| tls.cipher_suites.iter().any(|chosen| chosen == name))
    };
    if !tls.cipher_suites.is_empty() {
        provider
            .cipher_suites
            .retain(|suite| suite.tls13().is_some() || is_chosen(suite.suite()));
    }
    let groups: Vec<_> = tls
        .groups
        .iter()
        .filter_map(|name| group(name, &provider.kx_groups))
        .collect();
    if !groups.is_empty() {
        provider.kx_groups = groups;
    }
    provider
}

fn group(
    name: &str,
    groups: &[&'static dyn SupportedKxGroup],
) -> Option<&'static dyn SupportedKxGroup> {
    let wanted = match name {
        "X25519" => NamedGroup::X25519,
        "secp256r1" => NamedGroup::secp256r1,
        "secp384r1" => NamedGroup::secp384r1,
        "secp521r1" => NamedGroup::secp521r1,
        "X25519MLKEM768" => NamedGroup::X25519MLKEM768,
        _ => return None,
    };
    groups.iter().find(|group| group.name() == wanted).copied()
}

/// Returns a sentence for each setting that is not possible.
pub(crate) fn shortcomings(tls: &ServerTls) -> Vec<String> {
    let groups = ring::default_provider().kx_groups;
    let missing: Vec<_> = tls
        .groups
        .iter()
        .filter(|name| group(name, &groups).is_none())
        .map(String::as_str)
        .collect();
    let mut all = Vec::new();
    if matches!(tls.min_version.as_str(), "VersionTLS10" | "VersionTLS11") {
        all.push("versions older than TLS 1.2 are not spoken".to_owned());
    }
    if !missing.is_empty() {
        all.push(format!(
            "key exchange groups that are not supported are left out: {}",
            missing.join(", ")
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tls(min_version: &str, cipher_suites: &[&str], groups: &[&str]) -> ServerTls {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
        ServerTls {
            min_version: min_version.to_owned(),
            cipher_suites: texts(cipher_suites),
            groups: texts(groups),
        }
    }

    #[test]
    fn a_profile_chooses_versions_suites_and_groups() {
        assert_eq!(versions(&ServerTls::default()).len(), 1);
        assert_eq!(versions(&tls("VersionTLS10", &[], &[])).len(), 2);
        let chosen = provider(&tls(
            "VersionTLS12",
            &[
                "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
                "TLS_RSA_WITH_AES_128_CBC_SHA",
            ],
            &["secp384r1", "X25519"],
        ));
        let suites: Vec<_> = chosen
            .cipher_suites
            .iter()
            .filter(|suite| suite.tls13().is_none())
            .map(|suite| suite.suite())
            .collect();
        assert_eq!(
            suites,
            [CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]
        );
        let groups: Vec<_> = chosen.kx_groups.iter().map(|group| group.name()).collect();
        assert_eq!(
            groups,
            [NamedGroup::secp384r1, NamedGroup::X25519],
            "in the order of the profile"
        );
        assert_eq!(
            provider(&tls("VersionTLS12", &[], &["SecP384r1MLKEM1024"]))
                .kx_groups
                .len(),
            ring::default_provider().kx_groups.len()
        );
    }

    #[test]
    fn unsupported_tls_settings_are_reported() {
        assert_eq!(shortcomings(&ServerTls::default()), Vec::<String>::new());
        let said = shortcomings(&tls("VersionTLS10", &[], &["X25519MLKEM768", "X25519"]));
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[1].ends_with("left out: X25519MLKEM768"), "{said:?}");
    }

    #[test]
    fn the_certificate_is_made_anew_before_it_ends() {
        let identity = Identity::default();
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let at = |days: i64| {
            identity
                .at(start + SignedDuration::from_hours(24 * days))
                .unwrap()
        };
        let first = at(0);
        assert_eq!(at(59).certificate, first.certificate);
        assert_ne!(at(61).certificate, first.certificate);
        identity
            .config(
                &ServerTls::default(),
                start + SignedDuration::from_hours(24 * 61),
            )
            .unwrap();
    }
}
