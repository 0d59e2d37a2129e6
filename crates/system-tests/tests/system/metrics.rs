//! Metrics over HTTPS: who may read them, by real tokens, and how TLS is spoken, by real
//! handshakes.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use rustls::{
    ALL_VERSIONS, ClientConfig, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, SupportedKxGroup, ring},
    pki_types::{CertificateDer, ServerName, UnixTime},
    version::{TLS12, TLS13},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
};
use tokio_rustls::TlsConnector;

use weft_system_tests::*;

const MODERN: &[&SupportedProtocolVersion] = &[&TLS13];
const OLDER: &[&SupportedProtocolVersion] = &[&TLS12];

/// Accounts with and without the right to read metrics.
pub const ACCOUNTS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: default}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: stranger, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
";

#[tokio::test]
async fn metrics_are_for_authorised_readers_by_the_current_tls_profile() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start(
        &cluster,
        OperatorOptions {
            metrics: "127.0.0.1:0",
            ..Default::default()
        },
    )
    .await;
    let server = Server::at(operator.metrics_address().await);
    assert_eq!(operator.http("/metrics").await.0, 404, "not for everybody");
    cluster.apply(ACCOUNTS).await;
    let token = async |name: &str| {
        cluster
            .kubectl(&["create", "token", name])
            .await
            .trim()
            .to_owned()
    };
    let (reader, stranger) = (token("reader").await, token("stranger").await);

    let unknown = server.get("/metrics", None).await.unwrap();
    assert!(
        unknown.starts_with("HTTP/1.1 401 ")
            && unknown.to_lowercase().contains("www-authenticate: bearer"),
        "{unknown}"
    );
    assert!(
        server
            .get("/metrics", Some("made-up"))
            .await
            .unwrap()
            .starts_with("HTTP/1.1 401 ")
    );
    let denied = server.get("/metrics", Some(&stranger)).await.unwrap();
    assert!(
        denied.starts_with("HTTP/1.1 403 ")
            && denied.contains("system:serviceaccount:default:stranger"),
        "{denied}"
    );
    let mut read = String::new();
    // The role may be a moment late.
    wait_until("the reader reads", async || {
        read = server.get("/metrics", Some(&reader)).await?;
        if read.starts_with("HTTP/1.1 200 ") {
            Ok(())
        } else {
            Err(read.clone())
        }
    })
    .await;
    assert!(read.contains("\nweft_leading{"), "{read}");
    assert!(
        server
            .get("/elsewhere", Some(&reader))
            .await
            .unwrap()
            .starts_with("HTTP/1.1 404 ")
    );

    // The API server is not asked again for each.
    let reviews = || {
        cluster
            .audit()
            .iter()
            .filter(|event| event.resource == "tokenreviews")
            .count()
    };
    let before = reviews();
    assert!(before >= 3, "{before}");
    assert!(
        server
            .get("/metrics", Some(&reader))
            .await
            .unwrap()
            .starts_with("HTTP/1.1 200 ")
    );
    assert_eq!(reviews(), before);

    // Without a profile TLS 1.3 only, and whatever the profile says from then on.
    let groups = |name: &str| {
        ring::default_provider()
            .kx_groups
            .into_iter()
            .filter(|group| format!("{:?}", group.name()) == name)
            .collect()
    };
    let all = || ring::default_provider().kx_groups;
    server.shake(MODERN, all()).await.unwrap();
    server.shake(OLDER, all()).await.unwrap_err();
    cluster.apply("{apiVersion: networkaddonsoperator.network.kubevirt.io/v1, kind: NetworkAddonsConfig, metadata: {name: cluster}, spec: {multus: {}, tlsSecurityProfile: {type: Modern}}}").await;
    cluster.wait_available().await;
    server.shake(OLDER, all()).await.unwrap_err();
    profile(&cluster, json!({"type": "Intermediate", "custom": null})).await;
    until(&server, OLDER, all(), true).await;
    server.shake(MODERN, all()).await.unwrap();
    let custom = json!({
        "minTLSVersion": "VersionTLS12", "ciphers": ["ECDHE-ECDSA-AES128-GCM-SHA256"],
        "groups": ["secp521r1", "secp384r1"]
    });
    profile(&cluster, json!({"type": "Custom", "custom": custom})).await;
    until(&server, MODERN, groups("X25519"), false).await;
    server
        .shake(ALL_VERSIONS, groups("secp384r1"))
        .await
        .unwrap();
    operator
        .wait_logged("key exchange groups that are not supported are left out: secp521r1")
        .await;
    profile(&cluster, json!({"type": "Old", "custom": null})).await;
    operator
        .wait_logged("versions older than TLS 1.2 are not spoken")
        .await;
    until(&server, OLDER, groups("X25519"), true).await;
    profile(&cluster, json!({"type": "Modern"})).await;
    until(&server, OLDER, all(), false).await;
    assert!(
        server
            .get("/metrics", Some(&reader))
            .await
            .unwrap()
            .starts_with("HTTP/1.1 200 ")
    );
    assert_eq!(
        operator.log().matches("serving /metrics").count(),
        1,
        "by the same process"
    );
}

