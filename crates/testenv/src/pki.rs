//! The control plane's certificate authority, keys and tokens. Fresh for each control plane,
//! worthless afterwards.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Signs the serving certificates of the API server and of the proxies in front of it.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its private key, both PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "weft-testenv");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        Ok(Self {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)?,
        })
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// For a server on loopback and at these further addresses, under the names by which clients of
    /// a cluster call it.
    pub(crate) fn serving(&self, addresses: &[String]) -> Result<Signed> {
        let names = [
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "10.96.0.1",
        ];
        let mut params = CertificateParams::new(
            names
                .map(String::from)
                .iter()
                .chain(addresses)
                .cloned()
                .collect::<Vec<_>>(),
        )?;
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// For a client: Kubernetes takes the common name for the user, and the organization for its
    /// group.
    pub(crate) fn client(&self, user: &str, group: &str) -> Result<Signed> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Signed> {
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        Ok(Signed {
            certificate: params.signed_by(&key, &self.issuer)?.pem(),
            key: key.serialize_pem(),
        })
    }
}

impl Signed {
    /// For rustls, as a server that speaks HTTP/1.1 alone.
    pub(crate) fn server_config(&self) -> Result<rustls::ServerConfig> {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// For rustls, as a client that trusts this authority alone.
pub(crate) fn client_config(ca_pem: &str) -> Result<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes())?)?;
    Ok(rustls::ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// Named explicitly: with no process-wide default, rustls panics as soon as two providers are
/// linked.
fn provider() -> std::sync::Arc<rustls::crypto::CryptoProvider> {
    std::sync::Arc::new(rustls::crypto::ring::default_provider())
}

/// Key pair that signs and verifies ServiceAccount tokens: ECDSA P-256, private (PKCS#8) and
/// public, both PEM. (kube-apiserver takes RSA or ECDSA; generating RSA takes seconds in a debug
/// build.)
pub(crate) fn service_account_keys() -> Result<(String, String)> {
    let pair = KeyPair::generate()?;
    Ok((pair.serialize_pem(), pair.public_key_pem()))
}

/// A bearer token for the static token file.
pub(crate) fn token() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// A kubeconfig with one cluster, one user and one context.
pub(crate) fn kubeconfig(server: &str, ca_pem: &str, user: &str, token: &str) -> String {
    let ca = STANDARD.encode(ca_pem);
    format!(
        "apiVersion: v1
kind: Config
current-context: weft-testenv
clusters:
- name: weft-testenv
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {user:?}
  user:
    token: {token}
contexts:
- name: weft-testenv
  context:
    cluster: weft-testenv
    user: {user:?}
"
    )
}
