//! Requests to servers other than the API server, by the HTTP and TLS that its client is made of.

use std::{error::Error, time::Duration};

use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{Config, client::ConfigExt};
use rustls::pki_types::{CertificateDer, pem::PemObject};

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a request may take, its answer included.
pub const REQUEST: Duration = Duration::from_secs(30);
/// How long a connection may lie idle and be used again.
const IDLE: Duration = Duration::from_secs(30);
/// How long an answer is at most, in bytes.
const LONGEST: usize = 4 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The certificates that a server is verified by cannot be read.
    #[error("holds no certificates in PEM form")]
    Bundle,
    /// No server can be verified: the system has no certificates, and none were given.
    #[error("no server can be verified: {0}")]
    Tls(#[from] kube::Error),
    /// The server's certificate is not accepted.
    #[error("its certificate is not accepted: {0}")]
    Certificate(String),
    /// No connection, or one that broke.
    #[error("{0}")]
    Connection(String),
    /// No answer in time.
    #[error("no answer within {} s", REQUEST.as_secs())]
    Timeout,
}

/// A client. Connections are kept for some seconds.
pub struct Web {
    http: Client<TimeoutConnector<hyper_rustls::HttpsConnector<HttpConnector>>, Full<Bytes>>,
}

impl Web {
    /// Servers are verified by these certificates in PEM form, or by those of the system.
    ///
    /// # Errors
    /// There are no certificates.
    pub fn new(bundle: Option<&[u8]>) -> Result<Self, WebError> {
        // Only what concerns TLS counts of this: the address is that of each request.
        let mut config = Config::new(http::Uri::from_static("https://localhost"));
        config.root_cert = bundle.map(certificates).transpose()?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        let mut connector =
            TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
        connector.set_connect_timeout(Some(CONNECT));
        Ok(Self {
            http: Client::builder(TokioExecutor::new())
                .pool_idle_timeout(IDLE)
                .build(connector),
        })
    }

    /// Sends a request and returns the whole answer, whatever its status. Redirections are not
    /// followed.
    ///
    /// # Errors
    /// There is none.
    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Bytes>, WebError> {
        let answer = async {
            let answer = self
                .http
                .request(request.map(|body| Full::new(body.into())))
                .await
                .map_err(|error| failed(&error))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, LONGEST)
                .collect()
                .await
                .map_err(|error| WebError::Connection(error.to_string()))?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        tokio::time::timeout(REQUEST, answer)
            .await
            .unwrap_or(Err(WebError::Timeout))
    }
}

fn certificates(bundle: &[u8]) -> Result<Vec<Vec<u8>>, WebError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bundle)
        .map(|one| one.map(|der| der.to_vec()))
        .collect();
    all.ok()
        .filter(|all| !all.is_empty())
        .ok_or(WebError::Bundle)
}

/// hyper's own words say no more than "client error (Connect)": the cause is at the end of the
/// chain.
fn failed(error: &hyper_util::client::legacy::Error) -> WebError {
    let last = root_cause(error);
    if last.is::<rustls::Error>() {
        WebError::Certificate(last.to_string())
    } else {
        WebError::Connection(last.to_string())
    }
}

/// The innermost error: the outer ones only say that something below failed.
pub(super) fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut last = error;
    while let Some(cause) = cause(last) {
        last = cause;
    }
    last
}

/// An error of the system that holds another one names the cause of that as its own, and not that
/// itself.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let held = error
        .downcast_ref::<std::io::Error>()
        .and_then(std::io::Error::get_ref);
    held.map(|held| held as &(dyn Error + 'static))
        .or_else(|| error.source())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use rustls::{ServerConfig, pki_types::PrivatePkcs8KeyDer};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A server that answers everything with 418, at `https://localhost:PORT`, and its certificate
    /// in PEM form.
    async fn server() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = builder
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let url = format!(
            "https://localhost:{}/",
            listener.local_addr().unwrap().port()
        );
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(b"HTTP/1.1 418 I'm a teapot\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").await;
            }
        });
        (url, made.cert.pem())
    }

    fn get(url: &str) -> Request<Vec<u8>> {
        Request::get(url).body(Vec::new()).unwrap()
    }

    #[tokio::test]
    async fn a_server_is_verified_by_the_bundle() {
        let (url, certificate) = server().await;
        let (_, another) = server().await;
        let answer = Web::new(Some(certificate.as_bytes()))
            .unwrap()
            .send(get(&url))
            .await
            .unwrap();
        assert_eq!(
            (answer.status().as_u16(), answer.body().as_ref()),
            (418, b"{}".as_slice()),
            "whatever the status, it is the answer"
        );
        let both = Web::new(Some((another.clone() + &certificate).as_bytes())).unwrap();
        assert!(both.send(get(&url)).await.is_ok());
        let wrong = Web::new(Some(another.as_bytes()))
            .unwrap()
            .send(get(&url))
            .await
            .unwrap_err();
        assert!(matches!(wrong, WebError::Certificate(_)), "{wrong}");
    }

    #[tokio::test]
    async fn a_bad_bundle_and_a_silent_server_are_reported() {
        assert!(matches!(
            Web::new(Some(b"no certificate")),
            Err(WebError::Bundle)
        ));
        let (url, certificate) = server().await;
        let web = Web::new(Some(certificate.as_bytes())).unwrap();
        // Port 1 of loopback: nobody listens.
        let refused = web.send(get("http://127.0.0.1:1/")).await.unwrap_err();
        assert!(
            matches!(&refused, WebError::Connection(why) if why.contains("refused")),
            "{refused}"
        );
        let plain = web
            .send(get(&url.replace("https", "http")))
            .await
            .unwrap_err();
        assert!(matches!(plain, WebError::Connection(_)), "{plain}");
    }
}
