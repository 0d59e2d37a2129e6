//! The serving certificate of a webhook: a real TLS client that trusts what the webhook's
//! configuration says connects to a real TLS server that has what is in the Secret, whatever
//! somebody does to either.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::Command,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use weft_plan::kinds;

use crate::system::{deletion::gone, harness::*};

pub const SECRET: &str = "webhook-server-cert";
pub const AUTHORITY: &str = "kubevirt-ipam-controller-ca";
pub const WEBHOOK: &str = "kubevirt-ipam-controller-mutating-webhook-configuration";
/// The name by which the API server calls the webhook.
pub const SERVER: &str = "kubevirt-ipam-controller-webhook-service.cluster-network-addons.svc";

const RESOURCE: &str = "
apiVersion: networkaddonsoperator.network.kubevirt.io/v1
kind: NetworkAddonsConfig
metadata: {name: cluster}
spec: {kubevirtIpamController: {}}
";

#[tokio::test]
async fn a_client_that_trusts_the_webhook_reaches_its_server() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;
    cluster.apply(RESOURCE).await;
    cluster.wait_available().await;
    let first = Found::in_(&cluster).await;
    first.connect(SERVER).await.unwrap();
    let error = first
        .connect("somebody-else.cluster-network-addons.svc")
        .await
        .unwrap_err();
    assert!(error.contains("certificate not valid for name"), "{error}");

    // Deleted.
    cluster.delete(kinds::SECRET, NAMESPACE, SECRET).await;
    let second = reachable(&cluster, "the certificate was deleted", |found| {
        found.certificate != first.certificate
    })
    .await;
    assert_eq!(second.bundle, first.bundle, "it is the same authority's");

    // Of no use.
    for (what, harm) in [
        (
            "garbage",
            json!({"data": {"tls.crt": STANDARD.encode("garbage")}}),
        ),
        (
            "somebody's key",
            json!({"data": {"tls.key": STANDARD.encode(&first.key)}}),
        ),
        (
            "another key in it",
            json!({"data": {"extra": STANDARD.encode("x")}}),
        ),
    ] {
        let version = cluster.patch(kinds::SECRET, NAMESPACE, SECRET, harm).await["metadata"]["resourceVersion"].clone();
        reachable(&cluster, what, |found| {
            found.secret["metadata"]["resourceVersion"] != version
                && found.secret["data"]["extra"].is_null()
        })
        .await;
    }

    // The bundle is edited, and is ours.
    let before = Found::in_(&cluster).await;
    let mut hooks = cluster
        .get(kinds::MUTATING_WEBHOOK_CONFIGURATION, "", WEBHOOK)
        .await
        .unwrap()["webhooks"]
        .clone();
    hooks[0]["clientConfig"]["caBundle"] = STANDARD.encode(strangers_authority()).into();
    cluster
        .patch(
            kinds::MUTATING_WEBHOOK_CONFIGURATION,
            "",
            WEBHOOK,
            json!({"webhooks": hooks}),
        )
        .await;
    let after = reachable(&cluster, "the bundle was edited", |found| {
        found.bundle == before.bundle
    })
    .await;
    assert_eq!(after.certificate, before.certificate);

    // The authority is lost: the server goes on with what it has, and is trusted.
    cluster.delete(kinds::SECRET, NAMESPACE, AUTHORITY).await;
    let both = reachable(&cluster, "the authority was deleted", |found| {
        found.bundle != before.bundle
    })
    .await;
    assert_eq!(both.certificate, before.certificate);
    assert!(
        both.bundle.ends_with(&before.bundle),
        "the old one is trusted beside the new one"
    );

    // Nobody's business.
    let keys = [&first, &second, &both].map(|found| STANDARD.encode(&found.key));
    let inventory = cluster
        .get(
            kinds::CONFIG_MAP,
            NAMESPACE,
            "weft-inventory-networkaddonsconfig-cluster",
        )
        .await
        .unwrap();
    assert!(
        inventory["data"]["objects"]
            .as_str()
            .unwrap()
            .contains(SECRET)
    );
    cluster.wait_available().await;
    let plan = weft(&cluster, &["plan", "-f", "-"]).await;
    assert!(plan.contains("nothing would change"), "{plan}");
    operator.terminate().await;
    cluster
        .patch(
            kinds::SECRET,
            NAMESPACE,
            SECRET,
            json!({"data": {"tls.crt": ""}}),
        )
        .await;
    let plan = weft(&cluster, &["plan", "-f", "-"]).await;
    assert!(plan.contains("data[tls.key]: \"***\" -> \"***\""), "{plan}");
    let operator = Operator::start_default(&cluster).await;
    reachable(&cluster, "the operator is back", |found| {
        found.certificate != both.certificate
    })
    .await;
    assert!(
        operator.log().contains("data[tls.key]") && operator.log().contains("***"),
        "{}",
        operator.log()
    );
    for text in [
        inventory.to_string(),
        plan,
        operator.log(),
        weft(&cluster, &["render", "-f", "-"]).await,
    ] {
        assert!(keys.iter().all(|key| !text.contains(&key[60..])), "{text}");
        assert!(
            !text.contains("PRIVATE KEY")
                && !text.contains(&STANDARD.encode("-----BEGIN PRIVATE KEY-")[..28]),
            "{text}"
        );
    }

    // A restart writes nothing.
    let version = Found::in_(&cluster).await.secret["metadata"]["resourceVersion"].clone();
    operator.terminate().await;
    let _operator = Operator::start_default(&cluster).await;
    cluster
        .patch_resource(json!({"spec": {"imagePullPolicy": "Never"}}))
        .await;
    cluster.wait_available().await;
    assert_eq!(
        Found::in_(&cluster).await.secret["metadata"]["resourceVersion"],
        version
    );

    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--wait=false"])
        .await;
    gone(&cluster).await;
    for secret in [SECRET, AUTHORITY] {
        assert_eq!(cluster.get(kinds::SECRET, NAMESPACE, secret).await, None);
    }
}

