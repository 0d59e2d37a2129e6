//! Takes connections from clients and hands their requests on to the API server.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{TryStreamExt, stream};
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, RETRY_AFTER,
    TRANSFER_ENCODING, WARNING,
};
use http::request::Parts;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::fault::{Fault, Framing, Stranger, expired_event, status_body};
use super::request_info::RequestInfo;
use super::state::{Decision, Error, Hook, State, When};
use super::watch;

type Body = BoxBody<Bytes, Error>;

pub(super) struct Server {
    pub(super) state: Arc<State>,
    pub(super) acceptor: TlsAcceptor,
    /// The API server: `https://127.0.0.1:<port>`.
    pub(super) upstream: String,
    pub(super) client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// Bearer token to user.
    pub(super) users: BTreeMap<String, String>,
}

/// The rest of the work on a request after the faults.
enum Course {
    Forward,
    LoseReply,
    /// Hand on the first half of the reply's body.
    HalveReply(Framing),
    /// Hand the reply on this much later.
    DelayReply(Duration),
    /// Lose the reply too, and run the hook before.
    Hook(Hook),
}

pub(super) fn upstream_client(
    tls: rustls::ClientConfig,
) -> Client<HttpsConnector<HttpConnector>, Full<Bytes>> {
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http1()
        .build();
    Client::builder(TokioExecutor::new()).build(connector)
}

impl Server {
    /// Serves for ever.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // The client is gone already, or there are no descriptors left: not at full speed
                // then.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            tokio::spawn(self.clone().connection(stream));
        }
    }

    async fn connection(self: Arc<Self>, stream: TcpStream) {
        let connection = self.state.new_connection();
        let _ = stream.set_nodelay(true);
        // A client that does not like our certificate or goes away is not our concern.
        let Ok(stream) = self.acceptor.accept(stream).await else {
            return;
        };
        let service = service_fn(|request| self.clone().exchange(connection, request));
        // An error of the service ends the connection without an answer: that is what a cut is.
        let _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    /// One request. An error cuts the connection.
    async fn exchange(
        self: Arc<Self>,
        connection: u64,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let mut info = RequestInfo::new(&head, &self.users);
        if info.verb == "create" && info.name.is_empty() {
            info.name = name_in(&body);
        }
        // In a task of its own: when the client goes away, hyper drops this future, but what is
        // forwarded is forwarded.
        let task = async move {
            let audit_id = format!("{:032x}", rand::random::<u128>());
            let seq = self
                .state
                .record(info.clone(), body.clone(), audit_id.clone());
            match self.faults(connection, &info).await? {
                Err((code, answer)) => {
                    self.state.update(seq, |recorded| {
                        recorded.code = Some(code);
                        recorded.delivered = true;
                    });
                    Ok(answer)
                }
                Ok(course) => self.forward(seq, info, head, body, audit_id, course).await,
            }
        };
        tokio::spawn(task).await?
    }

    /// Lets the faults have their turn: an answer of ours, or how to go on.
    async fn faults(
        &self,
        connection: u64,
        info: &RequestInfo,
    ) -> Result<Result<Course, (u16, Response<Body>)>, Error> {
        let mut changes = self.state.changes();
        let mut delayed = false;
        loop {
            changes.mark_unchanged();
            match self.state.decide(connection, info, delayed) {
                Decision::Forward => return Ok(Ok(Course::Forward)),
                Decision::Cut => return Err("its process was killed".into()),
                Decision::Wait => changes.changed().await?,
                Decision::Hook(When::After, hook) => return Ok(Ok(Course::Hook(hook))),
                Decision::Hook(When::Before, hook) => {
                    hook();
                    self.state.killed(&info.user);
                    return Err("killed before the write".into());
                }
                Decision::Fault(rule, fault) => {
                    delayed = true;
                    match fault {
                        Fault::Reply { code, retry_after } => {
                            return Ok(Err((code, reply(code, retry_after)?)));
                        }
                        Fault::WatchExpired => return Ok(Err((200, json(expired_event())?))),
                        Fault::CutBefore => return Err("cut before it was forwarded".into()),
                        Fault::CutAfter => return Ok(Ok(Course::LoseReply)),
                        Fault::Delay(time) => tokio::time::sleep(time).await,
                        Fault::DelayAnswer(time) => return Ok(Ok(Course::DelayReply(time))),
                        Fault::Hold => {
                            while self.state.has_rule(rule) {
                                changes.changed().await?;
                            }
                        }
                        Fault::Stranger(stranger) => {
                            return Ok(Err((stranger.code(), answer_of(stranger)?)));
                        }
                        Fault::HalfBody(framing) => return Ok(Ok(Course::HalveReply(framing))),
                        // These are about events. The state gives them out only for events.
                        Fault::DropEvents(_)
                        | Fault::HoldEvents(_)
                        | Fault::DelayEvents(..)
                        | Fault::GarbleEvents(_)
                        | Fault::SplitEvents(_)
                        | Fault::CutEvents(_) => {}
                    }
                }
            }
        }
    }

    async fn forward(
        &self,
        seq: u64,
        info: RequestInfo,
        mut head: Parts,
        body: Bytes,
        audit_id: String,
        course: Course,
    ) -> Result<Response<Body>, Error> {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        head.uri = Uri::try_from(format!("{}{path}", self.upstream))?;
        for header in [HOST, CONNECTION, TRANSFER_ENCODING] {
            head.headers.remove(header);
        }
        head.headers
            .insert("audit-id", HeaderValue::from_str(&audit_id)?);
        self.state.update(seq, |recorded| recorded.forwarded = true);
        let answer = self
            .client
            .request(Request::from_parts(head, Full::new(body)))
            .await;
        if let Ok(answer) = &answer {
            let warnings = warnings(answer.headers());
            self.state
                .update(seq, |recorded| recorded.warnings = warnings);
        }
        let (mut head, body) = match (answer, course) {
            (Ok(answer), Course::Forward) => answer.into_parts(),
            (Ok(answer), Course::DelayReply(time)) => {
                tokio::time::sleep(time).await;
                answer.into_parts()
            }
            (Ok(answer), Course::HalveReply(framing)) if info.verb != "watch" => {
                let code = answer.status().as_u16();
                self.state
                    .update(seq, |recorded| recorded.code = Some(code));
                return half(answer, framing).await;
            }
            (answer, course) => {
                if let Ok(answer) = answer {
                    self.state.update(seq, |recorded| {
                        recorded.code = Some(answer.status().as_u16())
                    });
                    // Only a whole answer proves that the API server has done all it will do. (A
                    // watch has no end.)
                    if info.verb != "watch" {
                        answer.into_body().collect().await?;
                    }
                }
                if let Course::Hook(hook) = course {
                    hook();
                    self.state.killed(&info.user);
                }
                return Err("the answer is lost".into());
            }
        };
        head.headers.remove(CONNECTION);
        let code = head.status.as_u16();
        self.state
            .update(seq, |recorded| recorded.code = Some(code));
        self.state.update(seq, |recorded| recorded.delivered = true);
        let is_json = head
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
        let body = if info.verb == "watch" && code == 200 && is_json {
            StreamBody::new(watch::body(self.state.clone(), seq, info, body)).boxed()
        } else {
            let state = self.state.clone();
            let counted = body
                .into_data_stream()
                .map_err(Error::from)
                .map_ok(move |data| {
                    state.update(seq, |recorded| recorded.response_size += data.len() as u64);
                    Frame::data(data)
                });
            StreamBody::new(counted).boxed()
        };
        Ok(Response::from_parts(head, body))
    }
}

