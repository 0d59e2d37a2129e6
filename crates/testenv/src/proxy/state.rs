//! The state of the proxy: the record of requests, the faults, the hooks and the open watches.
//! Tests and connections share it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::watch;

use super::fault::{Fault, Match};
use super::request_info::RequestInfo;

/// The reason why a connection is cut.
pub(super) type Error = Box<dyn std::error::Error + Send + Sync>;

/// A request as the proxy saw it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Position in the order of arrival, from 1. Goes on counting after
    /// [`Proxy::clear`](super::Proxy::clear).
    pub seq: u64,
    /// Time of arrival.
    pub time: Timestamp,
    /// User and target of the request.
    pub info: RequestInfo,
    /// Body of the request. Empty unless it is a write or a dry run.
    pub body: Bytes,
    /// Bytes of the request's body.
    pub request_size: usize,
    /// Sent to the API server, which writes the same in its audit log.
    pub audit_id: String,
    /// Was it forwarded to the API server?
    pub forwarded: bool,
    /// HTTP status of the answer, the API server's or an injected one. None if there was none
    /// (yet).
    pub code: Option<u16>,
    /// Warnings of the API server, one for each header `Warning` of its answer, as
    /// `299 - "the text"` (RFC 7234, section 5.5).
    pub warnings: Vec<String>,
    /// Was the answer handed on to the client?
    pub delivered: bool,
    /// Bytes of the answer's body so far, as handed on.
    pub response_size: u64,
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before the write reaches the API server, which it then never does.
    Before,
    /// After the API server answered and before the client learns of it, which it then never does.
    After,
}

pub(super) type Hook = Box<dyn FnOnce() + Send>;

/// How a running watch is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Expired,
    Closed,
}

/// The treatment of a request.
pub(super) enum Decision {
    Forward,
    Cut,
    /// A hook is about to kill the client: wait for a change, then ask again.
    Wait,
    Fault(RuleId, Fault),
    Hook(When, Hook),
}

pub(super) type RuleId = u64;

struct Rule {
    selector: Match,
    fault: Fault,
    /// Requests or events that the selector selected.
    seen: usize,
    /// Those of them that the fault happened to.
    hits: usize,
}

struct PendingHook {
    selector: Match,
    nth: usize,
    when: When,
    seen: usize,
    hook: Hook,
}

#[derive(Default)]
struct Inner {
    last_id: u64,
    last_seq: u64,
    requests: BTreeMap<u64, Recorded>,
    rules: BTreeMap<RuleId, Rule>,
    /// Rules that were removed keep their count of hits.
    past_hits: BTreeMap<RuleId, usize>,
    hooks: Vec<PendingHook>,
    /// By user: the last connection of a process that a hook has killed. None while the kill is
    /// under way.
    killed: BTreeMap<String, Option<u64>>,
    connections: u64,
    watches: BTreeMap<u64, (RequestInfo, Option<End>)>,
}