#[tokio::test]
async fn somebody_elses_secret_is_left_alone_until_it_may_be_taken() {
    let cluster = Cluster::start_default().await;
    let _operator = Operator::start_default(&cluster).await;
    let theirs = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": AUTHORITY, "namespace": NAMESPACE}, "stringData": {"password": "x"}
    });
    cluster.apply(&theirs.to_string()).await;
    cluster.apply(RESOURCE).await;
    let status = cluster
        .wait_condition("Degraded", "True", "", AUTHORITY)
        .await;
    let message = condition(&status, "Degraded")["message"].clone();
    assert!(
        message
            .as_str()
            .unwrap()
            .contains("weft.network/adopt=true"),
        "{message}"
    );
    let plan = weft(&cluster, &["plan", "-f", "-"]).await;
    assert!(
        plan.contains("1 in conflict") && plan.contains("held back") && !plan.contains("to create"),
        "{plan}"
    );
    // Neither an empty Secret nor a webhook that trusts nobody.
    assert_eq!(cluster.get(kinds::SECRET, NAMESPACE, SECRET).await, None);
    assert_eq!(
        cluster
            .get(kinds::MUTATING_WEBHOOK_CONFIGURATION, "", WEBHOOK)
            .await,
        None
    );
    // It is of another type, so it is recreated.
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "annotate",
            "secret",
            AUTHORITY,
            "weft.network/adopt=true",
        ])
        .await;
    cluster.wait_available().await;
    Found::in_(&cluster).await.connect(SERVER).await.unwrap();
}

/// The certificates that server and client use.
pub struct Found {
    pub secret: Value,
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    pub bundle: Vec<u8>,
}

impl Found {
    pub async fn in_(cluster: &Cluster) -> Self {
        Self::try_in(cluster).await.unwrap()
    }

    async fn try_in(cluster: &Cluster) -> Option<Self> {
        let secret = cluster.get(kinds::SECRET, NAMESPACE, SECRET).await?;
        let webhook = cluster
            .get(kinds::MUTATING_WEBHOOK_CONFIGURATION, "", WEBHOOK)
            .await?;
        let decoded = |value: &Value| STANDARD.decode(value.as_str().unwrap_or_default()).unwrap();
        let field = |name: &str| decoded(&secret["data"][name]);
        let bundle = decoded(&webhook["webhooks"][0]["clientConfig"]["caBundle"]);
        Some(Self {
            certificate: field("tls.crt"),
            key: field("tls.key"),
            bundle,
            secret,
        })
    }

    /// A handshake and a word each way.
    pub async fn connect(&self, name: &str) -> Result<(), String> {
        let provider = Arc::new(ring::default_provider());
        let text = |error: &dyn std::error::Error| error.to_string();
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| text(&error))?;
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let server = server
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| text(&error))?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(&self.bundle)? {
            roots.add(authority).map_err(|error| text(&error))?;
        }
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (stream, _) = listener.accept().await.map_err(|error| text(&error))?;
            let mut stream = TlsAcceptor::from(Arc::new(server))
                .accept(stream)
                .await
                .map_err(|error| text(&error))?;
            stream
                .write_all(b"hello")
                .await
                .map_err(|error| text(&error))?;
            stream.shutdown().await.map_err(|error| text(&error))
        };
        let call = async {
            let stream = TcpStream::connect(address)
                .await
                .map_err(|error| text(&error))?;
            let name = ServerName::try_from(name.to_owned()).unwrap();
            let mut stream = TlsConnector::from(Arc::new(client))
                .connect(name, stream)
                .await
                .map_err(|error| text(&error))?;
            let mut word = String::new();
            stream
                .read_to_string(&mut word)
                .await
                .map_err(|error| text(&error))?;
            if word == "hello" { Ok(()) } else { Err(word) }
        };
        let (_, called) = tokio::join!(serve, call);
        called
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{error:?}"))?;
    if certificates.is_empty() {
        Err("there is no certificate".to_owned())
    } else {
        Ok(certificates)
    }
}

/// Waits until a client reaches the server, and what it finds is as wanted.
pub async fn reachable(cluster: &Cluster, when: &str, wanted: impl Fn(&Found) -> bool) -> Found {
    wait_until(&format!("the server is reached: {when}"), async || {
        let found = Found::try_in(cluster).await.ok_or("something is gone")?;
        found.connect(SERVER).await?;
        if wanted(&found) {
            Ok(found)
        } else {
            Err("it is not put right".to_owned())
        }
    })
    .await
}

/// The authority of some other server.
fn strangers_authority() -> String {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params
        .self_signed(&rcgen::KeyPair::generate().unwrap())
        .unwrap()
        .pem()
}

/// Returns the output of `weft` about the resource of this test.
async fn weft(cluster: &Cluster, arguments: &[&str]) -> String {
    weft_about(cluster, RESOURCE, arguments).await
}

/// Returns the output of `weft` with this text on stdin.
pub async fn weft_about(cluster: &Cluster, input: &str, arguments: &[&str]) -> String {
    let mut child = Command::new(weft_binary())
        .args(arguments)
        .env("KUBECONFIG", cluster.control_plane.kubeconfig())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .await
        .unwrap();
    let output = answer_within(COMMAND_LIMIT, "a command", child.wait_with_output())
        .await
        .unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}
