//! A watch on its way to the client: a line of JSON is an event, and events may be dropped, held
//! back, garbled or cut off.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use futures::Stream;
use futures::stream::unfold;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};
use serde::Deserialize;
use tokio::{
    sync::watch::Receiver,
    time::{Instant, sleep_until},
};

use super::fault::{Fault, expired_event};
use super::request_info::RequestInfo;
use super::state::{End, Error, RuleId, State};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    r#type: String,
    object: Object,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Object {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    namespace: String,
}

/// The obstacle that an event waits for.
#[derive(Clone, Copy)]
enum Held {
    Nothing,
    /// The end of this fault.
    By(RuleId),
    Until(Instant),
    /// Nothing more comes: the connection ends here.
    ForEver,
}

/// A line that is no event.
const GARBAGE: &[u8] = b"<html><body>502 Bad Gateway</body></html>\n";

/// Begun watches are known to the state until they end, in whichever way.
struct Watch {
    id: u64,
    seq: u64,
    info: RequestInfo,
    state: Arc<State>,
    changes: Receiver<()>,
    upstream: Incoming,
    /// Bytes of an event that is not whole yet.
    partial: BytesMut,
    /// Events on their way, and what holds each back.
    queue: VecDeque<(Bytes, Held)>,
    upstream_ended: bool,
    ended: bool,
}

/// The body for the client.
pub(super) fn body(
    state: Arc<State>,
    seq: u64,
    info: RequestInfo,
    upstream: Incoming,
) -> impl Stream<Item = Result<Frame<Bytes>, Error>> {
    let watch = Watch {
        id: state.open_watch(&info),
        seq,
        info,
        changes: state.changes(),
        state,
        upstream,
        partial: BytesMut::new(),
        queue: VecDeque::new(),
        upstream_ended: false,
        ended: false,
    };
    unfold(watch, |mut watch| async move {
        let bytes = watch.next().await.transpose()?;
        Some((bytes.map(Frame::data), watch))
    })
}

impl Watch {
    /// The next bytes for the client. None at the end, an error to cut the connection.
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if self.ended {
                return Ok(None);
            }
            // Before the state is looked at: a change between the look and the wait must wake us.
            self.changes.mark_unchanged();
            match self.state.end_of_watch(self.id) {
                Some(End::Closed) => return Err("the test closed this watch".into()),
                Some(End::Expired) => {
                    self.ended = true;
                    return Ok(Some(expired_event().into()));
                }
                None => {}
            }
            let held = self.queue.front().map_or(Held::Nothing, |(_, held)| *held);
            let (may_go, due) = match held {
                Held::Nothing => (true, None),
                Held::By(rule) => (!self.state.has_rule(rule), None),
                Held::Until(due) => (due <= Instant::now(), Some(due)),
                Held::ForEver => {
                    // The part before this one leaves first.
                    tokio::task::yield_now().await;
                    return Err("the connection ends in an event".into());
                }
            };
            if may_go && let Some((event, _)) = self.queue.pop_front() {
                self.state.update(self.seq, |recorded| {
                    recorded.response_size += event.len() as u64
                });
                return Ok(Some(event));
            }
            if self.upstream_ended && self.queue.is_empty() {
                return Ok(None);
            }
            tokio::select! {
                frame = self.upstream.frame(), if !self.upstream_ended => match frame {
                    None => self.upstream_ended = true,
                    Some(frame) => if let Ok(data) = frame?.into_data() {
                        self.partial.extend_from_slice(&data);
                        self.take_events();
                    },
                },
                changed = self.changes.changed() => changed?,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    fn take_events(&mut self) {
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line = self.partial.copy_to_bytes(end + 1);
            let event: Event = serde_json::from_slice(&line).unwrap_or_default();
            let Metadata { name, namespace } = event.object.metadata;
            let info = RequestInfo {
                name,
                namespace,
                ..self.info.clone()
            };
            match self.state.event_fault(&info, &event.r#type) {
                Some((_, Fault::DropEvents(_))) => {}
                Some((_, Fault::DelayEvents(_, time))) => self
                    .queue
                    .push_back((line, Held::Until(Instant::now() + time))),
                Some((rule, Fault::HoldEvents(_))) => {
                    self.queue.push_back((line, Held::By(rule)));
                }
                Some((_, Fault::GarbleEvents(_))) => {
                    let garbage = Bytes::from_static(GARBAGE);
                    self.queue
                        .extend([(garbage, Held::Nothing), (line, Held::Nothing)]);
                }
                Some((_, Fault::SplitEvents(_))) => {
                    let (mut first, rest) =
                        (BytesMut::from(&line[..end / 2]), line.slice(end / 2..));
                    first.extend_from_slice(b"\n");
                    self.queue
                        .extend([(first.freeze(), Held::Nothing), (rest, Held::Nothing)]);
                }
                Some((_, Fault::CutEvents(_))) => {
                    let half = line.slice(..end / 2);
                    self.queue
                        .extend([(half, Held::Nothing), (Bytes::new(), Held::ForEver)]);
                }
                // The others are about requests. The state gives them out only for requests.
                Some(_) | None => self.queue.push_back((line, Held::Nothing)),
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.state.close_watch(self.id);
    }
}
