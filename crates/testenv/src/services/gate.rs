//! A way to Keystone that breaks at a certain write.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::proxy::When;

use super::Keystone;

type Hook = Box<dyn FnOnce() + Send>;

/// Hands requests on to a Keystone, records those that have changed something there, and runs a
/// hook at one of these: to kill the process that sends it. A gate, which ends on drop. It runs on
/// the runtime of the test.
#[derive(Debug)]
pub struct Gate {
    url: String,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    writes: Vec<String>,
    hook: Option<(usize, When, Hook)>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("writes", &self.writes)
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// In front of this Keystone, on a free port of this machine's loopback.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(keystone: &Keystone) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}/v3", listener.local_addr()?);
        let root = keystone
            .url()
            .strip_suffix("/v3")
            .context("the address of Keystone has its version")?
            .to_owned();
        let state = Arc::<Mutex<State>>::default();
        let server = tokio::spawn(serve(listener, root, Arc::clone(&state)));
        Ok(Self { url, state, server })
    }

    /// Of the API, on this machine.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Requests that change something since the last hook was set, for example `POST /v3/users`.
    /// Tokens are not kept, so they are no change.
    pub fn writes(&self) -> Vec<String> {
        lock(&self.state).writes.clone()
    }

    /// Forgets what came so far, and runs `hook` at the `n`-th write from now on (from 1). Before:
    /// it does not reach Keystone. After: Keystone has answered, and the client does not learn
    /// what.
    pub fn on_write(&self, n: usize, when: When, hook: impl FnOnce() + Send + 'static) {
        *lock(&self.state) = State {
            writes: vec![],
            hook: Some((n, when, Box::new(hook))),
        };
    }

    /// Forgets what came so far, and the hook.
    pub fn clear(&self) {
        *lock(&self.state) = State::default();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, root: String, state: Arc<Mutex<State>>) {
    let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        tokio::spawn(connection(
            stream,
            client.clone(),
            root.clone(),
            Arc::clone(&state),
        ));
    }
}

async fn connection(
    stream: TcpStream,
    client: Client<HttpConnector, Full<Bytes>>,
    root: String,
    state: Arc<Mutex<State>>,
) {
    let service = service_fn(|request| {
        // In a task of its own: when the client goes away, this is dropped, but what is handed on
        // is handed on.
        let exchange = tokio::spawn(exchange(
            request,
            client.clone(),
            root.clone(),
            Arc::clone(&state),
        ));
        async {
            exchange
                .await
                .unwrap_or_else(|panicked| Err(panicked.into()))
        }
    });
    // An error of the service ends the connection without an answer.
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn exchange(
    request: Request<Incoming>,
    client: Client<HttpConnector, Full<Bytes>>,
    root: String,
    state: Arc<Mutex<State>>,
) -> Result<Response<Full<Bytes>>> {
    let (mut head, body) = request.into_parts();
    let path = head
        .uri
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    let hook = hook_of(&head.method, &path, &state);
    if let Some((When::Before, hook)) = hook {
        hook();
        bail!("killed before the write");
    }
    head.uri = Uri::try_from(format!("{root}{path}"))?;
    head.headers.remove(http::header::HOST);
    let answer = client
        .request(Request::from_parts(
            head,
            Full::new(body.collect().await?.to_bytes()),
        ))
        .await?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    if let Some((_, hook)) = hook {
        hook();
        bail!("killed after the write");
    }
    Ok(Response::from_parts(head, Full::new(body)))
}

/// Takes note of a write, and takes the hook if this is the one that it waits for.
fn hook_of(method: &Method, path: &str, state: &Mutex<State>) -> Option<(When, Hook)> {
    if *method == Method::GET || path.ends_with("/auth/tokens") {
        return None;
    }
    let mut state = lock(state);
    state.writes.push(format!("{method} {path}"));
    let is_it = state
        .hook
        .as_ref()
        .is_some_and(|(n, ..)| *n == state.writes.len());
    state
        .hook
        .take_if(|_| is_it)
        .map(|(_, when, hook)| (when, hook))
}
