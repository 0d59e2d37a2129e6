//! A gate in front of the API server that lets writes through only while this replica is the
//! leader.
//!
//! A process that was stopped (a paused machine, SIGSTOP) and wakes after its lease has passed
//! still believes what it believed before. So the lease's end is checked where requests leave, at
//! the last moment, not where decisions are made. Its clock counts the time of a suspension.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::future::{Either, Ready, ready};
use http::{Method, Request};
use http_body::{Body, Frame, SizeHint};
use tower::{BoxError, Layer, Service};

use crate::boot_clock::BootInstant;

/// The request was not sent: this replica is not, or no longer, the leader.
#[derive(Debug, thiserror::Error)]
#[error("not the leader any more")]
pub struct Closed;

/// Until when writes may pass.
#[derive(Clone, Debug, Default)]
pub struct Fence {
    open_until: Arc<Mutex<Option<BootInstant>>>,
}

impl Fence {
    /// Returns a fence that lets all writes pass, for a process that needs no lease.
    pub fn open() -> Self {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        let fence = Self::default();
        fence.open_until(BootInstant::now() + CENTURY);
        fence
    }

    /// Lets writes pass until then.
    pub fn open_until(&self, deadline: BootInstant) {
        *self.lock() = Some(deadline);
    }

    /// Lets no write pass.
    pub fn close(&self) {
        *self.lock() = None;
    }

    /// Reports whether a write may pass now.
    pub fn is_open(&self) -> bool {
        self.lock()
            .is_some_and(|deadline| BootInstant::now() < deadline)
    }

    /// The request with a body that ends with an error if the fence is closed when it is sent:
    /// between the decision to send a request and its last byte a connection may have to be made,
    /// and the process may be stopped.
    pub(crate) fn guard<B>(&self, request: Request<B>) -> Request<Guarded<B>> {
        let fence = (!Self::is_harmless(&request)).then(|| self.clone());
        request.map(|body| Guarded { body, fence })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<BootInstant>> {
        self.open_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The lease itself is how a leader is found, and is guarded by its resourceVersion. Reviews
    /// are questions, though they are posted.
    fn is_harmless<B>(request: &Request<B>) -> bool {
        const HARMLESS: [&str; 3] = [
            "/apis/coordination.k8s.io/",
            "/apis/authentication.k8s.io/",
            "/apis/authorization.k8s.io/",
        ];
        request.method() == Method::GET
            || HARMLESS
                .iter()
                .any(|group| request.uri().path().starts_with(group))
    }

    fn stops<B>(&self, request: &Request<B>) -> bool {
        !Self::is_harmless(request) && !self.is_open()
    }
}

/// A body that is sent only while the fence is open.
pub(crate) struct Guarded<B> {
    body: B,
    fence: Option<Fence>,
}

impl<B> Body for Guarded<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        match &self.fence {
            // The API server drops a request whose body is shorter than announced.
            Some(fence) if !fence.is_open() => Poll::Ready(Some(Err(Closed.into()))),
            _ => Pin::new(&mut self.body)
                .poll_frame(context)
                .map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<S> Layer<S> for Fence {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced {
            inner,
            fence: self.clone(),
        }
    }
}

/// A service behind a [`Fence`].
#[derive(Clone)]
pub struct Fenced<S> {
    inner: S,
    fence: Fence,
}

impl<S, B> Service<Request<B>> for Fenced<S>
where
    S: Service<Request<B>, Error = BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<S::Future, Ready<Result<S::Response, BoxError>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if self.fence.stops(&request) {
            Either::Right(ready(Err(Closed.into())))
        } else {
            Either::Left(self.inner.call(request))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use http_body_util::BodyExt;
    use std::time::Duration;

    fn request(method: Method, path: &str) -> Request<()> {
        Request::builder()
            .method(method)
            .uri(path)
            .body(())
            .unwrap()
    }

    #[test]
    fn reads_and_the_lease_pass_always_and_writes_only_in_time() {
        let fence = Fence::default();
        let write = request(Method::PATCH, "/api/v1/namespaces/n/configmaps/c");
        assert!(fence.stops(&write));
        assert!(!fence.stops(&request(Method::GET, "/api/v1/pods")));
        assert!(
            fence.stops(&request(
                Method::PATCH,
                "/api/v1/namespaces/leases/configmaps/c"
            )),
            "a namespace of that name"
        );
        assert!(!fence.stops(&request(
            Method::PUT,
            "/apis/coordination.k8s.io/v1/namespaces/n/leases/weft-addons"
        )));
        // A client may ask a replica that does not lead for its metrics.
        assert!(!fence.stops(&request(
            Method::POST,
            "/apis/authentication.k8s.io/v1/tokenreviews"
        )));
        assert!(!fence.stops(&request(
            Method::POST,
            "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        )));
        fence.open_until(BootInstant::now() + Duration::from_secs(60));
        assert!(!fence.stops(&write));
        fence.open_until(BootInstant::now());
        assert!(fence.stops(&write));
    }

    #[tokio::test]
    async fn a_write_that_is_under_way_ends_when_the_fence_closes() {
        let fence = Fence::default();
        fence.open_until(BootInstant::now() + Duration::from_secs(60));
        let guarded = |method| {
            let request = Request::builder()
                .method(method)
                .uri("/api/v1/namespaces/n/configmaps/c");
            fence
                .guard(
                    request
                        .body(kube::client::Body::from(b"{}".to_vec()))
                        .unwrap(),
                )
                .into_body()
        };
        let (sent, stopped, read) = (
            guarded(Method::PATCH),
            guarded(Method::PATCH),
            guarded(Method::GET),
        );
        assert_eq!(
            stopped.size_hint().exact(),
            Some(2),
            "the API server waits for as much"
        );
        assert_eq!(sent.collect().await.unwrap().to_bytes(), "{}");
        fence.close();
        assert!(stopped.collect().await.unwrap_err().is::<Closed>());
        assert_eq!(read.collect().await.unwrap().to_bytes(), "{}");
    }
}
