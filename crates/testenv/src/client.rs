//! A client that waits where kubectl waits, and nowhere else.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use kube::client::{Body, ClientBuilder, retry::RetryPolicy};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tower::BoxError;
use tower::buffer::BufferLayer;
use tower::retry::{Policy, RetryLayer};

/// How often a request is sent again (`maxRetries` of client-go's `rest/request.go`).
const REPEATS: u32 = 10;
/// How long a client waits for the next part of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(600);
/// How many requests may wait for the connection. kube's own buffer has this size as well.
const WAITING: usize = 1024;

/// A client for a kubeconfig file. Like kubectl, it sends a request again that was answered with 429
/// and a time to wait. The API server does so for a moment after a definition was created ("storage
/// is (re)initializing"). All other answers reach the test. (kube's own policy also hides 503 and 504
/// for minutes, and it is off.) It waits ten minutes at most for more of an answer: watches that see
/// nothing end by themselves before.
///
/// # Errors
/// The file cannot be read or names no usable cluster.
pub async fn client_from(kubeconfig: &Path) -> Result<kube::Client> {
    // Several TLS libraries may be linked. Kube takes the process-wide one. It fails if there is
    // one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.read_timeout = Some(READ_TIMEOUT);
    // A connection may have been idle before the request.
    config.reset_reader_on_write = true;
    let client = ClientBuilder::try_from(config)?
        .with_layer(&BufferLayer::new(WAITING))
        .with_layer(&RetryLayer::new(LikeKubectl::default()));
    Ok(client.build())
}

/// When client-go sends a request again (`IsRetryableAfter` and `retryAfter` of its
/// `rest/with_retry.go`), but for answers of 5xx.
#[derive(Clone, Default)]
struct LikeKubectl {
    repeats: u32,
}

impl<Res> Policy<Request<Body>, Response<Res>, BoxError> for LikeKubectl {
    type Future = tokio::time::Sleep;

    fn retry(
        &mut self,
        _: &mut Request<Body>,
        answer: &mut Result<Response<Res>, BoxError>,
    ) -> Option<Self::Future> {
        let answer = answer.as_ref().ok()?;
        if answer.status() != StatusCode::TOO_MANY_REQUESTS || self.repeats == REPEATS {
            return None;
        }
        let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
        let pause = Duration::from_secs(seconds.parse().ok()?);
        self.repeats += 1;
        Some(tokio::time::sleep(pause))
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        Policy::<_, Response<Res>, _>::clone_request(&mut RetryPolicy::server_retry(), request)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::pki;

    // The paused clock of tokio advances to the next timer when nothing else is left to do.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_ends_the_request() {
        // The kernel accepts connections for it.
        let mute = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = format!("http://{}", mute.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, pki::kubeconfig(&server, "", "admin", "token")).unwrap();
        let client = client_from(&kubeconfig).await.unwrap();
        let begin = tokio::time::Instant::now();
        client.apiserver_version().await.unwrap_err();
        assert_eq!(begin.elapsed().as_secs(), READ_TIMEOUT.as_secs());
    }
}
