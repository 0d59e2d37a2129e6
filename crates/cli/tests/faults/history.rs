//! The events of the cluster in their order: resourceVersions are numbers of one sequence for the
//! whole of etcd, so they order writes of different kinds.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use futures::TryStreamExt;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use serde_json::Value;
use tokio::task::JoinSet;
use weft_plan::{Kind, OWNER_LABEL, kinds};

use crate::harness::{Cluster, NAMESPACE, condition, wait_until};

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
    // Ends the watches when it goes.
    _watches: JoinSet<()>,
}

impl History {
    /// From now on, of these kinds.
    pub async fn begin(cluster: &Cluster, of: &[Kind]) -> Self {
        let events: Arc<Mutex<BTreeMap<u64, Event>>> = Arc::default();
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
            let params = WatchParams::default().labels(labels).disable_bookmarks();
            let stream = api.watch(&params, &since).await.unwrap();
            let events = events.clone();
            watches.spawn(async move {
                let mut stream = std::pin::pin!(stream);
                while let Some(event) = stream
                    .try_next()
                    .await
                    .expect("a watch of the test's own goes on")
                {
                    if let Some((version, event)) = read(event, kind) {
                        events.lock().unwrap().insert(version, event);
                    }
                }
            });
        }
        // The resource's own: it is the last.
        Self {
            since: begun,
            events,
            _watches: watches,
        }
    }

    /// Waits until it has learned of everything up to this write of the resource. If all was put
    /// right before anything else could be said of it, that is an old one.
    pub async fn wait_for(&self, object: &Value) {
        let version = number(&object["metadata"]["resourceVersion"]);
        wait_until("the history knows this write", async || {
            if version <= self.since || self.events.lock().unwrap().contains_key(&version) {
                Ok(())
            } else {
                Err(version.to_string())
            }
        })
        .await;
    }

    /// Fails if the resource was ever written with the claim that all is well while one of Weft's
    /// objects was gone. (A test that uses this never changes which objects there should be.)
    pub fn assert_honest(&self, when: &str) {
        let mut gone: BTreeMap<String, u64> = BTreeMap::new();
        for (version, event) in self.events.lock().unwrap().iter() {
            match event {
                Event::There(object) => drop(gone.remove(object)),
                Event::Gone(object) => drop(gone.insert(object.clone(), *version)),
                Event::Claim => assert!(
                    gone.is_empty(),
                    "{when}: at {version} status says Available, while these were gone: {gone:?}"
                ),
                Event::NoClaim => {}
            }
        }
    }

    /// How often the resource was written with that claim.
    pub fn claims(&self) -> usize {
        self.events
            .lock()
            .unwrap()
            .values()
            .filter(|event| **event == Event::Claim)
            .count()
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
