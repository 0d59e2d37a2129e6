//! Which requests go wrong, and how.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use super::request_info::RequestInfo;

/// Selects requests. All that is given must match. Nothing given matches every request.
#[derive(Clone, Debug, Default)]
pub struct Match {
    user: Option<String>,
    verb: Option<String>,
    group: Option<String>,
    resource: Option<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    writes: Option<Writes>,
    /// The first of the matching requests that counts, from 1.
    first: usize,
    /// Number of requests that the fault affects.
    limit: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    All,
    OfWork,
}

impl Match {
    /// Every request.
    pub fn any() -> Self {
        Self {
            first: 1,
            ..Self::default()
        }
    }

    /// Requests of this user, as `system:serviceaccount:<namespace>:<name>`.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.into());
        self
    }

    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    #[must_use]
    pub fn verb(mut self, verb: &str) -> Self {
        self.verb = Some(verb.into());
        self
    }

    /// API group. Empty is the core group.
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Plural resource name, with any subresource or none.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Subresource. Empty means requests without one.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.into());
        self
    }

    /// Namespace of the request. Of the object for events of a watch.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Name of the object.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only writes, without those of Leases and Events, which a controller sends besides its work.
    #[must_use]
    pub fn writes(mut self) -> Self {
        self.writes = Some(Writes::OfWork);
        self
    }

    /// Only writes, those of Leases and Events included.
    #[must_use]
    pub fn all_writes(mut self) -> Self {
        self.writes = Some(Writes::All);
        self
    }

    /// Of the matching requests since the fault was set, only the n-th, from 1.
    #[must_use]
    pub fn nth(mut self, n: usize) -> Self {
        (self.first, self.limit) = (n, Some(1));
        self
    }

    /// Of the matching requests since the fault was set, the first `n`.
    #[must_use]
    pub fn times(mut self, n: usize) -> Self {
        (self.first, self.limit) = (1, Some(n));
        self
    }

    pub(super) fn or_writes(mut self) -> Self {
        self.writes = self.writes.or(Some(Writes::OfWork));
        self
    }

    /// Does it select this request, its place in the order aside?
    pub fn selects(&self, info: &RequestInfo) -> bool {
        let is = |wanted: &Option<String>, actual: &String| {
            wanted.as_ref().is_none_or(|wanted| wanted == actual)
        };
        is(&self.user, &info.user)
            && is(&self.verb, &info.verb)
            && is(&self.group, &info.group)
            && is(&self.resource, &info.resource)
            && is(&self.subresource, &info.subresource)
            && is(&self.namespace, &info.namespace)
            && is(&self.name, &info.name)
            && match self.writes {
                None => true,
                Some(Writes::All) => info.is_write(),
                Some(Writes::OfWork) => info.is_write() && !info.is_housekeeping(),
            }
    }

    /// Is the n-th matching request (from 1) one that counts?
    pub(super) fn counts(&self, n: usize) -> bool {
        n >= self.first && self.limit.is_none_or(|limit| n < self.first + limit)
    }
}

/// A fault in a request, or in the events of a watch.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Answered with this status and a proper `Status` body. Never reaches the API server.
    Reply {
        /// HTTP status: 409, 410, 429, 500, 503, 504 …
        code: u16,
        /// `Retry-After` in seconds.
        retry_after: Option<u32>,
    },
    /// The connection is closed at once. The request never reaches the API server.
    CutBefore,
    /// The API server gets and answers it. The connection is closed instead of handing on the
    /// answer.
    CutAfter,
    /// Forwarded this much later.
    Delay(Duration),
    /// Forwarded at once, and answered this much later: what the request does is done, and the
    /// client does not know it yet.
    DelayAnswer(Duration),
    /// Forwarded when the fault is removed.
    Hold,
    /// A watch begins and at once gets the event ERROR with code 410, as with a resourceVersion
    /// that is too old.
    WatchExpired,
    /// These events of watches are swallowed, of running ones too.
    DropEvents(Events),
    /// Watches, running ones too, stand still from the first of these events on until the fault is
    /// removed. Then all comes in its order. (Later events wait too, as on a slow connection: a
    /// stream never changes its order.)
    HoldEvents(Events),
    /// These events of watches come this much later, each after the ones before it.
    DelayEvents(Events, Duration),
    /// Answered with this. Never reaches the API server.
    Stranger(Stranger),
    /// The API server gets and answers it, and the body of the answer ends in its middle, together
    /// with the connection. A watch has no middle: see [`Fault::CutEvents`].
    HalfBody(Framing),
    /// Before each of these events of watches comes a line that is no event.
    GarbleEvents(Events),
    /// Each of these events of watches comes in two lines.
    SplitEvents(Events),
    /// The connection of a watch ends in the middle of one of these events.
    CutEvents(Events),
}

