//! The mutating admission of the cluster: which policies and webhooks may have changed what Weft
//! applied, and when one of them has changed.
//!
//! The watches run only while an object waits for them. In most clusters nothing ever does, so the
//! operator has no connection more there. They keep no objects, so that those of others take no
//! memory: the operator lists them when it needs their rules.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use futures::future::join_all;
use serde_json::Value;
use tokio::{
    sync::{Notify, OnceCell},
    task::AbortHandle,
    time::{sleep, timeout},
};
use weft_plan::{
    Kind, Live,
    admission::{Request, candidates},
    kinds,
};

use crate::{
    api_server::cluster::{Cluster, Error},
    backoff::Backoff,
    metrics::Metrics,
    store::{
        cache::Source,
        stream::Failed,
        table::Change,
        watch::{self, Shared, Sink, Watch},
    },
};

/// The longest time that an attempt waits for the rules, since they only explain.
const PATIENCE: Duration = Duration::from_secs(1);
/// The first and the longest pause before the operator asks again which kinds are served.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The mutating policies and webhooks of a cluster. Clones share their watches.
#[derive(Clone)]
pub struct Admission(Arc<Inner>);

struct Inner {
    cluster: Cluster,
    /// The store whose reader hears of changes.
    shared: Shared,
    metrics: Metrics,
    watching: Mutex<Weak<Watching>>,
    asked: Mutex<Weak<OnceCell<Listed>>>,
}

/// All objects of mutating admission.
#[derive(Default)]
struct Listed {
    objects: Vec<Value>,
    /// False if the operator may not list one of the kinds, or could not.
    is_complete: bool,
}

/// The policies and webhooks that may have changed an object on its way.
#[derive(Default)]
pub(crate) struct Finding {
    /// The names of the policies and webhooks that the API server asks about the object.
    pub names: Vec<String>,
    /// True if these are all, and a change of one of them is what can end their effect.
    pub decide_alone: bool,
    /// The watches of all policies and webhooks. They run for as long as somebody has this.
    pub watching: Option<Arc<Watching>>,
}

impl Admission {
    /// The admission of this cluster. The reader of `shared` is notified of its changes.
    pub fn new(cluster: Cluster, shared: Shared, metrics: Metrics) -> Self {
        Self(Arc::new(Inner {
            cluster,
            shared,
            metrics,
            watching: Mutex::default(),
            asked: Mutex::default(),
        }))
    }

    /// Finds out who may have changed the object of this request, and watches them from now on.
    pub(crate) async fn find(&self, request: &Request<'_>) -> Finding {
        let watching = self.watch();
        let asked = self.ask();
        let list = || list(&self.0.cluster, &watching.sight);
        let found = match timeout(PATIENCE, asked.get_or_init(list)).await {
            Ok(listed) => {
                let found = candidates(request, &listed.objects);
                let decide_alone = listed.is_complete
                    && !found.is_empty()
                    && found.iter().all(|one| one.decides_alone);
                (found, decide_alone)
            }
            Err(_) => {
                tracing::warn!(object = %request.key.human(), "no answer about policies and webhooks");
                (Vec::new(), false)
            }
        };
        Finding {
            names: found.0.into_iter().map(|one| one.name).collect(),
            decide_alone: found.1,
            watching: Some(watching),
        }
    }

    /// The watches. They begin if nobody has them.
    fn watch(&self) -> Arc<Watching> {
        let mut watching = lock(&self.0.watching);
        if let Some(running) = watching.upgrade() {
            return running;
        }
        let Inner {
            cluster,
            shared,
            metrics,
            ..
        } = &*self.0;
        let sight = Arc::new(Sight::default());
        let watches = follow(
            Arc::clone(&sight),
            cluster.clone(),
            shared.clone(),
            metrics.clone(),
        );
        let begun = Arc::new(Watching {
            sight,
            task: tokio::spawn(watches).abort_handle(),
        });
        *watching = Arc::downgrade(&begun);
        begun
    }

    /// The place of a list. Attempts that ask at the same time share one: a policy concerns many
    /// objects, and the operator applies them at the same time.
    fn ask(&self) -> Arc<OnceCell<Listed>> {
        let mut asked = lock(&self.0.asked);
        asked.upgrade().unwrap_or_else(|| {
            let anew = Arc::new(OnceCell::new());
            *asked = Arc::downgrade(&anew);
            anew
        })
    }
}

/// The watches of all mutating policies and webhooks. They end with the last owner of this.
pub(crate) struct Watching {
    sight: Arc<Sight>,
    task: AbortHandle,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watching {
    /// When a policy or webhook changed last, or the watches began to show changes. `None` if they
    /// do not yet.
    pub fn changed(&self) -> Option<Instant> {
        lock(&self.sight.seen).changed
    }

    /// Reports whether each change of any policy or webhook is noticed.
    pub fn shows_all(&self) -> bool {
        let seen = lock(&self.sight.seen);
        seen.changed.is_some() && seen.answered.values().all(|shows| *shows)
    }
}

/// The answers of the watches so far.
#[derive(Default)]
struct Sight {
    /// The kinds, once it is known which the API server serves.
    kinds: OnceCell<Vec<Kind>>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The kinds whose watch has answered, and whether it shows their objects.
    answered: HashMap<Kind, bool>,
    changed: Option<Instant>,
}

impl Sight {
    async fn kinds(&self, cluster: &Cluster) -> Result<&Vec<Kind>, Error> {
        self.kinds.get_or_try_init(|| served(cluster)).await
    }

