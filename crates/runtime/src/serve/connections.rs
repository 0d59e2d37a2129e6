//! One way to accept connections, to limit what each of them costs, and to serve one HTTP request
//! on it. Every port of the operator goes through here.
//!
//! Anybody in the cluster may connect, so a connection is cheap and short: its head is small, one
//! deadline counts from accept to the last byte of the head, and the number of connections is
//! limited. A new connection never waits for a place. When all places are taken, the oldest
//! connection that has not asked anything yet loses its place: clients that hold connections open
//! and say nothing push out each other, while a probe or a scrape asks as soon as it is connected.
//!
//! `axum::serve` does not serve here. It limits neither the number of connections nor the time for
//! a request's head.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::Future,
    io,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{Request, Response, StatusCode, header, response::Builder};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

/// How long no connection is accepted after that failed, for example because there are no file
/// descriptors left.
const PAUSE: Duration = Duration::from_secs(1);

/// The limits on connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The number of connections at once.
    pub(crate) connections: usize,
    /// From accept to the end of the request's head, a TLS handshake included.
    pub(crate) head: Duration,
    /// From accept to the end of the connection.
    pub(crate) lifetime: Duration,
    /// The size of a request's head in bytes. At least 8192, for hyper.
    pub(crate) head_size: usize,
}

/// The service on a port.
pub(crate) trait Endpoint: Send + Sync + 'static {
    /// The stream that requests are read from.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send;

    /// Makes a connection ready for requests, for example by a TLS handshake.
    fn open(&self, stream: TcpStream) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Answers a request from this address.
    fn answer(
        &self,
        request: Request<Incoming>,
        from: IpAddr,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send;
}

/// Serves until `stop`. `what` is served, for the log.
pub(crate) async fn serve(
    listener: TcpListener,
    what: &'static str,
    endpoint: impl Endpoint,
    limits: Limits,
    stop: CancellationToken,
) {
    let (endpoint, places) = (Arc::new(endpoint), Places::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, from)) => {
                let (place, lost) = places.take(limits.connections);
                let connection =
                    connection(Arc::clone(&endpoint), stream, from.ip(), limits, place);
                tokio::spawn(async move {
                    let ended = tokio::select! {
                        ended = timeout(limits.lifetime, connection) => ended.unwrap_or(Err("it took too long".into())),
                        _ = lost => Err("its place went to a newer connection".into()),
                    };
                    if let Err(error) = ended {
                        tracing::debug!(%error, %from, "a connection for {what} was cut off");
                    }
                });
            }
            // The client has gone already.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::warn!(%error, "no connection for {what} can be accepted");
                tokio::select! {
                    () = sleep(PAUSE) => {}
                    () = stop.cancelled() => return,
                }
            }
        }
    }
}

