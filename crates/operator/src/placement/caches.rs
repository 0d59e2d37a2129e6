//! One namespace: what is watched there, and the loop that acts on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use weft_plan::Live;

use serde_json::Value;
use tokio::{sync::watch as channel, task::JoinSet};
use tokio_util::sync::CancellationToken;
use weft_placement::{
    Placement, World,
    registration::{Progress, Task},
    world::{Question, Seen},
};
use weft_plan::{
    Domain, Kind, OWNER_LABEL, ObjectKey, Owner, kinds,
    report::{Failure, FailureClass},
};
use weft_runtime::{
    api_server::cluster::Cluster,
    heap,
    metrics::Metrics,
    reconcile::events::EventRecorder,
    reconcile::retry,
    store::cache::{Look, Source},
    store::notifier::Notifier,
    store::watch::{self, Shared, Watch},
    store::watches::Watches,
};

use super::{Controller, gauges, pass::Memory, tasks::Tasks};

/// Changes that come within this time are one change.
const GATHER: Duration = Duration::from_millis(10);
/// When to try again to list the resources.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A namespace that is served.
pub(super) struct Place {
    pub namespace: String,
    pub domain: Arc<Placement>,
    pub cluster: Cluster,
    /// What is the same for all namespaces.
    pub common: Shared,
    pub shared: Shared,
    pub metrics: Metrics,
    pub recorder: EventRecorder,
    notifier: Notifier,
    /// Of objects of our own whose kinds others bring, while the cluster serves them.
    optional: Watches,
    /// Of what assessments have asked for.
    asked: Watches,
}

impl Place {
    pub fn new(controller: &Controller, namespace: &str) -> Self {
        let shared = Shared::with_rewind(controller.shared.rewind().clone());
        let (cluster, metrics) = (controller.cluster.clone(), controller.metrics.clone());
        let recorder = EventRecorder::new(
            cluster.client().clone(),
            controller.domain.name(),
            &controller.instance,
        );
        let watches = || Watches::new(cluster.client().clone(), shared.clone(), metrics.clone());
        let (optional, asked) = (watches(), watches());
        Self {
            namespace: namespace.to_owned(),
            domain: Arc::clone(&controller.domain),
            common: controller.shared.clone(),
            cluster,
            shared,
            metrics,
            recorder,
            notifier: Notifier::default(),
            optional,
            asked,
        }
    }

    /// Rung when something common to all namespaces is different.
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// Runs until `stop`; acts only while `leading`.
    pub async fn run(self, mut leading: channel::Receiver<bool>, stop: CancellationToken) {
        let mut watches = JoinSet::new();
        for watch in self.watches() {
            self.shared.lock().expect(watch.source.clone());
            watches.spawn(watch::run(
                watch,
                self.cluster.client().clone(),
                self.shared.clone(),
                self.metrics.clone(),
            ));
        }
        let mut memories = BTreeMap::new();
        let mut up_to_date = false;
        loop {
            let leads = *leading.borrow_and_update();
            self.watch_optional();
            let acts = leads && self.shared.lock().may_act() && self.common.lock().may_act();
            // The watch of a new leader may lag behind what the last one knew.
            up_to_date = acts && (up_to_date || self.look_again().await);
            let due = match acts {
                true if up_to_date => self.pass_all(&mut memories).await,
                true => Some(Instant::now() + LOOK_AGAIN),
                false => None,
            };
            gauges::set(
                &self.metrics,
                &self.namespace,
                &self.shared.lock().resources(),
            );
            heap::give_back();
            tokio::select! {
                () = self.shared.changed() => {}
                () = self.notifier.notified() => {}
                () = retry::at(due) => {}
                changed = leading.changed() => if changed.is_err() { break },
                () = stop.cancelled() => break,
                Some(ended) = watches.join_next() => {
                    tracing::error!(?ended, "a watch has ended");
                    break;
                }
            }
            tokio::time::sleep(GATHER).await;
        }
        // Only then may another replica lead.
        for memory in memories.values() {
            memory.quiet().await;
        }
    }

    /// Makes sure that the resources are known as they are now. Returns whether that was possible.
    async fn look_again(&self) -> bool {
        match self
            .cluster
            .list_at(kinds::PLACEMENT_API, Some(&self.namespace), "")
            .await
        {
            Ok((resources, version)) => {
                self.shared
                    .lock()
                    .looked(&Source::Resources, resources, version);
                true
            }
            Err(error) => {
                tracing::warn!(namespace = self.namespace, %error, "PlacementAPIs could not be listed");
                false
            }
        }
    }

    /// A pass over every PlacementAPI. Returns when the next is due.
    async fn pass_all(&self, memories: &mut BTreeMap<String, Memory>) -> Option<Instant> {
        let resources = self.resources();
        let named = |resource: &Value| Live::of(resource).name().to_owned();
        memories.retain(|name, _| resources.iter().any(|resource| named(resource) == *name));
        let mut due = None;
        let mut asked = BTreeSet::new();
        for resource in &resources {
            let name = named(resource);
            let memory = memories.entry(name).or_default();
            let next = self.pass(resource, &resources, memory).await;
            asked.extend(memory.asked.iter().cloned());
            due = [due, next].into_iter().flatten().min();
        }
        self.watch_asked(asked);
        due
    }

    /// The PlacementAPIs, the oldest first.
    fn resources(&self) -> Vec<Arc<Value>> {
        let mut resources = self.shared.lock().resources();
        // Times of creation have whole seconds, so the name decides between equals.
        resources.sort_by_key(|resource| {
            let resource = Live::of(resource);
            (
                resource.created().unwrap_or_default().to_owned(),
                resource.name().to_owned(),
            )
        });
        resources
    }