fn warnings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(WARNING).iter();
    values
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        .collect()
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text))
        .map_err(|never: Infallible| match never {})
        .boxed()
}

fn json(body: String) -> Result<Response<Body>, Error> {
    Ok(Response::builder()
        .header(CONTENT_TYPE, "application/json")
        .body(full(body))?)
}

fn reply(code: u16, retry_after: Option<u32>) -> Result<Response<Body>, Error> {
    let mut answer = json(status_body(code))?;
    *answer.status_mut() = StatusCode::from_u16(code)?;
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    Ok(answer)
}

fn answer_of(stranger: Stranger) -> Result<Response<Body>, Error> {
    let body = Full::new(Bytes::from_static(stranger.body()));
    Ok(Response::builder()
        .status(stranger.code())
        .header(CONTENT_TYPE, stranger.content_type())
        .body(body.map_err(|never: Infallible| match never {}).boxed())?)
}

/// The answer with the first half of its body, after which the connection ends.
async fn half(answer: Response<Incoming>, framing: Framing) -> Result<Response<Body>, Error> {
    let (mut head, body) = answer.into_parts();
    let whole = body.collect().await?.to_bytes();
    for header in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        head.headers.remove(header);
    }
    // Without a length, hyper sends chunks.
    if framing == Framing::Length {
        head.headers.insert(CONTENT_LENGTH, whole.len().into());
    }
    let first = Frame::data(whole.slice(..whole.len() / 2));
    let cut = stream::once(async {
        // An error ends the connection at once. The first half leaves before it.
        tokio::task::yield_now().await;
        Err(Error::from("the body is cut"))
    });
    let body = futures::StreamExt::chain(stream::iter([Ok(first)]), cut);
    Ok(Response::from_parts(head, StreamBody::new(body).boxed()))
}

/// Name of the object that a create carries, empty if it is not JSON or leaves the name to the API
/// server.
fn name_in(body: &[u8]) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Created {
        metadata: Named,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Named {
        name: String,
    }
    serde_json::from_slice::<Created>(body)
        .unwrap_or_default()
        .metadata
        .name
}
