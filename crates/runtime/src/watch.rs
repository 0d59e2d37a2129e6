//! One stream a kind, each with a backoff of its own: a kind that is missing or forbidden never slows another.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{Stream, StreamExt};
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject},
    core::{DynamicResourceScope, GroupVersionKind, PartialObjectMeta},
    runtime::watcher::{self, Event, watcher},
};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;
use weft_plan::Kind;

use crate::{
    backoff::Backoff,
    cache::{Cache, Change, Silence, Source},
    metrics::Metrics,
    views::Bell,
};

/// The cache with its bell: rung whenever something in it is different.
#[derive(Clone, Default)]
pub struct Shared {
    cache: Arc<Mutex<Cache>>,
    changed: Arc<Notify>,
    /// Of those who look into it, too.
    bells: Arc<Mutex<Vec<Bell>>>,
}

impl Shared {
    /// Looks into the cache. Never hold this across an await.
    pub fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is different.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Says that something is different.
    pub fn ring(&self) {
        self.changed.notify_one();
        self.bells.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(Bell::ring);
    }

    /// Rings this bell, too, whenever something is different.
    pub fn ring_also(&self, bell: Bell) {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner).push(bell);
    }
}

/// How long a list, or a page of one, may take. (Lists of kube have no limit of their own; its watches have one.)
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// What to watch.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Where it goes in the cache.
    pub source: Source,
    /// The kind.
    pub kind: Kind,
    /// One namespace, or all.
    pub namespace: Option<String>,
    /// Label selector, empty for all.
    pub labels: String,
    /// Field selector, empty for all.
    pub fields: String,
    /// Only metadata is of interest.
    pub metadata_only: bool,
}

impl Watch {
    /// Whether a cluster may lack what is watched. The resource itself is what the operator is there for.
    pub fn is_optional(&self) -> bool {
        self.kind.is_optional() && self.source != Source::Resources
    }
}

/// Where the objects of a stream go.
pub trait Sink: Send + Sync {
    /// Takes in what the stream says.
    fn take(&self, change: Change);

    /// Notes that the stream has failed, and why: the code of the API server's answer, if there was one, and the words.
    fn failed(&self, code: Option<u16>, why: String);
}

/// A stream that feeds the cache.
struct Feed<'a> {
    watch: &'a Watch,
    shared: &'a Shared,
}

/// Watches for ever, into the cache.
pub async fn run(watch: Watch, client: Client, shared: Shared, metrics: Metrics) {
    follow(&watch, client, &Feed { watch: &watch, shared: &shared }, &metrics).await;
}

/// Watches for ever, starting over with growing pauses when the stream fails.
pub async fn follow(watch: &Watch, client: Client, sink: &impl Sink, metrics: &Metrics) {
    let kind = watch.kind;
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(kind.group, kind.version, kind.kind), kind.plural);
    // Managed fields and statuses make objects large: small pages keep the peak of a list small.
    let mut config = watcher::Config::default().page_size(100);
    if !watch.labels.is_empty() {
        config = config.labels(&watch.labels);
    }
    if !watch.fields.is_empty() {
        config = config.fields(&watch.fields);
    }
    if watch.metadata_only {
        let api: Api<PartialObjectMeta<DynamicObject>> = api(watch, client, &resource);
        drain(watch, || watcher(api.clone(), config.clone()), sink, metrics).await;
    } else {
        let api: Api<DynamicObject> = api(watch, client, &resource);
        drain(watch, || watcher(api.clone(), config.clone()), sink, metrics).await;
    }
}

fn api<K>(watch: &Watch, client: Client, resource: &ApiResource) -> Api<K>
where
    K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
{
    match &watch.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, resource),
        None => Api::all_with(client, resource),
    }
}

async fn drain<K: Serialize, S: Stream<Item = watcher::Result<Event<K>>>>(
    watch: &Watch,
    begin: impl Fn() -> S,
    sink: &impl Sink,
    metrics: &Metrics,
) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));
    loop {
        let mut stream = std::pin::pin!(begin());
        let mut listing = true;
        loop {
            let next = if listing { tokio::time::timeout(LIST_TIMEOUT, stream.next()).await } else { Ok(stream.next().await) };
            let change = match next {
                Ok(Some(Ok(event))) => change(event, watch.kind),
                Ok(Some(Err(error))) => {
                    let pause = backoff.next_pause().min(longest_pause(&error, watch));
                    metrics.watch_failed(watch.kind);
                    let why = answer(&error).map_or_else(|| error.to_string(), |status| status.message.clone());
                    tracing::warn!(kind = %watch.kind, error = %why, ?pause, "watch failed; starting it again");
                    sink.failed(answer(&error).map(|status| status.code), why);
                    tokio::time::sleep(pause).await;
                    continue;
                }
                Ok(None) => break,
                Err(_) => {
                    metrics.watch_failed(watch.kind);
                    let why = format!("no answer to a list within {} s", LIST_TIMEOUT.as_secs());
                    tracing::warn!(kind = %watch.kind, error = %why, "watch failed; starting it again");
                    sink.failed(None, why);
                    break;
                }
            };
            // A stream says that it begins before it is known whether it can be read.
            let begins = matches!(change, Change::Restarted);
            listing = begins || listing && !matches!(change, Change::Complete);
            if !begins {
                backoff.reset();
            }
            sink.take(change);
        }
    }
}

impl Sink for Feed<'_> {
    fn take(&self, change: Change) {
        let mut cache = self.shared.lock();
        let allowed_again = !matches!(change, Change::Restarted) && cache.silence(&self.watch.source, None);
        if cache.feed(&self.watch.source, change) || allowed_again {
            self.shared.ring();
        }
    }

    /// Notes why a stream is not to be waited for: a missing permission lasts until somebody changes a role; and what a single workload
    /// looks at, or what not every cluster has, holds up nothing else, whatever keeps us from a first look.
    fn failed(&self, code: Option<u16>, why: String) {
        let (watch, mut cache) = (self.watch, self.shared.lock());
        let dispensable = watch.source.is_of_others() || watch.is_optional();
        let silence = match code {
            Some(404) if watch.is_optional() => Silence::NotServed,
            Some(403) => Silence::Refused(why),
            _ if dispensable && !cache.has_spoken(&watch.source) => Silence::Refused(why),
            _ => return,
        };
        if cache.silence(&watch.source, Some(silence)) {
            self.shared.ring();
        }
    }
}

fn change<K: Serialize>(event: Event<K>, kind: Kind) -> Change {
    match event {
        Event::Apply(object) => Change::Applied(value(object, kind)),
        Event::Delete(object) => Change::Deleted(value(object, kind)),
        Event::Init => Change::Restarted,
        Event::InitApply(object) => Change::Listed(value(object, kind)),
        Event::InitDone => Change::Complete,
    }
}

/// The answer of the API server, if that is what failed.
fn answer(error: &watcher::Error) -> Option<&kube::core::Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => {
            Some(status)
        }
        watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

/// What somebody has to install or to permit first is looked for more often: they wait for us then, and one request costs little.
fn longest_pause(error: &watcher::Error, watch: &Watch) -> Duration {
    match answer(error).map(|status| status.code) {
        Some(404) if !watch.is_optional() => Duration::from_secs(1),
        Some(403) => Duration::from_secs(5),
        _ => Duration::from_secs(30),
    }
}

/// The object as JSON, with its type: list items and metadata come without.
fn value<K: Serialize>(object: K, kind: Kind) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = kind.api_version().into();
    value["kind"] = kind.kind.into();
    value
}