async fn connection<E: Endpoint>(
    endpoint: Arc<E>,
    stream: TcpStream,
    from: IpAddr,
    limits: Limits,
    place: Place,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let deadline = Instant::now() + limits.head;
    let stream = timeout_at(deadline, endpoint.open(stream)).await??;
    let service = service_fn(async |request: Request<Incoming>| {
        place.asked();
        Ok::<_, Infallible>(endpoint.answer(request, from).await)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(deadline.saturating_duration_since(Instant::now()));
    // One request a connection: the next one is accepted by the limits, and shakes hands by the
    // settings, as they are then.
    http.keep_alive(false).max_buf_size(limits.head_size);
    http.serve_connection(TokioIo::new(stream), service).await?;
    Ok(())
}

/// The connections of a port.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    last: u64,
    /// In the order of arrival.
    connections: BTreeMap<u64, Connection>,
}

struct Connection {
    /// The head of its request is complete.
    asked: bool,
    /// Dropped, it ends the connection.
    _keep: oneshot::Sender<()>,
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection, and what completes if that loses it later. Where all are
    /// taken, the oldest connection that has not asked anything loses its place, or the oldest of
    /// all.
    fn take(&self, most: usize) -> (Place, oneshot::Receiver<()>) {
        let mut taken = self.lock();
        while taken.connections.len() >= most {
            let silent = taken
                .connections
                .iter()
                .find(|(_, connection)| !connection.asked)
                .map(|(number, _)| *number);
            match silent {
                Some(number) => taken.connections.remove(&number),
                None => taken
                    .connections
                    .pop_first()
                    .map(|(_, connection)| connection),
            };
        }
        taken.last += 1;
        let (number, (keep, lost)) = (taken.last, oneshot::channel());
        taken.connections.insert(
            number,
            Connection {
                asked: false,
                _keep: keep,
            },
        );
        (
            Place {
                places: self.clone(),
                number,
            },
            lost,
        )
    }
}

/// The place of a connection. Free again when this is dropped.
struct Place {
    places: Places,
    number: u64,
}

impl Place {
    fn asked(&self) {
        if let Some(connection) = self.places.lock().connections.get_mut(&self.number) {
            connection.asked = true;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().connections.remove(&self.number);
    }
}

/// Returns a response with plain text.
pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Response<Full<Bytes>> {
    with(
        Response::builder()
            .status(status)
            .header(header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        text.into(),
    )
}

/// A body of another type. All parts of the head are Weft's own, and valid.
pub(crate) fn with(builder: Builder, body: String) -> Response<Full<Bytes>> {
    builder.body(Full::new(body.into())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LIMITS: Limits = Limits {
        connections: 8,
        head: Duration::from_secs(3600),
        lifetime: Duration::from_secs(3600),
        head_size: 8 * 1024,
    };
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: weft\r\n\r\n";
    const HELD: &[u8] = b"GET /held HTTP/1.1\r\nHost: weft\r\n\r\n";

    /// Says yes. To `/held`, not before it is cancelled.
    struct Yes(CancellationToken);

    impl Endpoint for Yes {
        type Stream = TcpStream;

        async fn open(&self, stream: TcpStream) -> io::Result<TcpStream> {
            Ok(stream)
        }

        async fn answer(&self, request: Request<Incoming>, _: IpAddr) -> Response<Full<Bytes>> {
            if request.uri().path() == "/held" {
                self.0.cancelled().await;
            }
            text(StatusCode::OK, "yes\n")
        }
    }

    struct Server {
        address: SocketAddr,
        stop: CancellationToken,
        release: CancellationToken,
    }

    impl Server {
        async fn start(limits: Limits) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let (address, stop, release) = (
                listener.local_addr().unwrap(),
                CancellationToken::new(),
                CancellationToken::new(),
            );
            tokio::spawn(serve(
                listener,
                "tests",
                Yes(release.clone()),
                limits,
                stop.clone(),
            ));
            Self {
                address,
                stop,
                release,
            }
        }

        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.address).await.unwrap()
        }

        async fn ask(&self, request: &[u8]) -> String {
            let mut stream = self.connect().await;
            stream.write_all(request).await.unwrap();
            rest(&mut stream).await
        }
    }

    /// Reads until the server closes the connection. A connection that is cut off while something
    /// of ours is unread is reset.
    async fn rest(stream: &mut TcpStream) -> String {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
        String::from_utf8(all).unwrap()
    }

    #[tokio::test]
    async fn requests_are_answered_while_idle_connections_take_all_places() {
        let server = Server::start(LIMITS).await;
        let mut idle = Vec::new();
        for n in 0..200 {
            let mut stream = server.connect().await;
            if n % 2 == 0 {
                stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
            }
            idle.push(stream);
        }
        assert!(server.ask(REQUEST).await.starts_with("HTTP/1.1 200 "));
        let last = idle.len();
        for stream in &mut idle[..last - LIMITS.connections] {
            assert_eq!(rest(stream).await, "", "the older ones are cut off");
        }
        let newest = &mut idle[last - 1];
        newest.write_all(REQUEST).await.unwrap();
        assert!(
            rest(newest).await.starts_with("HTTP/1.1 200 "),
            "the newest one may still ask"
        );
    }

    #[tokio::test]
    async fn a_request_in_work_keeps_its_place_among_idle_connections() {
        let server = Server::start(LIMITS).await;
        let mut working = server.connect().await;
        working.write_all(HELD).await.unwrap();
        // The answer to a later request shows that the server has read the earlier one.
        assert!(server.ask(REQUEST).await.starts_with("HTTP/1.1 200 "));
        let mut idle = Vec::new();
        for _ in 0..2 * LIMITS.connections {
            idle.push(server.connect().await);
        }
        assert_eq!(rest(&mut idle[0]).await, "");
        server.release.cancel();
        assert!(rest(&mut working).await.starts_with("HTTP/1.1 200 "));
    }

    #[tokio::test]
    async fn requests_without_an_answer_in_all_places_leave_room_for_the_next() {
        let server = Server::start(LIMITS).await;
        let mut working = Vec::new();
        for _ in 0..3 * LIMITS.connections {
            let mut stream = server.connect().await;
            stream.write_all(HELD).await.unwrap();
            working.push(stream);
        }
        assert!(server.ask(REQUEST).await.starts_with("HTTP/1.1 200 "));
        assert_eq!(rest(&mut working[0]).await, "");
    }

    #[tokio::test]
    async fn a_head_that_is_too_large_is_refused_while_it_is_sent() {
        let server = Server::start(LIMITS).await;
        let mut stream = server.connect().await;
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: weft\r\nX-Large: ")
            .await
            .unwrap();
        let piece = [b'a'; 1024];
        // More than the buffers of any socket hold. A server that reads on takes all of it.
        let mut sent = 0;
        while sent < 64 << 20 && stream.write_all(&piece).await.is_ok() {
            sent += piece.len();
        }
        assert!(sent < 64 << 20, "all of {sent} bytes were taken");
        assert!(server.ask(REQUEST).await.starts_with("HTTP/1.1 200 "));
    }

    #[tokio::test]
    async fn a_head_that_comes_byte_by_byte_is_cut_off_at_the_deadline() {
        let server = Server::start(Limits {
            head: Duration::from_millis(100),
            ..LIMITS
        })
        .await;
        let (mut silent, mut slow) = (server.connect().await, server.connect().await);
        // Each byte comes early enough to renew a limit that counts from the last one.
        while slow.write_all(b"G").await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(rest(&mut silent).await, "");
    }

    #[tokio::test]
    async fn a_connection_without_an_answer_ends_with_its_lifetime() {
        let server = Server::start(Limits {
            lifetime: Duration::from_millis(100),
            ..LIMITS
        })
        .await;
        assert_eq!(server.ask(HELD).await, "");
    }

    #[tokio::test]
    async fn a_connection_serves_one_request() {
        let server = Server::start(LIMITS).await;
        let answers = server.ask(&REQUEST.repeat(3)).await;
        assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 1, "{answers}");
    }

    #[tokio::test]
    async fn nothing_is_accepted_after_the_stop() {
        let server = Server::start(LIMITS).await;
        assert!(server.ask(REQUEST).await.starts_with("HTTP/1.1 200 "));
        server.stop.cancel();
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }
}
