//! `/healthz`, `/readyz` and `/metrics`.

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{metrics::Metrics, watch::Shared};

/// What the probes look at.
#[derive(Clone)]
pub struct Probes {
    /// One cache a domain.
    pub caches: Vec<(&'static str, Shared)>,
    /// The numbers.
    pub metrics: Metrics,
}

/// Serves until `stop`.
pub async fn serve(listener: TcpListener, probes: Probes, stop: CancellationToken) -> std::io::Result<()> {
    let router = Router::new()
        // The operator is one thread: that it answers is what health means.
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route(
            "/metrics",
            get(|State(probes): State<Probes>| async move {
                ([("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")], probes.metrics.text())
            }),
        )
        .with_state(probes);
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

/// Ready once every watch has listed everything.
async fn ready(State(probes): State<Probes>) -> (StatusCode, String) {
    let waiting: Vec<_> = probes.caches.iter().filter(|(_, shared)| !shared.lock().is_complete()).map(|(domain, _)| *domain).collect();
    if waiting.is_empty() {
        (StatusCode::OK, "ok\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("not everything is known yet: {}\n", waiting.join(", ")))
    }
}
