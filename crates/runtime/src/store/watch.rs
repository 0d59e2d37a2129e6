//! One stream a kind, each with a backoff of its own: a kind that is missing or forbidden never
//! slows another.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject},
    core::{DynamicResourceScope, GroupVersionKind, PartialObjectMeta},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::sync::Notify;
use weft_plan::{Kind, kinds};

use crate::{
    metrics::Metrics,
    store::{
        cache::{Cache, Silence, Source},
        notifier::Notifier,
        rewind::Rewind,
        stream::{self, Failed, News, Selection},
        table::Change,
    },
};

/// The store, with a notification of each change.
#[derive(Clone, Default)]
pub struct Shared {
    cache: Arc<Mutex<Cache>>,
    changed: Arc<Notify>,
    /// Of those who look into it, too.
    notifiers: Arc<Mutex<Vec<Notifier>>>,
    rewind: Rewind,
}

impl Shared {
    /// An empty cache whose streams signal this when the API server's data has gone back in time.
    #[must_use]
    pub fn with_rewind(rewind: Rewind) -> Self {
        Self {
            rewind,
            ..Self::default()
        }
    }

    /// The signal that the API server's data has gone back in time.
    pub fn rewind(&self) -> &Rewind {
        &self.rewind
    }

    /// Forgets everything that was seen, and who wants to know of changes.
    pub fn start_over(&self) {
        self.lock().start_over();
        self.notifiers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Looks into the cache. Never hold this across an await.
    pub fn lock(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is different.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Says that something is different.
    pub fn notify(&self) {
        self.changed.notify_one();
        self.notifiers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .for_each(Notifier::notify);
    }

    /// Notifies this one of each change as well.
    pub fn also_notify(&self, notifier: Notifier) {
        self.notifiers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(notifier);
    }
}

/// A watch of the objects of one kind.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Where it goes in the cache.
    pub source: Source,
    /// The kind of the objects.
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
    /// The watch of the definition of a kind of Weft's.
    pub fn of_definition(kind: Kind) -> Self {
        Self {
            source: Source::Definition(kind),
            kind: kinds::CUSTOM_RESOURCE_DEFINITION,
            namespace: None,
            labels: String::new(),
            fields: format!("metadata.name={}", kind.definition()),
            metadata_only: false,
        }
    }

    /// How many objects a page of a list has. Managed fields and statuses make objects large, and
    /// whoever may write objects in a namespace can make those that users fill as large as the API
    /// server allows (1.5 MB): few of these at once.
    fn page(&self) -> u32 {
        match self.kind {
            _ if self.metadata_only => 100,
            kinds::CONFIG_MAP | kinds::SECRET | kinds::NETWORK_ATTACHMENT_DEFINITION => 10,
            kinds::POD => 20,
            _ => 100,
        }
    }

    /// Reports whether a cluster may lack the kind. The kind of the resource itself must exist.
    pub fn is_optional(&self) -> bool {
        self.kind.is_optional() && self.source != Source::Resources
    }

    /// Reports whether nothing has to wait for this watch, because a cluster may lack the kind: a
    /// kind of others, or one of Kubernetes itself that versions before 1.33 do not serve.
    fn is_dispensable(&self) -> bool {
        self.is_optional() || self.kind == kinds::SERVICE_CIDR
    }
}

/// Where the objects of a stream go.
pub trait Sink: Send + Sync {
    /// Takes in a change.
    fn take(&self, change: Change);

    /// Notes that the stream has failed.
    fn failed(&self, failed: Failed);

    /// Notes that the stream works again after a failure.
    fn works(&self);
}

/// A stream that feeds the cache.
struct Feed<'a> {
    watch: &'a Watch,
    shared: &'a Shared,
}

/// Watches for ever, into the cache.
pub async fn run(watch: Watch, client: Client, shared: Shared, metrics: Metrics) {
    follow(
        &watch,
        client,
        &Feed {
            watch: &watch,
            shared: &shared,
        },
        &metrics,
    )
    .await;
}

/// Watches for ever, starting over with growing pauses when the stream fails.
pub async fn follow(watch: &Watch, client: Client, sink: &impl Sink, metrics: &Metrics) {
    let kind = watch.kind;
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(kind.group, kind.version, kind.kind),
        kind.plural,
    );
    if watch.metadata_only {
        let api: Api<PartialObjectMeta<DynamicObject>> = api(watch, client, &resource);
        feed(watch, api, sink, metrics).await;
    } else {
        let api: Api<DynamicObject> = api(watch, client, &resource);
        feed(watch, api, sink, metrics).await;
    }
}

async fn feed<K>(watch: &Watch, api: Api<K>, sink: &impl Sink, metrics: &Metrics)
where
    K: Resource + Clone + Serialize + DeserializeOwned + Debug,
{
    let kind = watch.kind;
    let selection = Selection {
        labels: watch.labels.clone(),
        fields: watch.fields.clone(),
        page: watch.page(),
        list_after_break: false,
        // A definition that is missing is waited for. Its arrival is noticed by another watch where
        // the cluster may lack it. A kind of Kubernetes itself arrives with another API server.
        longest_absence: Duration::from_secs(if watch.is_dispensable() { 30 } else { 1 }),
    };
    let never = stream::follow(api, selection, |news| match news {
        News::Rewound => sink.take(Change::Rewound),
        News::Restarted => sink.take(Change::Restarted),
        News::Listed(object) => sink.take(Change::Listed(value(object, kind))),
        News::Complete(at) => sink.take(Change::Complete(at)),
        News::Applied(object) => sink.take(Change::Applied(value(object, kind))),
        News::Deleted(object) => sink.take(Change::Deleted(value(object, kind))),
        News::Works => sink.works(),
        News::Failed(failed) => {
            metrics.watch_failed(kind);
            tracing::warn!(%kind, namespace = watch.namespace, error = failed.why, pause = ?failed.pause, "watch failed; starting it again");
            sink.failed(failed);
        }
    });
    match never.await {}
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

impl Sink for Feed<'_> {
    fn take(&self, change: Change) {
        if matches!(change, Change::Rewound) {
            self.shared.rewind.signal();
        }
        if self.shared.lock().feed(&self.watch.source, change) {
            self.shared.notify();
        }
    }

    /// Notes why a stream is not to be waited for: a missing permission lasts until somebody
    /// changes a role, and what a single workload looks at, or what not every cluster has, holds up
    /// nothing else, whatever keeps us from a first look.
    fn failed(&self, failed: Failed) {
        let (watch, mut cache) = (self.watch, self.shared.lock());
        let dispensable = watch.source.is_of_others() || watch.is_dispensable();
        let silence = match failed.code {
            Some(404) if watch.is_dispensable() => Silence::NotServed,
            // The store is not older than it would be if the API server were away.
            Some(403 | 410) if failed.passing => return,
            Some(403) => Silence::Refused(failed.why),
            _ if dispensable && !cache.has_spoken(&watch.source) => Silence::Refused(failed.why),
            _ => return,
        };
        if cache.silence(&watch.source, Some(silence)) {
            self.shared.notify();
        }
    }

    fn works(&self) {
        if self.shared.lock().silence(&self.watch.source, None) {
            self.shared.notify();
        }
    }
}

/// The object as JSON, with its type: list items and metadata come without.
fn value<K: Serialize>(object: K, kind: Kind) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = kind.api_version().into();
    value["kind"] = kind.kind.into();
    value
}
