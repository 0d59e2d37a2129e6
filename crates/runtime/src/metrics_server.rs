//! `/metrics` over HTTPS, for clients that the API server knows and lets read it.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::body::Body;
use http::{Method, Request, Response, StatusCode, header};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use weft_plan::{ProcessSettings, ServerTls};

use crate::{
    access::{Access, Verdict},
    cluster::Cluster,
    metrics::Metrics,
    tls::{self, Identity},
};

/// The type of what is served.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The one path.
const PATH: &str = "/metrics";
/// Connections at once. More wait.
const CONNECTIONS: usize = 16;
/// How long a handshake, or the head of a request, may take: a client that hangs takes a place no longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may last. It serves one request, whose answer may wait for the API server.
const LIFETIME: Duration = Duration::from_secs(60);

/// A server of metrics.
pub struct MetricsServer {
    access: Access,
    metrics: Metrics,
    identity: Identity,
    settings: watch::Receiver<ProcessSettings>,
}

impl MetricsServer {
    /// Serves these numbers. `settings` are looked at before each handshake.
    pub fn new(cluster: Cluster, metrics: Metrics, settings: watch::Receiver<ProcessSettings>) -> Self {
        Self { access: Access::new(cluster, PATH), metrics, identity: Identity::default(), settings }
    }

    /// Serves until `stop`.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let (server, places) = (Arc::new(self), Arc::new(Semaphore::new(CONNECTIONS)));
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let server = Arc::clone(&server);
                    tokio::spawn(async move {
                        if tokio::time::timeout(LIFETIME, server.connection(stream)).await.is_err() {
                            tracing::debug!("a connection for metrics took too long");
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    // Out of file descriptors, for example.
                    tracing::warn!(%error, "no connection for metrics could be accepted");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    async fn connection(&self, stream: TcpStream) {
        let tls = self.settings.borrow().tls.clone().unwrap_or_default();
        let config = match self.identity.config(&tls, Timestamp::now()) {
            Ok(config) => config,
            Err(error) => return tracing::warn!(%error, "metrics cannot be served"),
        };
        let stream = match tokio::time::timeout(PATIENCE, TlsAcceptor::from(Arc::new(config)).accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake for metrics failed"),
            Err(_) => return tracing::debug!("a TLS handshake for metrics took too long"),
        };
        let service = service_fn(async |request| Ok::<_, Infallible>(self.answer(&request).await));
        // One request a connection: the next one shakes hands anew, by the settings as they are then.
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false).max_buf_size(16 * 1024);
        if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
            tracing::debug!(%error, "a connection for metrics failed");
        }
    }

    async fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        if request.uri().path() != PATH {
            return text(StatusCode::NOT_FOUND, "there is /metrics\n");
        }
        if request.method() != Method::GET {
            return text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
        }
        let token = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
        let verdict = match token {
            Some(token) => self.access.check(token).await,
            None => Ok(Verdict::Unauthenticated),
        };
        match verdict {
            Ok(Verdict::Allowed) => with(Response::builder().header(header::CONTENT_TYPE, OPEN_METRICS), self.metrics.text()),
            Ok(Verdict::Unauthenticated) => {
                let builder = Response::builder().status(StatusCode::UNAUTHORIZED).header(header::WWW_AUTHENTICATE, "Bearer");
                with(builder, "a bearer token of this cluster is needed\n".to_owned())
            }
            Ok(Verdict::Denied(user)) => text(
                StatusCode::FORBIDDEN,
                &format!("{user:?} may not get the non-resource URL {PATH}: no ClusterRole that is bound to it permits that\n"),
            ),
            Err(error) => {
                tracing::warn!(%error, "who asks for metrics could not be found out");
                text(StatusCode::SERVICE_UNAVAILABLE, "the API server could not be asked who you are\n")
            }
        }
    }
}

/// Says once what of the settings of TLS cannot be had, whenever they change.
pub async fn tell_shortcomings(mut settings: watch::Receiver<ProcessSettings>) {
    let mut told = ServerTls::default();
    loop {
        let tls = settings.borrow_and_update().tls.clone().unwrap_or_default();
        if tls != told {
            for shortcoming in tls::shortcomings(&tls) {
                tracing::info!(tls.min_version, "tlsSecurityProfile, for the metrics of this operator: {shortcoming}");
            }
            told = tls;
        }
        if settings.changed().await.is_err() {
            return;
        }
    }
}

/// The token of an `Authorization` header (RFC 6750). The scheme's case does not matter.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

fn text(status: StatusCode, text: &str) -> Response<Body> {
    with(Response::builder().status(status).header(header::CONTENT_TYPE, "text/plain; charset=utf-8"), text.to_owned())
}

fn with(builder: http::response::Builder, body: String) -> Response<Body> {
    // All parts are ours, and valid.
    builder.body(Body::from(body)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_read_and_nothing_else() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        for wrong in ["Basic abc", "Bearer", "Bearer ", "abc"] {
            assert_eq!(bearer(wrong), None, "{wrong:?}");
        }
    }
}
