//! `/metrics` over HTTPS, for clients that the API server knows and lets read it.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use jiff::Timestamp;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;
use weft_plan::{ProcessSettings, ServerTls};

use crate::{
    api_server::cluster::Cluster,
    metrics::Metrics,
    serve::{
        access::{Access, Unanswered},
        access_limit::Verdict,
        connections::{self, Endpoint, Limits, text, with},
        exposition,
        tls::{self, Identity},
    },
};

/// The path of the metrics.
const PATH: &str = "/metrics";
/// The answer may wait for two answers of the API server. A token may be several kilobytes.
const LIMITS: Limits = Limits {
    connections: 32,
    head: Duration::from_secs(10),
    lifetime: Duration::from_secs(60),
    head_size: 16 * 1024,
};

/// A server of metrics.
pub struct MetricsServer {
    access: Access,
    metrics: Metrics,
    identity: Identity,
    settings: watch::Receiver<ProcessSettings>,
}

impl MetricsServer {
    /// Serves these numbers. `settings` are looked at before each handshake.
    pub fn new(
        cluster: Cluster,
        metrics: Metrics,
        settings: watch::Receiver<ProcessSettings>,
    ) -> Self {
        Self {
            access: Access::new(cluster, PATH),
            metrics,
            identity: Identity::default(),
            settings,
        }
    }

    /// Serves the metrics until `stop`.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        connections::serve(listener, "metrics", self, LIMITS, stop).await;
    }
}

impl Endpoint for MetricsServer {
    type Stream = TlsStream<TcpStream>;

    async fn open(&self, stream: TcpStream) -> io::Result<Self::Stream> {
        let tls = self.settings.borrow().tls.clone().unwrap_or_default();
        let config = self
            .identity
            .config(&tls, Timestamp::now())
            .map_err(|error| {
                tracing::warn!(%error, "metrics cannot be served");
                io::Error::other(error)
            })?;
        TlsAcceptor::from(Arc::new(config)).accept(stream).await
    }

    async fn answer(&self, request: Request<Incoming>, from: IpAddr) -> Response<Full<Bytes>> {
        if request.uri().path() != PATH {
            return text(StatusCode::NOT_FOUND, "there is /metrics\n");
        }
        if request.method() != Method::GET {
            return text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
        }
        let token = request
            .headers()
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(bearer);
        let verdict = match token {
            Some(token) => self.access.check(token, from).await,
            None => Ok(Verdict::Unauthenticated),
        };
        match verdict {
            Ok(Verdict::Allowed) => exposition::response(&self.metrics, request.headers()),
            Ok(Verdict::Unauthenticated) => {
                let builder = Response::builder()
                    .status(StatusCode::UNAUTHORIZED)
                    .header(header::WWW_AUTHENTICATE, "Bearer");
                with(
                    builder,
                    "a bearer token of this cluster is needed\n".to_owned(),
                )
            }
            Ok(Verdict::Denied(user)) => text(
                StatusCode::FORBIDDEN,
                format!(
                    "{user:?} may not get the non-resource URL {PATH}: no ClusterRole that is bound to it permits that\n"
                ),
            ),
            Err(Unanswered::TooMany(pause)) => {
                let builder = Response::builder()
                    .status(StatusCode::TOO_MANY_REQUESTS)
                    .header(header::RETRY_AFTER, pause.as_secs() + 1);
                with(
                    builder,
                    "too many tokens that are not known yet: try again later\n".to_owned(),
                )
            }
            Err(Unanswered::Failed(error)) => {
                tracing::warn!(%error, "who asks for metrics could not be found out");
                text(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the API server could not be asked who you are\n",
                )
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
                tracing::info!(
                    tls.min_version,
                    "tlsSecurityProfile, for the metrics of this operator: {shortcoming}"
                );
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
