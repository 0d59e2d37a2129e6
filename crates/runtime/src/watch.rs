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
    cache::{Cache, Change, Source},
    metrics::Metrics,
};

/// The cache with its bell: rung whenever something in it is different.
#[derive(Clone, Default)]
pub struct Shared {
    cache: Arc<Mutex<Cache>>,
    changed: Arc<Notify>,
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
    }
}

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

/// Watches for ever, starting over with growing pauses when the stream fails.
pub async fn run(watch: Watch, client: Client, shared: Shared, metrics: Metrics) {
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
        let api: Api<PartialObjectMeta<DynamicObject>> = api(&watch, client, &resource);
        drain(watch, watcher(api, config), &shared, &metrics).await;
    } else {
        let api: Api<DynamicObject> = api(&watch, client, &resource);
        drain(watch, watcher(api, config), &shared, &metrics).await;
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

async fn drain<K: Serialize>(watch: Watch, stream: impl Stream<Item = watcher::Result<Event<K>>>, shared: &Shared, metrics: &Metrics) {
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));
    let mut stream = std::pin::pin!(stream);
    while let Some(event) = stream.next().await {
        let change = match event {
            Ok(Event::Apply(object)) => Change::Applied(value(object, watch.kind)),
            Ok(Event::Delete(object)) => Change::Deleted(value(object, watch.kind)),
            Ok(Event::Init) => Change::Restarted,
            Ok(Event::InitApply(object)) => Change::Listed(value(object, watch.kind)),
            Ok(Event::InitDone) => Change::Complete,
            Err(error) => {
                let pause = backoff.next_pause();
                metrics.watch_failed(watch.kind);
                tracing::warn!(kind = %watch.kind, %error, ?pause, "watch failed; starting it again");
                if let Some(why) = refusal(&error)
                    && shared.lock().refuse(&watch.source, Some(why))
                {
                    shared.ring();
                }
                tokio::time::sleep(pause).await;
                continue;
            }
        };
        backoff.reset();
        // A stream begins with `Restarted` before it is known whether it may be read.
        let may_read = !matches!(change, Change::Restarted);
        let mut cache = shared.lock();
        let allowed_again = may_read && cache.refuse(&watch.source, None);
        if cache.feed(&watch.source, change) || allowed_again {
            shared.ring();
        }
    }
}

/// What the API server said if it was no for lack of permission: that lasts until somebody changes a role.
fn refusal(error: &watcher::Error) -> Option<String> {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status,
        watcher::Error::WatchError(status) => status,
        _ => return None,
    };
    status.is_forbidden().then(|| status.message.clone())
}

/// The object as JSON, with its type: list items and metadata come without.
fn value<K: Serialize>(object: K, kind: Kind) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = kind.api_version().into();
    value["kind"] = kind.kind.into();
    value
}
