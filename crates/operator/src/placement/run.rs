//! The reconcile loop of a namespace.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use serde_json::Value;
use tokio::{sync::watch as channel, task::JoinSet};
use tokio_util::sync::CancellationToken;
use weft_plan::{Domain, Live, kinds};
use weft_runtime::{
    heap,
    reconcile::run::{self, Work},
    store::{cache::Source, watch},
};

use super::{gauges, memory::Memory, place::Place};

/// Runs until `stop`. It acts only while `leading`.
pub(super) async fn run(place: Place, leading: channel::Receiver<bool>, stop: CancellationToken) {
    let mut watches = JoinSet::new();
    for watch in place.watches() {
        place.shared.lock().expect(watch.source.clone());
        watches.spawn(watch::run(
            watch,
            place.cluster.client().clone(),
            place.shared.clone(),
            place.metrics.clone(),
        ));
    }
    let running = Running {
        place,
        memories: BTreeMap::new(),
    };
    run::run(running, watches, leading, stop).await;
}

/// A namespace with the state of its loop. PlacementAPIs are known by name.
struct Running {
    place: Place,
    memories: BTreeMap<String, Memory>,
}

impl Work for Running {
    fn prepare(&mut self, _leads: bool) {
        self.place.watch_optional();
    }

    fn is_ready(&self) -> bool {
        self.place.shared.lock().may_act() && self.place.common.lock().may_act()
    }

    async fn catch_up(&mut self) -> bool {
        let Place {
            cluster,
            namespace,
            shared,
            ..
        } = &self.place;
        match cluster
            .list_at(kinds::PLACEMENT_API, Some(namespace), "")
            .await
        {
            Ok((resources, version)) => {
                shared.lock().looked(&Source::Resources, resources, version);
                true
            }
            Err(error) => {
                tracing::warn!(namespace, %error, "failed to list PlacementAPIs");
                false
            }
        }
    }

    async fn reconcile(&mut self) -> Option<Instant> {
        let resources = self.place.shared.lock().resources();
        let named = |resource: &Arc<Value>| Live::of(resource).name().to_owned();
        self.memories
            .retain(|name, _| resources.iter().any(|resource| named(resource) == *name));
        let mut due = None;
        let mut asked = BTreeSet::new();
        for resource in &resources {
            let memory = self.memories.entry(named(resource)).or_default();
            let next = self.place.reconcile(resource, &resources, memory).await;
            asked.extend(memory.asked.iter().cloned());
            due = [due, next].into_iter().flatten().min();
        }
        self.place.watch_asked(asked);
        self.place.metrics.drifted(
            self.place.domain.name(),
            Some(&self.place.namespace),
            self.memories.values().flat_map(|memory| &memory.held),
        );
        due
    }

    fn panicked(&mut self) {
        let Place {
            metrics, domain, ..
        } = &self.place;
        metrics.passed(domain.name(), "panic");
    }

    fn finish(&mut self) {
        let resources = self.place.shared.lock().resources();
        gauges::set(
            &self.place.metrics,
            self.place.domain.name(),
            &self.place.namespace,
            &resources,
        );
        heap::give_back();
    }

    async fn changed(&self) {
        let notifier = self.place.notifier();
        tokio::select! {
            () = self.place.shared.changed() => {}
            () = notifier.notified() => {}
        }
    }

    async fn quiet(&mut self) {
        for memory in self.memories.values() {
            memory.quiet().await;
        }
    }
}
