//! `/healthz` and `/readyz`, and `/metrics` beside them where that is asked for.

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{metrics::Metrics, metrics_server::OPEN_METRICS, watch::Shared};

/// What the probes look at.
#[derive(Clone)]
pub struct Probes {
    /// One cache a domain.
    pub caches: Vec<(&'static str, Shared)>,
    /// The numbers, if they are to be served here, to anybody.
    pub metrics: Option<Metrics>,
}

/// Serves until `stop`.
pub async fn serve(listener: TcpListener, probes: Probes, stop: CancellationToken) -> std::io::Result<()> {
    // The operator is one thread: that it answers is what health means.
    let mut router = Router::new().route("/healthz", get(|| async { "ok\n" })).route("/readyz", get(ready));
    if let Some(metrics) = probes.metrics.clone() {
        router = router.route("/metrics", get(|| async move { ([("content-type", OPEN_METRICS)], metrics.text()) }));
    }
    let router = router.with_state(probes);
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