    /// From now on all of this is watched, and nothing else that assessments may ask for.
    pub fn watch_asked(&self, asked: BTreeSet<Question>) {
        self.asked
            .set(asked.into_iter().map(|question| match question {
                Question::Object(key) => Watch {
                    fields: format!("metadata.name={}", key.name),
                    namespace: key.namespace.clone(),
                    ..self.watch_of(key.kind, Source::Named(key))
                },
                Question::Selected(kind, labels) => Watch {
                    labels: labels.clone(),
                    ..self.watch_of(
                        kind,
                        Source::Selected(kind, Some(self.namespace.clone()), labels),
                    )
                },
            }));
    }

    fn watch_of(&self, kind: Kind, source: Source) -> Watch {
        Watch {
            source,
            kind,
            namespace: Some(self.namespace.clone()),
            labels: String::new(),
            fields: String::new(),
            metadata_only: false,
        }
    }

    /// From now on our own objects of those kinds are watched that others bring and the cluster
    /// serves. Until a watch has answered, nothing is done.
    fn watch_optional(&self) {
        let definitions = {
            let common = self.common.lock();
            // While they are not known, none is taken off.
            if !common.may_act() {
                return;
            }
            common.definitions()
        };
        let served = self
            .domain
            .kinds()
            .into_iter()
            .filter(|kind| kind.is_optional() && definitions.serves(*kind));
        self.optional.set(served.map(|kind| self.watch_owned(kind)));
    }

    fn watch_owned(&self, kind: Kind) -> Watch {
        Watch {
            labels: OWNER_LABEL.to_owned(),
            ..self.watch_of(kind, Source::Owned(kind, Some(self.namespace.clone())))
        }
    }

    /// Everything that is watched whatever the resources say.
    fn watches(&self) -> Vec<Watch> {
        let owned = self
            .domain
            .kinds()
            .into_iter()
            .filter(|kind| !kind.is_optional())
            .map(|kind| self.watch_owned(kind));
        std::iter::once(self.watch_of(kinds::PLACEMENT_API, Source::Resources))
            .chain(owned)
            .collect()
    }
}

/// What is seen of a namespace on behalf of one PlacementAPI; and what was asked for.
pub(super) struct View<'a> {
    pub place: &'a Place,
    pub owner: &'a Owner,
    pub failures: &'a BTreeMap<ObjectKey, Failure>,
    pub tasks: &'a Tasks,
    /// What is held of a kind has to be released also while the kind's definition is being deleted:
    /// it goes only then.
    departs: bool,
    asked: Mutex<BTreeSet<Question>>,
}

impl<'a> View<'a> {
    pub fn new(
        place: &'a Place,
        owner: &'a Owner,
        failures: &'a BTreeMap<ObjectKey, Failure>,
        tasks: &'a Tasks,
    ) -> Self {
        Self {
            place,
            owner,
            failures,
            tasks,
            departs: false,
            asked: Mutex::default(),
        }
    }

    /// The same at the end of the PlacementAPI.
    #[must_use]
    pub fn departing(self) -> Self {
        Self {
            departs: true,
            ..self
        }
    }

    /// All that was asked for.
    pub fn into_asked(self) -> BTreeSet<Question> {
        self.asked
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, question: Question, source: &Source) -> Seen<Vec<Arc<Value>>> {
        let kind = question.kind();
        let is_defined = !kind.is_optional() || self.serves(kind);
        // Nothing is watched that cannot be: its definition is.
        if !is_defined && !self.departs {
            return Seen::NotServed;
        }
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(question);
        match self.place.shared.lock().look(source) {
            Look::Unknown => Seen::Unknown,
            // The kind is gone, or this version of it. Nothing can be released there, and nothing
            // be waited for.
            Look::NotServed if self.departs => Seen::NotServed,
            // The API server will serve it in a moment.
            Look::NotServed => Seen::Unknown,
            Look::Refused(why) => Seen::Refused(why),
            Look::Told(objects) => Seen::Told(objects),
        }
    }
}

impl World for View<'_> {
    fn object(&self, key: &ObjectKey) -> Seen<Option<Arc<Value>>> {
        self.ask(Question::Object(key.clone()), &Source::Named(key.clone()))
            .map(|objects| objects.into_iter().next())
    }

    fn selected(&self, kind: Kind, labels: &str) -> Seen<Vec<Arc<Value>>> {
        let source = Source::Selected(kind, Some(self.place.namespace.clone()), labels.to_owned());
        self.ask(Question::Selected(kind, labels.to_owned()), &source)
    }

    fn own(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.place
            .shared
            .lock()
            .owned(key)
            .filter(|object| self.owner.owns(object))
    }

    fn all_own(&self, kind: Kind) -> Vec<Arc<Value>> {
        let mut all = self
            .place
            .shared
            .lock()
            .owned_of(kind, &self.place.namespace);
        all.retain(|object| self.owner.owns(object));
        all
    }

    fn failure(&self, key: &ObjectKey) -> Option<Failure> {
        let failure = self.failures.get(key)?;
        if failure.class == FailureClass::Foreign {
            // Whoever is in the way may go.
            let _ = self.object(key);
        }
        Some(failure.clone())
    }

    fn keystone(&self, task: &Task) -> Progress {
        self.tasks.ask(task, &self.place.notifier)
    }

    fn serves(&self, kind: Kind) -> bool {
        self.place.common.lock().definitions().serves(kind)
    }
}