    /// Notes news of a kind, or that its watch shows nothing.
    fn note(&self, kind: Kind, shows: bool) {
        let all = self.kinds.get().map_or(0, Vec::len);
        let mut seen = lock(&self.seen);
        seen.answered.insert(kind, shows);
        if seen.answered.len() == all {
            seen.changed = Some(Instant::now());
        }
    }
}

/// A stream of one kind.
struct Eye<'a> {
    kind: Kind,
    sight: &'a Sight,
    shared: &'a Shared,
    refused: Notify,
    /// The uid and the generation of each object by its name. A change of its metadata alone, which
    /// keeps the generation, has no effect on what it alters.
    known: Mutex<HashMap<String, (String, i64)>>,
}

impl Eye<'_> {
    /// Notes an object. Returns false if the same is known of it.
    fn is_news(&self, object: &Value) -> bool {
        let object = Live::of(object);
        let state = (object.uid().to_owned(), object.generation());
        let before = lock(&self.known).insert(object.name().to_owned(), state.clone());
        before != Some(state)
    }

    fn note(&self, shows: bool) {
        self.sight.note(self.kind, shows);
        self.shared.notify();
    }
}

impl Sink for Eye<'_> {
    fn take(&self, change: Change) {
        match change {
            Change::Restarted => lock(&self.known).clear(),
            Change::Listed(object) => drop(self.is_news(&object)),
            Change::Rewound => self.shared.rewind().signal(),
            Change::Applied(object) => {
                if self.is_news(&object) {
                    self.note(true);
                }
            }
            Change::Deleted(object) => {
                lock(&self.known).remove(Live::of(&object).name());
                self.note(true);
            }
            // A list comes after a watch that broke, and so may hide a change.
            Change::Complete(_) => self.note(true),
        }
    }

    /// Gives up what the operator may not watch, or the API server does not serve any more. Objects
    /// are then tried again after pauses.
    fn failed(&self, failed: Failed) {
        if matches!(failed.code, Some(403 | 404)) && !failed.passing {
            self.note(false);
            self.refused.notify_one();
        }
    }

    fn works(&self) {}
}

/// Watches all kinds that the API server serves.
async fn follow(sight: Arc<Sight>, cluster: Cluster, shared: Shared, metrics: Metrics) {
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
    let kinds = loop {
        match sight.kinds(&cluster).await {
            Ok(kinds) => break kinds,
            Err(error) => {
                tracing::warn!(%error, "failed to find out which kinds of admission are served");
                sleep(backoff.next_pause()).await;
            }
        }
    };
    let watches = kinds
        .iter()
        .map(|kind| follow_one(*kind, &sight, &cluster, &shared, &metrics));
    join_all(watches).await;
}

/// Watches one kind until that is refused.
async fn follow_one(
    kind: Kind,
    sight: &Sight,
    cluster: &Cluster,
    shared: &Shared,
    metrics: &Metrics,
) {
    let watch = Watch {
        source: Source::Selected(kind, None, String::new()),
        kind,
        namespace: None,
        labels: String::new(),
        fields: String::new(),
        metadata_only: true,
    };
    let eye = Eye {
        kind,
        sight,
        shared,
        refused: Notify::new(),
        known: Mutex::default(),
    };
    tokio::select! {
        () = watch::follow(&watch, cluster.client().clone(), &eye, metrics) => {}
        () = eye.refused.notified() => {}
    }
}

/// Returns the kinds of mutating admission that the API server serves.
async fn served(cluster: &Cluster) -> Result<Vec<Kind>, Error> {
    let mut served = vec![kinds::MUTATING_WEBHOOK_CONFIGURATION];
    for version in kinds::MUTATING_ADMISSION {
        if cluster.serves(version[0]).await? {
            served.extend(version);
            break;
        }
    }
    Ok(served)
}

async fn list(cluster: &Cluster, sight: &Sight) -> Listed {
    let kinds = match sight.kinds(cluster).await {
        Ok(kinds) => kinds,
        Err(error) => {
            tracing::warn!(%error, "failed to find out which kinds of admission are served");
            return Listed::default();
        }
    };
    let lists = join_all(kinds.iter().map(|kind| cluster.list(*kind, None, ""))).await;
    let mut listed = Listed {
        objects: Vec::new(),
        is_complete: true,
    };
    for (kind, list) in kinds.iter().zip(lists) {
        match list {
            Ok(objects) => listed.objects.extend(objects),
            Err(error) => {
                tracing::warn!(%kind, %error, "failed to list");
                listed.is_complete = false;
            }
        }
    }
    listed
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "admission_tests.rs"]
pub(crate) mod tests;
