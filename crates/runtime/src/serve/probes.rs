//! The port of the probes: `/healthz` and `/readyz`, and `/metrics` where that is to be read by
//! anybody.

use std::{io, net::IpAddr, time::Duration};

use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::{
    metrics::Metrics,
    serve::{
        connections::{self, Endpoint, Limits, text},
        exposition,
    },
    store::watch::Shared,
};

/// A kubelet asks at once, and each answer is there at once.
const LIMITS: Limits = Limits {
    connections: 64,
    head: Duration::from_secs(10),
    lifetime: Duration::from_secs(10),
    head_size: 8 * 1024,
};

/// The state that the probes look at.
#[derive(Clone)]
pub struct Probes {
    /// One cache a domain.
    pub caches: Vec<(&'static str, Shared)>,
    /// The numbers, if they are to be served here, to anybody.
    pub metrics: Option<Metrics>,
}

/// Serves the probes until `stop`.
pub async fn serve(listener: TcpListener, probes: Probes, stop: CancellationToken) {
    connections::serve(listener, "probes", probes, LIMITS, stop).await;
}

impl Endpoint for Probes {
    type Stream = TcpStream;

    async fn open(&self, stream: TcpStream) -> io::Result<TcpStream> {
        Ok(stream)
    }

    async fn answer(&self, request: Request<Incoming>, _: IpAddr) -> Response<Full<Bytes>> {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
        }
        match (request.uri().path(), &self.metrics) {
            // The operator is one thread: that it answers is what health means.
            ("/healthz", _) => text(StatusCode::OK, "ok\n"),
            ("/readyz", _) => self.ready(),
            ("/metrics", Some(metrics)) => exposition::response(metrics, request.headers()),
            _ => text(StatusCode::NOT_FOUND, "there are /healthz and /readyz\n"),
        }
    }
}

impl Probes {
    /// Ready once every watch has listed everything.
    fn ready(&self) -> Response<Full<Bytes>> {
        let waiting: Vec<_> = self
            .caches
            .iter()
            .filter(|(_, shared)| !shared.lock().is_complete())
            .map(|(domain, _)| *domain)
            .collect();
        if waiting.is_empty() {
            text(StatusCode::OK, "ok\n")
        } else {
            text(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("not everything is known yet: {}\n", waiting.join(", ")),
            )
        }
    }
}