async fn profile(cluster: &Cluster, profile: Value) {
    cluster
        .patch_resource(json!({"spec": {"tlsSecurityProfile": profile}}))
        .await;
}

/// Waits until such a client can shake hands, or cannot.
async fn until(
    server: &Server,
    versions: &[&'static SupportedProtocolVersion],
    groups: Vec<&'static dyn SupportedKxGroup>,
    works: bool,
) {
    wait_until(
        &format!("a handshake of {versions:?} works: {works}"),
        async || {
            let outcome = server.shake(versions, groups.clone()).await;
            if outcome.is_ok() == works {
                Ok(())
            } else {
                Err(format!("{outcome:?}"))
            }
        },
    )
    .await;
}

/// The operator's port for metrics, and from where it is asked.
pub struct Server {
    pub address: SocketAddr,
    client: Ipv4Addr,
}

impl Server {
    pub fn at(address: SocketAddr) -> Self {
        Self {
            address,
            client: Ipv4Addr::LOCALHOST,
        }
    }

    /// The same, asked from another address.
    pub fn from(&self, client: Ipv4Addr) -> Self {
        Self { client, ..*self }
    }

    /// A handshake with just these versions and groups.
    async fn shake(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        groups: Vec<&'static dyn SupportedKxGroup>,
    ) -> Result<(), String> {
        let provider = CryptoProvider {
            kx_groups: groups,
            ..ring::default_provider()
        };
        let talk = self.talk(provider, versions, "");
        answer_within(PATIENCE, "a handshake", talk).await.map(drop)
    }

    /// Requests a path, and returns the whole answer.
    pub async fn get(&self, path: &str, token: Option<&str>) -> Result<String, String> {
        let authorization = token
            .map(|token| format!("Authorization: Bearer {token}\r\n"))
            .unwrap_or_default();
        let request = format!("GET {path} HTTP/1.1\r\nHost: weft\r\n{authorization}\r\n");
        let talk = self.talk(ring::default_provider(), MODERN, &request);
        answer_within(PATIENCE, path, talk).await
    }

    async fn talk(
        &self,
        provider: CryptoProvider,
        versions: &[&'static SupportedProtocolVersion],
        words: &str,
    ) -> Result<String, String> {
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .unwrap();
        let client = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody))
            .with_no_client_auth();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((self.client, 0).into()).unwrap();
        let stream = socket
            .connect(self.address)
            .await
            .map_err(|error| error.to_string())?;
        let name = ServerName::try_from("weft").unwrap();
        let mut stream = TlsConnector::from(Arc::new(client))
            .connect(name, stream)
            .await
            .map_err(|error| error.to_string())?;
        let mut answer = String::new();
        if !words.is_empty() {
            stream
                .write_all(words.as_bytes())
                .await
                .map_err(|error| error.to_string())?;
            stream
                .read_to_string(&mut answer)
                .await
                .map_err(|error| error.to_string())?;
        }
        Ok(answer)
    }
}

/// As a scraper has it whose configuration says `insecure_skip_verify`: the certificate vouches for
/// itself.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &ring::default_provider().signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &ring::default_provider().signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