/// How the end of a body is known (RFC 9112, section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By `Content-Length`.
    Length,
    /// By a last chunk.
    Chunked,
}

/// An answer that is not the API server's, as of a proxy on the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// 200 with a page.
    Page,
    /// 200 without a body.
    Empty,
    /// 200 with bytes that are no text.
    Binary,
    /// 200 with JSON that is no object.
    Null,
    /// 200 with an object that has no fields.
    Object,
    /// 200 with a `Status` that says that all went well.
    Success,
    /// 200 with a list as `kubectl get -o json` prints it where there is nothing.
    EmptyList,
    /// 404 with a page.
    NotFound,
    /// 502 with a page.
    BadGateway,
}

impl Stranger {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Page,
        Self::Empty,
        Self::Binary,
        Self::Null,
        Self::Object,
        Self::Success,
        Self::EmptyList,
        Self::NotFound,
        Self::BadGateway,
    ];

    /// The HTTP status.
    pub fn code(self) -> u16 {
        match self {
            Self::NotFound => 404,
            Self::BadGateway => 502,
            _ => 200,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Page | Self::NotFound | Self::BadGateway => "text/html",
            _ => "application/json",
        }
    }

    pub(super) fn body(self) -> &'static [u8] {
        match self {
            Self::Page => b"<!DOCTYPE html>\n<html><body>Please log in</body></html>\n",
            Self::Empty => b"",
            Self::Binary => &[0x1f, 0x8b, 0xff, 0x00, 0x0a, 0xfe],
            Self::Null => b"null",
            Self::Object => b"{}",
            Self::Success => {
                br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}"#
            }
            Self::EmptyList => {
                br#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":""},"items":[]}"#
            }
            Self::NotFound => b"<html><body>default backend - 404</body></html>\n",
            Self::BadGateway => b"<html><body>502 Bad Gateway</body></html>\n",
        }
    }
}

/// Types of watch events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// ADDED, MODIFIED and DELETED. BOOKMARKs go on in any case.
    All,
    /// ADDED only.
    Added,
    /// MODIFIED only.
    Modified,
    /// DELETED only.
    Deleted,
}

impl Events {
    pub(super) fn include(self, event_type: &str) -> bool {
        match self {
            Self::All => matches!(event_type, "ADDED" | "MODIFIED" | "DELETED"),
            Self::Added => event_type == "ADDED",
            Self::Modified => event_type == "MODIFIED",
            Self::Deleted => event_type == "DELETED",
        }
    }
}

impl Fault {
    /// Answered with this HTTP status.
    pub fn status(code: u16) -> Self {
        Self::Reply {
            code,
            retry_after: None,
        }
    }

    /// Answered with 429 and `Retry-After` in seconds.
    pub fn too_many_requests(retry_after: u32) -> Self {
        Self::Reply {
            code: 429,
            retry_after: Some(retry_after),
        }
    }

    /// The events that it is about. None if it is about requests.
    pub(super) fn events(&self) -> Option<Events> {
        match self {
            Self::DropEvents(events)
            | Self::HoldEvents(events)
            | Self::DelayEvents(events, _)
            | Self::GarbleEvents(events)
            | Self::SplitEvents(events)
            | Self::CutEvents(events) => Some(*events),
            _ => None,
        }
    }
}

/// A `Status` object as the API server would send it, so that clients see the reason they decide
/// by.
pub(super) fn status_body(code: u16) -> String {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    };
    let text = StatusCode::from_u16(code)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or_default();
    let message = format!("fault injected by the test: {code} {text}");
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code
    })
    .to_string()
}

/// The last event of a watch whose resourceVersion is too old.
pub(super) fn expired_event() -> String {
    format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", status_body(410))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_and_the_first_few_count() {
        let counted = |selector: Match| (1..=5).filter(|n| selector.counts(*n)).collect::<Vec<_>>();
        assert_eq!(counted(Match::any()), [1, 2, 3, 4, 5]);
        assert_eq!(counted(Match::any().nth(3)), [3]);
        assert_eq!(counted(Match::any().times(2)), [1, 2]);
    }

    #[test]
    fn writes_leave_out_housekeeping_unless_asked_for() {
        let lease = RequestInfo {
            verb: "update".into(),
            group: "coordination.k8s.io".into(),
            resource: "leases".into(),
            ..Default::default()
        };
        assert!(!Match::any().writes().selects(&lease));
        assert!(Match::any().all_writes().selects(&lease));
        assert!(!Match::any().user("somebody").selects(&lease));
    }
}
