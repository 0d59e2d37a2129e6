//! The events of the cluster in their order: resourceVersions are numbers of one sequence for the
//! whole of etcd, so they order writes of different kinds.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::TryStreamExt;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::task::JoinSet;
use weft_plan::{Kind, OWNER_LABEL, kinds};

use weft_system_tests::{Cluster, NAMESPACE, condition, wait_until};

#[derive(Clone, Debug, PartialEq)]
enum Event {
    /// An object of Weft's is there.
    There(String),
    Gone(String),
    /// The resource is written, and claims that all is well with its latest generation.
    Claim,
    /// The resource is written, and does not.
    NoClaim,
}

/// Everything that happens to the resource and to Weft's objects, by watches of the test's own,
/// straight from the API server.
pub struct History {
    /// Earlier writes are not in it.
    since: u64,
    events: Arc<Mutex<BTreeMap<u64, Event>>>,
    /// How often a watch has come to its end, and another one has begun there.
    renewed: Arc<AtomicUsize>,
    /// The watches, which have no end. It ends them when it goes.
    watches: Mutex<JoinSet<()>>,
}

impl History {
    /// From now on, of these kinds.
    pub async fn begin(cluster: &Cluster, of: &[Kind]) -> Self {
        Self::begin_with(cluster, of, &WatchParams::default()).await
    }

    /// The same by watches with these parameters.
    pub async fn begin_with(cluster: &Cluster, of: &[Kind], params: &WatchParams) -> Self {
        let events: Arc<Mutex<BTreeMap<u64, Event>>> = Arc::default();
        let renewed: Arc<AtomicUsize> = Arc::default();
        let (mut watches, mut begun) = (JoinSet::new(), 0);
        for kind in of.iter().copied().chain([kinds::NETWORK_ADDONS_CONFIG]) {
            let api = cluster.api(kind, NAMESPACE);
            let labels = if kind == kinds::NETWORK_ADDONS_CONFIG {
                ""
            } else {
                OWNER_LABEL
            };
            let since = api
                .list(&ListParams::default().labels(labels))
                .await
                .unwrap()
                .metadata
                .resource_version
                .unwrap();
            begun = number(&Value::from(since.as_str()));
            let params = params.clone().labels(labels);
            let (events, renewed) = (events.clone(), renewed.clone());
            watches.spawn(async move {
                let mut version = since;
                // The API server ends a watch after its time. The next one begins there.
                loop {
                    let stream = api.watch(&params, &version).await.unwrap();
                    let mut stream = std::pin::pin!(stream);
                    while let Some(event) = stream.try_next().await.unwrap() {
                        version = version_of(&event).unwrap_or(version);
                        if let Some((version, event)) = read(event, kind) {
                            events.lock().unwrap().insert(version, event);
                        }
                    }
                    renewed.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // The resource's own: it is the last.
        Self {
            since: begun,
            events,
            renewed,
            watches: Mutex::new(watches),
        }
    }

    /// Its events by their versions. Fails the test if a watch has ended: events would be missing.
    fn events(&self) -> MutexGuard<'_, BTreeMap<u64, Event>> {
        if let Some(ended) = self.watches.lock().unwrap().try_join_next() {
            panic!("a watch of the test's own has ended: {ended:?}");
        }
        self.events.lock().unwrap()
    }

    /// Waits until it has learned of everything up to this write of the resource. If all was put
    /// right before anything else could be said of it, that is an old one.
    pub async fn wait_for(&self, object: &Value) {
        let version = number(&object["metadata"]["resourceVersion"]);
        wait_until("the history knows this write", async || {
            if version <= self.since || self.events().contains_key(&version) {
                Ok(())
            } else {
                Err(version.to_string())
            }
        })
        .await;
    }

    /// Waits until its watches have ended so often.
    pub async fn wait_renewed(&self, times: usize) {
        wait_until("the watches go on", async || {
            // Fails at once if one has ended for good.
            drop(self.events());
            let renewed = self.renewed.load(Ordering::Relaxed);
            (renewed >= times).then_some(()).ok_or(renewed.to_string())
        })
        .await;
    }

    /// Fails if the resource was ever written with the claim that all is well while one of Weft's
    /// objects was gone. (A test that uses this never changes which objects there should be.)
    pub async fn assert_honest(&self, when: &str) {
        // A watch of another kind may be behind that of the resource. A real lie stays one.
        wait_until(&format!("{when}: status is honest"), async || {
            self.lie().map_or(Ok(()), Err)
        })
        .await;
    }

    /// The first such claim.
    fn lie(&self) -> Option<String> {
        let mut gone: BTreeMap<String, u64> = BTreeMap::new();
        for (version, event) in self.events().iter() {
            match event {
                Event::There(object) => drop(gone.remove(object)),
                Event::Gone(object) => drop(gone.insert(object.clone(), *version)),
                Event::Claim if !gone.is_empty() => {
                    return Some(format!(
                        "at {version} status says Available, while these were gone: {gone:?}"
                    ));
                }
                Event::Claim | Event::NoClaim => {}
            }
        }
        None
    }

    /// How often the resource was written with that claim.
    pub fn claims(&self) -> usize {
        self.events()
            .values()
            .filter(|event| **event == Event::Claim)
            .count()
    }
}

/// The resourceVersion from which a watch continues that has seen this event last.
fn version_of(event: &WatchEvent<DynamicObject>) -> Option<String> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            object.metadata.resource_version.clone()
        }
        WatchEvent::Bookmark(bookmark) => Some(bookmark.metadata.resource_version.clone()),
        WatchEvent::Error(_) => None,
    }
}

fn read(event: WatchEvent<DynamicObject>, kind: Kind) -> Option<(u64, Event)> {
    let (object, there) = match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, true),
        WatchEvent::Deleted(object) => (object, false),
        WatchEvent::Bookmark(_) => return None,
        WatchEvent::Error(error) => panic!("a watch of the test's own ends: {error}"),
    };
    let object = serde_json::to_value(object).unwrap();
    let version = number(&object["metadata"]["resourceVersion"]);
    let event = if kind == kinds::NETWORK_ADDONS_CONFIG {
        // Somebody's change of the specification leaves the old claim there, about an older
        // generation.
        let latest = object["status"]["observedGeneration"] == object["metadata"]["generation"];
        if latest && condition(&object["status"], "Available")["status"] == "True" {
            Event::Claim
        } else {
            Event::NoClaim
        }
    } else {
        let name = format!("{kind} {}", object["metadata"]["name"].as_str().unwrap());
        // An object that is being deleted counts as gone.
        if there && object["metadata"]["deletionTimestamp"].is_null() {
            Event::There(name)
        } else {
            Event::Gone(name)
        }
    };
    Some((version, event))
}

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}