pub(super) struct State {
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            inner: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something and wakes everybody who waits for a change.
    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.send_replace(());
        result
    }

    /// Learns of every change from now on.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    // Connections and requests

    pub(super) fn new_connection(&self) -> u64 {
        self.change(|inner| {
            inner.connections += 1;
            inner.connections
        })
    }

    pub(super) fn record(&self, info: RequestInfo, body: Bytes, audit_id: String) -> u64 {
        self.change(|inner| {
            inner.last_seq += 1;
            let (seq, request_size) = (inner.last_seq, body.len());
            let time = Timestamp::now();
            let recorded = Recorded {
                seq,
                time,
                info,
                body,
                request_size,
                audit_id,
                forwarded: false,
                code: None,
                warnings: Vec::new(),
                delivered: false,
                response_size: 0,
            };
            inner.requests.insert(seq, recorded);
            seq
        })
    }

    pub(super) fn update(&self, seq: u64, update: impl FnOnce(&mut Recorded)) {
        self.change(|inner| inner.requests.get_mut(&seq).map(update));
    }

    pub(super) fn requests(&self) -> Vec<Recorded> {
        self.lock().requests.values().cloned().collect()
    }

    pub(super) fn clear(&self) {
        self.change(|inner| inner.requests.clear());
    }

    /// Decides what becomes of a request, and counts it. Faults come first (unless one has already
    /// delayed this request), the one set first before later ones. A hook counts only writes that
    /// would be forwarded.
    pub(super) fn decide(&self, connection: u64, info: &RequestInfo, delayed: bool) -> Decision {
        self.change(|inner| {
            match inner.killed.get(&info.user) {
                None => {}
                Some(None) => return Decision::Wait,
                Some(Some(last)) if connection <= *last => return Decision::Cut,
                Some(Some(_)) => {}
            }
            let candidates = inner
                .rules
                .iter_mut()
                .filter(|(_, rule)| !delayed && rule.fault.events().is_none());
            for (id, rule) in candidates {
                if rule.hit(info) {
                    return Decision::Fault(*id, rule.fault.clone());
                }
            }
            let decision = inner.count_hooks(info);
            if matches!(decision, Decision::Hook(..)) {
                // Nothing else of this process may pass until the hook has run.
                inner.killed.insert(info.user.clone(), None);
            }
            decision
        })
    }

    /// The hook has run: nothing more comes from the connections that this user has now, new ones
    /// are of a new process.
    pub(super) fn killed(&self, user: &str) {
        self.change(|inner| {
            inner
                .killed
                .insert(user.to_owned(), Some(inner.connections))
        });
    }

    // Faults and hooks

    pub(super) fn add_rule(&self, selector: Match, fault: Fault) -> RuleId {
        self.change(|inner| {
            inner.last_id += 1;
            inner.rules.insert(
                inner.last_id,
                Rule {
                    selector,
                    fault,
                    seen: 0,
                    hits: 0,
                },
            );
            inner.last_id
        })
    }

    pub(super) fn remove_rule(&self, id: RuleId) {
        self.change(|inner| {
            if let Some(rule) = inner.rules.remove(&id) {
                inner.past_hits.insert(id, rule.hits);
            }
        });
    }

    pub(super) fn remove_all_rules(&self) {
        let ids: Vec<_> = self.lock().rules.keys().copied().collect();
        ids.into_iter().for_each(|id| self.remove_rule(id));
        self.change(|inner| inner.hooks.clear());
    }

    pub(super) fn has_rule(&self, id: RuleId) -> bool {
        self.lock().rules.contains_key(&id)
    }

    pub(super) fn hits(&self, id: RuleId) -> usize {
        let inner = self.lock();
        inner
            .rules
            .get(&id)
            .map(|rule| rule.hits)
            .or_else(|| inner.past_hits.get(&id).copied())
            .unwrap_or_default()
    }

    pub(super) fn add_hook(&self, selector: Match, nth: usize, when: When, hook: Hook) {
        self.change(|inner| {
            inner.hooks.push(PendingHook {
                selector,
                nth,
                when,
                seen: 0,
                hook,
            })
        });
    }

    // Watches

    pub(super) fn open_watch(&self, info: &RequestInfo) -> u64 {
        self.change(|inner| {
            inner.last_id += 1;
            inner.watches.insert(inner.last_id, (info.clone(), None));
            inner.last_id
        })
    }

    pub(super) fn close_watch(&self, id: u64) {
        self.change(|inner| inner.watches.remove(&id));
    }

    pub(super) fn end_of_watch(&self, id: u64) -> Option<End> {
        self.lock().watches.get(&id).and_then(|(_, end)| *end)
    }

    pub(super) fn end_watches(&self, selector: &Match, how: End) -> usize {
        self.change(|inner| {
            let open = inner
                .watches
                .values_mut()
                .filter(|(info, end)| end.is_none() && selector.selects(info));
            open.map(|(_, end)| *end = Some(how)).count()
        })
    }

    pub(super) fn count_watches(&self, selector: &Match) -> usize {
        self.lock()
            .watches
            .values()
            .filter(|(info, end)| end.is_none() && selector.selects(info))
            .count()
    }

    /// The fault for an event of a watch. `info` has the namespace and name of the event's object.
    pub(super) fn event_fault(
        &self,
        info: &RequestInfo,
        event_type: &str,
    ) -> Option<(RuleId, Fault)> {
        self.change(|inner| {
            let mut concerned = inner.rules.iter_mut().filter(|(_, rule)| {
                let events = rule.fault.events();
                events.is_some_and(|events| events.include(event_type))
            });
            concerned.find_map(|(id, rule)| rule.hit(info).then(|| (*id, rule.fault.clone())))
        })
    }
}

impl Rule {
    fn hit(&mut self, info: &RequestInfo) -> bool {
        if !self.selector.selects(info) {
            return false;
        }
        self.seen += 1;
        let hit = self.selector.counts(self.seen);
        self.hits += usize::from(hit);
        hit
    }
}

impl Inner {
    fn count_hooks(&mut self, info: &RequestInfo) -> Decision {
        let mut due = None;
        for (index, pending) in self.hooks.iter_mut().enumerate() {
            if pending.selector.selects(info) {
                pending.seen += 1;
                if pending.seen == pending.nth {
                    due = due.or(Some(index));
                }
            }
        }
        match due {
            Some(index) => {
                let PendingHook { when, hook, .. } = self.hooks.swap_remove(index);
                Decision::Hook(when, hook)
            }
            None => Decision::Forward,
        }
    }
}
