//! The loop of one domain: wait for a change, take a pass over each resource, say what came of it.

use std::{
    collections::{HashMap, HashSet},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use weft_plan::Live;

use futures::FutureExt;
use jiff::Timestamp;
use serde_json::Value;
use tokio::{sync::watch as channel, task::JoinSet};
use tokio_util::sync::CancellationToken;
use weft_plan::{
    Domain, Inventory, Kind, OWNER_LABEL, ObjectKey, Owner, Selection, Unit, drift, kinds,
    report::{Failure, FailureClass, Report, UnitReport},
    rollout,
};

use crate::{
    api_server::cluster::Cluster,
    heap,
    metrics::Metrics,
    process::Wishes,
    reconcile::events::EventRecorder,
    reconcile::objects::Objects,
    reconcile::outcome::{self, Outcome},
    reconcile::pass,
    reconcile::retry::{self, Pause, Retries},
    reconcile::seniority,
    reconcile::status,
    reconcile::stored,
    reconcile::teardown::{self, Course},
    store::cache::{ByName, Source},
    store::watch::{self, Shared, Watch},
    store::watches::Watches,
};

/// Changes that come within this time are one change.
const GATHER: Duration = Duration::from_millis(10);
/// How often status may tell of the progress of a teardown.
const TEARDOWN_NEWS: Duration = Duration::from_secs(2);
/// When to try again to list the resources.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Where a domain's operator lives.
#[derive(Clone, Debug)]
pub struct Config {
    /// The operator's own namespace: inventory, record and lease are here.
    pub namespace: String,
    /// Name of this replica, as events show it.
    pub instance: String,
}

/// One domain at work.
pub struct Controller {
    pub(crate) domain: Arc<dyn Domain>,
    pub(crate) cluster: Cluster,
    pub(crate) shared: Shared,
    pub(crate) metrics: Metrics,
    pub(crate) config: Config,
    pub(crate) recorder: EventRecorder,
    wishes: Wishes,
    /// Of kinds that a cluster may lack.
    served: Watches,
    /// Of the objects in namespaces that follow from the resource.
    places: Watches,
    /// The objects that the last decision asked for.
    built: Mutex<HashSet<ObjectKey>>,
    /// Of single objects.
    named: Watches,
}

/// What is remembered between two looks: only when to look again, and what need not be asked again.
#[derive(Default)]
struct Memories {
    /// Of resources, by name.
    resources: HashMap<String, Memory>,
    /// Of resources that are gone and have left something, by name.
    leftovers: HashMap<String, Memory>,
}

/// What is remembered of a resource.
#[derive(Default)]
struct Memory {
    generation: i64,
    /// Objects that failed.
    retries: Arc<Retries>,
    /// Anything else that failed.
    pause: Option<Pause>,
    due: Option<Instant>,
    last_news: Option<Instant>,
    /// What is known of its deletion.
    course: Course,
    /// How many objects were left as they should not be.
    drifted: usize,
}

impl Memory {
    fn of(resource: &Value) -> Self {
        Self {
            generation: generation(resource),
            ..Self::default()
        }
    }

    /// When to try again, if at all, after a failure of this class that is no single object's.
    fn retry(&mut self, failure: Option<FailureClass>) -> Option<Instant> {
        self.pause = failure.map(|class| Pause::after(self.pause.take(), class));
        self.pause.as_ref().map(Pause::until)
    }
}

fn generation(resource: &Value) -> i64 {
    Live::of(resource).generation()
}

impl Controller {
    /// A controller that is not running yet.
    pub fn new(
        domain: Arc<dyn Domain>,
        cluster: Cluster,
        shared: Shared,
        metrics: Metrics,
        config: Config,
    ) -> Self {
        let recorder =
            EventRecorder::new(cluster.client().clone(), domain.name(), &config.instance);
        let watches = || Watches::new(cluster.client().clone(), shared.clone(), metrics.clone());
        let (served, places, named) = (watches(), watches(), watches());
        shared.lock().set_node_reporters(domain.node_reporters());
        shared.lock().set_admission(domain.admission());
        let watched: HashSet<Kind> = domain
            .kinds()
            .into_iter()
            .chain(domain.facts().into_iter().map(|fact| fact.objects().kind))
            .collect();
        shared.lock().set_unwatched(
            kinds::ALL
                .iter()
                .copied()
                .filter(|kind| kind.is_optional() && !watched.contains(kind))
                .collect(),
        );
        Self {
            domain,
            cluster,
            shared,
            metrics,
            config,
            recorder,
            wishes: Wishes::default(),
            served,
            places,
            built: Mutex::default(),
            named,
        }
    }

    /// Tells what its resource asks of the process.
    #[must_use]
    pub fn with_wishes(self, wishes: Wishes) -> Self {
        Self { wishes, ..self }
    }

    pub(crate) fn objects(&self, owner: Owner) -> Objects {
        Objects::new(
            self.cluster.clone(),
            Some(self.shared.clone()),
            Arc::clone(&self.domain),
            owner,
            self.metrics.clone(),
        )
    }

    /// Runs until `stop`; acts only while `leading`. The watches run always, so that a new leader
    /// starts warm.
    pub async fn run(self, mut leading: channel::Receiver<bool>, stop: CancellationToken) {
        let mut watches = JoinSet::new();
        let (while_served, always): (Vec<_>, Vec<_>) =
            self.watches().into_iter().partition(Watch::is_optional);
        for watch in always {
            self.shared.lock().expect(watch.source.clone());
            watches.spawn(watch::run(
                watch,
                self.cluster.client().clone(),
                self.shared.clone(),
                self.metrics.clone(),
            ));
        }
        let mut memories = Memories::default();
        let mut up_to_date = false;
        loop {
            let leads = *leading.borrow_and_update();
            self.metrics.leads(self.domain.name(), leads);
            self.wish();
            let definitions = self.shared.lock().definitions();
            self.served.set(
                while_served
                    .iter()
                    .filter(|watch| definitions.serves(watch.kind))
                    .cloned(),
            );
            self.reach();
            let acts = leads && self.shared.lock().may_act();
            // The watch of a new leader may lag behind what the last one knew.
            up_to_date = acts && (up_to_date || self.look_again().await);
            let due = match acts {
                true if up_to_date => self.pass_all(&mut memories).await,
                true => Some(Instant::now() + LOOK_AGAIN),
                false => None,
            };
            heap::give_back();
            tokio::select! {
                () = self.shared.changed() => {}
                () = retry::at(due) => {}
                changed = leading.changed() => if changed.is_err() { break },
                () = stop.cancelled() => break,
                // They never end. Blind to one kind, Weft would go on as if nothing had changed
                // there: rather end too.
                Some(ended) = watches.join_next() => {
                    tracing::error!(?ended, "a watch has ended");
                    break;
                }
            }
            tokio::time::sleep(GATHER).await;
        }
        // Only then may another replica lead.
        for memory in memories.resources.values() {
            memory.retries.quiet().await;
        }
    }

    /// Makes sure that the resources are known as they are now. Returns whether that was possible.
    async fn look_again(&self) -> bool {
        let kind = self.domain.resource();
        match self.cluster.list_at(kind, None, "").await {
            Ok((resources, version)) => {
                self.shared
                    .lock()
                    .looked(&Source::Resources, resources, version);
                true
            }
            Err(error) => {
                tracing::warn!(%kind, %error, "could not be listed");
                false
            }
        }
    }

    /// Hands on what the resource asks of the process, also while another replica leads.
    fn wish(&self) {
        let resources = {
            let cache = self.shared.lock();
            if !cache.has_spoken(&Source::Resources) {
                return;
            }
            cache.resources()
        };
        self.wishes.set(
            self.domain.name(),
            self.domain.process(self.the_one(&resources)),
        );
    }

    /// The resource that counts, where there may be only one.
    fn the_one<'a>(&self, resources: &'a [Arc<Value>]) -> Option<&'a Value> {
        if self.domain.only_the_oldest() {
            return seniority::senior(resources.iter().map(|resource| &**resource));
        }
        let wanted = self.domain.resource_name();
        resources
            .iter()
            .map(|resource| &**resource)
            .find(|resource| wanted.is_none_or(|wanted| Live::of(resource).name() == wanted))
    }

    /// A pass over every resource that needs one now. Returns when the next is due.
    async fn pass_all(&self, memories: &mut Memories) -> Option<Instant> {
        let Memories {
            resources: memories,
            leftovers,
        } = memories;
        let resources = self.shared.lock().resources();
        let named = |resource: &Value| Live::of(resource).name().to_owned();
        memories.retain(|name, _| resources.iter().any(|resource| named(resource) == *name));
        for resource in &resources {
            let name = named(resource);
            let memory = memories.entry(name).or_insert_with(|| Memory::of(resource));
            let is_deleted = Live::of(resource).is_being_deleted();
            if memory.generation != generation(resource)
                || is_deleted
                || drift::pause(resource).is_some()
            {
                // What was begun for the old specification must not come after what the new one
                // asks for, and not into a pause.
                memory.retries.quiet().await;
            }
            if memory.generation != generation(resource) {
                // The user has done something about it.
                *memory = Memory {
                    course: std::mem::take(&mut memory.course),
                    ..Memory::of(resource)
                };
            }
            memory.due = self.pass_one(resource, memory).await;
        }
        if resources.is_empty() {
            self.watch_named(&[], std::iter::empty());
        }
        let gone: Vec<_> = self
            .known()
            .into_iter()
            .filter(|name| !resources.iter().any(|resource| named(resource) == *name))
            .collect();
        leftovers.retain(|name, _| gone.contains(name));
        for name in gone {
            let memory = leftovers.entry(name.clone()).or_default();
            let left = teardown::leftovers(self, &name, &mut memory.course).await;
            memory.due = memory.retry((!left.is_empty()).then_some(FailureClass::Transient));
        }
        // As the resource is after our own writes: no event tells of them again.
        let resources = self.shared.lock().resources();
        for (gauge, help, value) in self.domain.gauges(self.the_one(&resources)) {
            self.metrics.set(gauge, help, value);
        }
        self.metrics.drifted(
            self.domain.name(),
            memories.values().map(|memory| memory.drifted).sum(),
        );
        memories
            .values()
            .chain(leftovers.values())
            .filter_map(|memory| memory.due)
            .min()
    }

    /// The names of resources that are there or may have left something.
    fn known(&self) -> Vec<String> {
        let of_inventories = || {
            self.shared
                .lock()
                .inventories(self.domain.resource(), &self.config.namespace)
        };
        self.domain
            .resource_name()
            .map_or_else(of_inventories, |name| vec![name.to_owned()])
    }

    async fn pass_one(&self, resource: &Value, memory: &mut Memory) -> Option<Instant> {
        let began = Instant::now();
        // A defect in one pass must not end the operator: it becomes a condition.
        let passed = AssertUnwindSafe(self.guarded_pass(resource, memory))
            .catch_unwind()
            .await;
        self.metrics.took(self.domain.name(), began.elapsed());
        match passed {
            Ok(due) => due,
            Err(panic) => {
                let message = pass::defect(&*panic);
                self.metrics.passed(self.domain.name(), "panic");
                let failure = Failure {
                    object: ObjectKey::new(self.domain.resource(), "", Live::of(resource).name()),
                    class: FailureClass::Bug,
                    message,
                };
                let report = Report {
                    generation: generation(resource),
                    units: vec![UnitReport {
                        name: self.domain.name().to_owned(),
                        failures: vec![failure],
                        workloads: Vec::new(),
                    }],
                    ..Report::default()
                };
                if let Some(status) = status::changed(self, resource, &report, &[]) {
                    // Tried again with everything else.
                    let _ = status::write(self, resource, &status).await;
                }
                memory.retry(Some(FailureClass::Bug))
            }
        }
    }

    async fn guarded_pass(&self, resource: &Value, memory: &mut Memory) -> Option<Instant> {
        let (domain, began) = (self.domain.name(), Instant::now());
        if Live::of(resource).is_being_deleted() {
            return self.teardown(resource, memory).await;
        }
        let mut outcome = pass::apply(self, resource, &memory.retries).await;
        if outcome.is_outdated(self) {
            outcome = pass::apply(self, resource, &memory.retries).await;
        }
        self.metrics.passed(domain, outcome_name(&outcome));
        memory.drifted = outcome.report.drift.len();
        let latest = self.latest(resource);
        let failures = || {
            outcome
                .failures()
                .filter(|failure| !self.comes_with_news(failure))
        };
        // What was due before has not even been tried: it would be due at once, for ever.
        let due = |failure: &Failure| {
            memory
                .retries
                .due(&failure.object)
                .filter(|at| *at >= began)
        };
        let objects_due = failures().filter_map(due).min();
        let is_other = |failure: &&Failure| match memory.retries.due(&failure.object) {
            Some(_) => due(failure).is_none(),
            None => !memory.retries.has_failed(&failure.object),
        };
        let others = failures().filter(is_other).map(|failure| failure.class);
        let must_ask = outcome
            .report
            .removals
            .iter()
            .any(|removal| !self.tells_end_of(&removal.object));
        let mut failed = others
            .chain(must_ask.then_some(FailureClass::Transient))
            .max();
        // A pass may begin to watch something that a workload needs. Until the first answer it is
        // not known whether that is there, and status waits: the answer rings the bell.
        let settled = self.shared.lock().is_settled();
        if settled
            && let Some(status) = status::changed(self, &latest, &outcome.report, &outcome.units)
        {
            let objects = self.objects(Owner::of(&*self.domain, resource));
            let true_now = if status::claims_available(&status) {
                outcome::confirm(self, &objects, &outcome).await
            } else {
                Ok(true)
            };
            match true_now {
                Ok(true) => {
                    failed = failed.max(
                        status::write(self, &latest, &status)
                            .await
                            .err()
                            .map(|error| error.class()),
                    )
                }
                Ok(false) => self.shared.notify(),
                Err(error) => {
                    tracing::warn!(%error, "could not make sure that everything is there");
                    failed = failed.max(Some(error.class()));
                }
            }
        }
        let retry_at = memory.retry(failed);
        let deadline = outcome.deadline.map(|deadline| {
            Instant::now()
                + Duration::try_from(deadline.duration_since(Timestamp::now())).unwrap_or_default()
        });
        [objects_due, retry_at, deadline]
            .into_iter()
            .flatten()
            .min()
    }

    async fn teardown(&self, resource: &Value, memory: &mut Memory) -> Option<Instant> {
        if !Live::of(resource).has_finalizer(pass::FINALIZER) {
            return None;
        }
        let report = teardown::step(self, resource, &mut memory.course).await?;
        let must_ask = report
            .removals
            .iter()
            .any(|removal| !self.tells_end_of(&removal.object));
        let mut failed = must_ask.then_some(FailureClass::Transient);
        let next_news = memory
            .last_news
            .map(|last| last + TEARDOWN_NEWS)
            .filter(|next| *next > Instant::now());
        if next_news.is_none()
            && let Some(status) = status::changed(self, &self.latest(resource), &report, &[])
        {
            memory.last_news = Some(Instant::now());
            failed = failed.max(
                status::write(self, resource, &status)
                    .await
                    .err()
                    .map(|error| error.class()),
            );
        }
        memory.retry(failed).into_iter().chain(next_news).min()
    }

    /// Whether a failure ends by news that a watch brings, so that it needs no timer.
    fn comes_with_news(&self, failure: &Failure) -> bool {
        match failure.class {
            FailureClass::Absent | FailureClass::Invalid | FailureClass::Leaving => true,
            FailureClass::Foreign => self.shared.lock().by_name(&failure.object) != ByName::Unknown,
            FailureClass::Refused
            | FailureClass::Forbidden
            | FailureClass::Conflict
            | FailureClass::Transient
            | FailureClass::Bug => false,
        }
    }

    /// Whether a watch tells of the end of an object that is to go.
    pub(crate) fn tells_end_of(&self, object: &ObjectKey) -> bool {
        let cache = self.shared.lock();
        if object.kind == kinds::POD {
            cache.refusal(&Source::Pods).is_none()
        } else {
            cache.going(object).is_some()
        }
    }

    /// The resource as it is after our own writes of this pass.
    pub(crate) fn latest(&self, resource: &Value) -> Arc<Value> {
        let latest = self
            .shared
            .lock()
            .resources()
            .into_iter()
            .find(|known| Live::of(known).uid() == Live::of(resource).uid());
        latest.unwrap_or_else(|| Arc::new(resource.clone()))
    }

    /// Notes what a decision asks for, so that it is watched. Returns whether all of it is known
    /// already.
    pub(crate) fn builds(&self, units: &[Unit]) -> bool {
        let keys = units
            .iter()
            .flat_map(|unit| &unit.objects)
            .map(|object| object.key().clone());
        *self.built.lock().unwrap_or_else(PoisonError::into_inner) = keys.collect();
        self.reach();
        self.shared.lock().may_act()
    }

    /// Watches the objects of the inventories and of the last decision where they are, and has no
    /// more than the identity of any other kept.
    fn reach(&self) {
        let mut cache = self.shared.lock();
        if !cache.has_spoken(&Source::Owned(
            kinds::CONFIG_MAP,
            Some(self.config.namespace.clone()),
        )) {
            return;
        }
        let mut wanted = self
            .built
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let names: HashSet<_> = self
            .domain
            .resource_name()
            .map(str::to_owned)
            .into_iter()
            .chain(cache.inventories(self.domain.resource(), &self.config.namespace))
            .collect();
        for name in names {
            let owner = Owner {
                kind: self.domain.resource(),
                name: name.clone(),
                uid: None,
                manager: String::new(),
            };
            let map = cache.owned(&stored::inventory_key(&self.config.namespace, &owner));
            let inventory = map
                .and_then(|map| Inventory::from_data(&map["data"]).ok())
                .unwrap_or_default();
            wanted.extend(
                inventory
                    .objects
                    .into_keys()
                    .chain(inventory.made_by_operands),
            );
            wanted.extend(self.domain.record(&name).map(|(record, _)| record));
        }
        let places: HashSet<_> = match self.domain.namespace() {
            Some(_) => HashSet::new(),
            None => {
                let follows = |key: &&ObjectKey| {
                    key.kind.namespaced
                        && !key.kind.is_optional()
                        && self.domain.kinds().contains(&key.kind)
                };
                wanted
                    .iter()
                    .filter(follows)
                    .map(|key| (key.kind, key.namespace.clone()))
                    .collect()
            }
        };
        cache.want(wanted);
        drop(cache);
        let own = (kinds::CONFIG_MAP, Some(self.config.namespace.clone()));
        self.places
            .set(
                places
                    .into_iter()
                    .filter(|place| *place != own)
                    .map(|(kind, namespace)| Watch {
                        source: Source::Owned(kind, namespace.clone()),
                        kind,
                        namespace,
                        labels: self.owner_selector(),
                        fields: String::new(),
                        metadata_only: false,
                    }),
            );
    }

    /// Selects the objects that bear Weft's label of this domain's resources.
    fn owner_selector(&self) -> String {
        let label = |name: &str| {
            Owner {
                kind: self.domain.resource(),
                name: name.to_owned(),
                uid: None,
                manager: String::new(),
            }
            .label()
        };
        self.domain.resource_name().map_or_else(
            || OWNER_LABEL.to_owned(),
            |name| format!("{OWNER_LABEL}={}", label(name)),
        )
    }

    /// Everything that is watched whatever the resources say; of kinds that a cluster may lack,
    /// while it serves them.
    fn watches(&self) -> Vec<Watch> {
        let watch = |source, kind, namespace: Option<&str>, labels: &str, fields: String| Watch {
            source,
            kind,
            namespace: namespace.map(str::to_owned),
            labels: labels.to_owned(),
            fields,
            metadata_only: false,
        };
        let domain = &self.domain;
        let owner = self.owner_selector();
        let place = |kind: Kind| {
            domain
                .namespace()
                .filter(|_| kind.namespaced)
                .map(str::to_owned)
        };
        // Where the namespaces follow from the resource, they are watched when they are known.
        // Whether a kind is served that a cluster may lack, only its watch tells.
        let is_always_there =
            |kind: &Kind| domain.namespace().is_some() || !kind.namespaced || kind.is_optional();
        let mut places: HashSet<(Kind, Option<String>)> = domain
            .kinds()
            .into_iter()
            .filter(is_always_there)
            .map(|kind| (kind, place(kind)))
            .collect();
        // Inventory and record.
        places.insert((kinds::CONFIG_MAP, Some(self.config.namespace.clone())));
        let mut watches: Vec<_> = places
            .into_iter()
            .map(|(kind, namespace)| {
                watch(
                    Source::Owned(kind, namespace.clone()),
                    kind,
                    namespace.as_deref(),
                    &owner,
                    String::new(),
                )
            })
            .collect();
        watches.push(watch(
            Source::Resources,
            domain.resource(),
            None,
            "",
            String::new(),
        ));
        watches.push(watch(
            Source::Pods,
            kinds::POD,
            domain.namespace(),
            domain.pod_selector(),
            String::new(),
        ));
        watches.extend(domain.operators().iter().map(|(kind, name)| {
            watch(
                Source::Operators(*kind, name),
                *kind,
                None,
                "",
                format!("metadata.name={name}"),
            )
        }));
        if domain.admission().is_some() {
            watches.extend(
                kinds::ADMISSION
                    .map(|kind| watch(Source::Admission(kind), kind, None, "", String::new())),
            );
        }
        // What the original has left bears no label of ours, and that it is gone must be noticed
        // all the same.
        if domain.is_forced_without_record()
            && let Some((record, _)) = domain.resource_name().and_then(|name| domain.record(name))
        {
            let fields = format!("metadata.name={}", record.name);
            let by_name = watch(
                Source::Named(record.clone()),
                record.kind,
                record.namespace.as_deref(),
                "",
                fields,
            );
            watches.push(Watch {
                metadata_only: true,
                ..by_name
            });
        }
        for fact in domain.facts() {
            let Selection {
                kind,
                namespace,
                labels,
                fields,
                metadata_only,
            } = fact.objects();
            watches.push(Watch {
                metadata_only,
                ..watch(
                    Source::Fact(fact),
                    kind,
                    namespace,
                    labels,
                    fields.to_owned(),
                )
            });
        }
        watches
    }

    /// Watches, by name, what these units depend on and Weft does not make: what their workloads
    /// need, and the objects of others that are in their way. Nothing else is watched by name any
    /// more.
    pub(crate) fn watch_named(&self, units: &[Unit], in_the_way: impl Iterator<Item = ObjectKey>) {
        let objects = || units.iter().flat_map(|unit| &unit.objects);
        let ours: HashSet<_> = objects().map(weft_plan::Manifest::key).collect();
        let inputs = objects()
            .flat_map(|object| rollout::inputs(object.body()))
            .filter(|key| !ours.contains(key));
        self.named.set(inputs.chain(in_the_way).map(|key| Watch {
            kind: key.kind,
            namespace: key.namespace.clone(),
            labels: String::new(),
            fields: format!("metadata.name={}", key.name),
            metadata_only: true,
            source: Source::Named(key),
        }));
    }
}

fn outcome_name(outcome: &Outcome) -> &'static str {
    match &outcome.report {
        report if report.blocked.is_some() => "blocked",
        report if report.refusal.is_some() => "refused",
        report if report.paused.is_some() => "paused",
        _ if outcome.failures().next().is_some() || outcome.is_held_up() => "failed",
        _ => "ok",
    }
}
