//! The controller of one domain: waits for a change, reconciles each resource, and reports the
//! outcome.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::FutureExt;
use serde_json::Value;
use tokio::{sync::watch as channel, task::JoinSet};
use tokio_util::sync::CancellationToken;
use weft_plan::{
    Drift, Live, ObjectKey, ObjectSet, Owner, drift,
    report::{Failure, FailureClass, Report, UnitReport},
};

use crate::{
    api_server::{clock, cluster::Cluster},
    heap,
    metrics::{Metrics, Readiness},
    process::Wishes,
    reconcile::{
        admission::Admission,
        apply::apply,
        context::Context,
        defect::defect,
        events::EventRecorder,
        finalizer::FINALIZER,
        outcome::{self, Outcome},
        reach::Reach,
        retry::{Pause, Retries},
        run::{self, Work},
        seniority, status,
        teardown::{self, Course},
    },
    store::{
        cache::{ByName, Source},
        watch::{self, Shared, Watch},
    },
};

pub use crate::reconcile::context::Config;

/// The shortest time between two reports on the progress of a teardown.
const TEARDOWN_NEWS: Duration = Duration::from_secs(2);

/// The engine: it reconciles the resources of one domain.
///
/// # Examples
/// ```no_run
/// use std::sync::Arc;
///
/// use tokio::sync::watch;
/// use tokio_util::sync::CancellationToken;
/// use weft_plan::ObjectSet;
/// use weft_runtime::{
///     api_server::cluster::Cluster,
///     metrics::Metrics,
///     reconcile::controller::{Config, Controller},
///     store::watch::Shared,
/// };
///
/// # async fn serve(domain: impl ObjectSet, client: kube::Client) {
/// let config = Config { namespace: "default".into(), instance: "example".into() };
/// let (cluster, store) = (Cluster::new(client), Shared::default());
/// let controller = Controller::new(Arc::new(domain), cluster, store, Metrics::default(), config);
/// // A leader from the start: other programs get this from `leader::lease::run`.
/// let (_leading, is_leading) = watch::channel(true);
/// controller.run(is_leading, CancellationToken::new()).await;
/// # }
/// ```
pub struct Controller {
    context: Context,
    wishes: Wishes,
}

/// The state between two reconciles: when the next is due, and answers that need not be asked for
/// again.
#[derive(Default)]
struct Memories {
    /// Of resources, by name.
    resources: HashMap<String, Memory>,
    /// Of resources that are gone and have left something, by name.
    leftovers: HashMap<String, Memory>,
}

/// The state of a resource between two reconciles.
#[derive(Default)]
struct Memory {
    generation: i64,
    /// The failed attempts at objects.
    retries: Arc<Retries>,
    /// Anything else that failed.
    pause: Option<Pause>,
    due: Option<Instant>,
    last_news: Option<Instant>,
    /// The findings about its deletion.
    course: Course,
    /// The objects that were left as they should not be.
    drift: Vec<Drift>,
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
        domain: Arc<dyn ObjectSet>,
        cluster: Cluster,
        shared: Shared,
        metrics: Metrics,
        config: Config,
    ) -> Self {
        let context = Context {
            recorder: EventRecorder::new(cluster.client().clone(), domain.name(), &config.instance),
            reach: Reach::new(
                Arc::clone(&domain) as Arc<dyn ObjectSet>,
                &cluster,
                shared.clone(),
                &metrics,
                config.namespace.clone(),
            ),
            admission: Admission::new(cluster.clone(), shared.clone(), metrics.clone()),
            domain,
            cluster,
            shared,
            metrics,
            config,
        };
        Self {
            context,
            wishes: Wishes::default(),
        }
    }

    /// Hands on the settings that its resource asks for to the process.
    #[must_use]
    pub fn with_wishes(self, wishes: Wishes) -> Self {
        Self { wishes, ..self }
    }

    /// Runs until `stop`. It acts only while `leading`.
    pub async fn run(self, leading: channel::Receiver<bool>, stop: CancellationToken) {
        let mut watches = JoinSet::new();
        let (while_served, always): (Vec<_>, Vec<_>) = self
            .context
            .reach
            .watches()
            .into_iter()
            .partition(Watch::is_optional);
        for watch in always {
            self.context.shared.lock().expect(watch.source.clone());
            watches.spawn(watch::run(
                watch,
                self.context.cluster.client().clone(),
                self.context.shared.clone(),
                self.context.metrics.clone(),
            ));
        }
        let running = Running {
            controller: self,
            while_served,
            memories: Memories::default(),
        };
        run::run(running, watches, leading, stop).await;
    }

    /// Makes sure that the resources are known as they are now. Returns whether that was possible.
    async fn look_again(&self) -> bool {
        let kind = self.context.domain.resource();
        match self.context.cluster.list_at(kind, None, "").await {
            Ok((resources, version)) => {
                self.context
                    .shared
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
            let cache = self.context.shared.lock();
            if !cache.has_spoken(&Source::Resources) {
                return;
            }
            cache.resources()
        };
        self.wishes.set(
            self.context.domain.name(),
            self.context.domain.process(self.the_one(&resources)),
        );
    }

    /// The resource that counts, where there may be only one.
    fn the_one<'a>(&self, resources: &'a [Arc<Value>]) -> Option<&'a Value> {
        if self.context.domain.only_the_oldest() {
            return seniority::senior(resources.iter().map(|resource| &**resource));
        }
        let wanted = self.context.domain.resource_name();
        resources
            .iter()
            .map(|resource| &**resource)
            .find(|resource| wanted.is_none_or(|wanted| Live::of(resource).name() == wanted))
    }

    /// Reconciles every resource that needs it now. Returns when the next reconcile is due.
    async fn reconcile_all(&self, memories: &mut Memories) -> Option<Instant> {
        let Memories {
            resources: memories,
            leftovers,
        } = memories;
        let resources = self.context.shared.lock().resources();
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
                // An attempt for the old specification must not end after those for the new one,
                // nor during a pause.
                memory.retries.quiet().await;
            }
            if memory.generation != generation(resource) {
                // The user has done something about it.
                *memory = Memory {
                    course: std::mem::take(&mut memory.course),
                    retries: Arc::new(memory.retries.next_generation()),
                    ..Memory::of(resource)
                };
            }
            if is_deleted {
                memory.retries.depart();
            }
            memory.due = self.reconcile_one(resource, memory).await;
        }
        if resources.is_empty() {
            self.context.reach.watch_named(&[], std::iter::empty());
        }
        let gone: Vec<_> = self
            .known()
            .into_iter()
            .filter(|name| !resources.iter().any(|resource| named(resource) == *name))
            .collect();
        leftovers.retain(|name, _| gone.contains(name));
        for name in gone {
            let memory = leftovers.entry(name.clone()).or_default();
            let left = teardown::leftovers(&self.context, &name, &mut memory.course).await;
            memory.due = memory.retry((!left.is_empty()).then_some(FailureClass::Transient));
        }
        // Read the resource again, because no event follows our own writes.
        let resources = self.context.shared.lock().resources();
        for (gauge, help, value) in self.context.domain.gauges(self.the_one(&resources)) {
            self.context.metrics.set(gauge, help, value);
        }
        self.context.metrics.drifted(
            self.context.domain.name(),
            None,
            memories.values().flat_map(|memory| &memory.drift),
        );
        memories
            .values()
            .chain(leftovers.values())
            .filter_map(|memory| memory.due)
            .min()
    }

    /// Sets the gauges that say which resources are ready, from the store.
    fn set_readiness(&self) {
        let domain = &self.context.domain;
        let resources = self.context.shared.lock().resources();
        let counts = |resource: &&Arc<Value>| {
            domain
                .resource_name()
                .is_none_or(|wanted| Live::of(resource).name() == wanted)
        };
        self.context.metrics.readiness(
            domain.name(),
            domain.resource(),
            None,
            resources
                .iter()
                .filter(counts)
                .map(|resource| Readiness::of(resource)),
        );
    }

    /// The names of resources that are there or may have left something.
    fn known(&self) -> Vec<String> {
        let of_inventories = || {
            self.context.shared.lock().inventories(
                self.context.domain.resource(),
                &self.context.config.namespace,
            )
        };
        self.context
            .domain
            .resource_name()
            .map_or_else(of_inventories, |name| vec![name.to_owned()])
    }

    async fn reconcile_one(&self, resource: &Value, memory: &mut Memory) -> Option<Instant> {
        let began = Instant::now();
        // A defect in one reconcile becomes a condition, and does not end the operator.
        let passed = AssertUnwindSafe(self.reconcile_unguarded(resource, memory))
            .catch_unwind()
            .await;
        self.context
            .metrics
            .took(self.context.domain.name(), began.elapsed());
        match passed {
            Ok(due) => due,
            Err(panic) => {
                let message = defect(&*panic);
                self.context
                    .metrics
                    .passed(self.context.domain.name(), "panic");
                let failure = Failure {
                    object: ObjectKey::new(
                        self.context.domain.resource(),
                        "",
                        Live::of(resource).name(),
                    ),
                    class: FailureClass::Bug,
                    message,
                };
                let report = Report {
                    generation: generation(resource),
                    units: vec![UnitReport {
                        name: self.context.domain.name().to_owned(),
                        failures: vec![failure],
                        workloads: Vec::new(),
                    }],
                    ..Report::default()
                };
                if let Some(status) = status::changed(&self.context, resource, &report, &[]) {
                    // Tried again with everything else.
                    let _ = status::write(&self.context, resource, &status).await;
                }
                memory.retry(Some(FailureClass::Bug))
            }
        }
    }

    async fn reconcile_unguarded(&self, resource: &Value, memory: &mut Memory) -> Option<Instant> {
        let (domain, began) = (self.context.domain.name(), Instant::now());
        if Live::of(resource).is_being_deleted() {
            return self.teardown(resource, memory).await;
        }
        let mut outcome = apply(&self.context, resource, &memory.retries).await;
        if outcome.is_outdated(&self.context) {
            outcome = apply(&self.context, resource, &memory.retries).await;
        }
        self.context.metrics.passed(domain, outcome_name(&outcome));
        memory.drift.clone_from(&outcome.report.drift);
        let repairs = memory.retries.take_repairs();
        if !repairs.is_empty() {
            let about = Live::of(resource);
            let name = (about.name().to_owned(), about.uid().to_owned());
            let kind = self.context.domain.resource();
            self.context.recorder.publish(kind, name, repairs);
        }
        let latest = self.context.latest(resource);
        let failures = || {
            outcome
                .failures()
                .filter(|failure| !self.comes_with_news(failure))
        };
        // An earlier due time was not even tried. It would be due at once, for ever.
        let due_at = |object: &ObjectKey| memory.retries.due(object).filter(|at| *at >= began);
        let due = |failure: &Failure| due_at(&failure.object);
        let resisting = outcome
            .report
            .drift
            .iter()
            .filter(|drift| !drift.is_asked_for());
        let objects_due = failures()
            .filter_map(due)
            .chain(resisting.filter_map(|drift| due_at(&drift.object)))
            .min();
        let is_other = |failure: &&Failure| match memory.retries.due(&failure.object) {
            Some(_) => due(failure).is_none(),
            None => !memory.retries.has_failed(&failure.object),
        };
        let others = failures().filter(is_other).map(|failure| failure.class);
        let mut failed = others
            .chain(self.context.asks_for(&outcome.report.removals))
            .max();
        // A reconcile may begin to watch an object that a workload needs. Until the first answer it
        // is unknown whether that exists, and status waits. The answer triggers a reconcile.
        let settled = self.context.shared.lock().is_settled();
        if settled
            && let Some(status) =
                status::changed(&self.context, &latest, &outcome.report, &outcome.units)
        {
            let objects = self
                .context
                .objects(Owner::of(&*self.context.domain, resource));
            let true_now = if status::claims_available(&status) {
                outcome::confirm(&self.context, &objects, &outcome).await
            } else {
                Ok(true)
            };
            match true_now {
                Ok(true) => {
                    failed = failed.max(status::write(&self.context, &latest, &status).await.err())
                }
                Ok(false) => self.context.shared.notify(),
                Err(error) => {
                    tracing::warn!(%error, "could not make sure that everything is there");
                    failed = failed.max(Some(error.class()));
                }
            }
        }
        let retry_at = memory.retry(failed);
        let deadline = outcome.deadline.map(|deadline| {
            Instant::now()
                + Duration::try_from(deadline.duration_since(clock::now())).unwrap_or_default()
        });
        [objects_due, retry_at, deadline]
            .into_iter()
            .flatten()
            .min()
    }

    async fn teardown(&self, resource: &Value, memory: &mut Memory) -> Option<Instant> {
        if !Live::of(resource).has_finalizer(FINALIZER) {
            return None;
        }
        let report = teardown::step(&self.context, resource, &mut memory.course).await?;
        let mut failed = self.context.asks_for(&report.removals);
        let next_news = memory
            .last_news
            .map(|last| last + TEARDOWN_NEWS)
            .filter(|next| *next > Instant::now());
        if next_news.is_none()
            && let Some(status) =
                status::changed(&self.context, &self.context.latest(resource), &report, &[])
        {
            memory.last_news = Some(Instant::now());
            failed = failed.max(status::write(&self.context, resource, &status).await.err());
        }
        memory.retry(failed).into_iter().chain(next_news).min()
    }

    /// Reports whether a watch shows the end of a failure, so that it needs no timer.
    fn comes_with_news(&self, failure: &Failure) -> bool {
        match failure.class {
            FailureClass::Absent | FailureClass::Invalid | FailureClass::Leaving => true,
            FailureClass::Foreign => {
                self.context.shared.lock().by_name(&failure.object) != ByName::Unknown
            }
            FailureClass::Refused
            | FailureClass::Forbidden
            | FailureClass::Conflict
            | FailureClass::Transient
            | FailureClass::Bug => false,
        }
    }
}

/// A controller with the state of its loop.
struct Running {
    controller: Controller,
    while_served: Vec<Watch>,
    memories: Memories,
}

impl Work for Running {
    fn prepare(&mut self, leads: bool) {
        let context = &self.controller.context;
        context.metrics.leads(context.domain.name(), leads);
        self.controller.wish();
        context.reach.follow_definitions(&self.while_served);
        context.reach.update();
    }

    fn is_ready(&self) -> bool {
        self.controller.context.shared.lock().may_act()
    }

    async fn catch_up(&mut self) -> bool {
        self.controller.look_again().await
    }

    async fn reconcile(&mut self) -> Option<Instant> {
        self.controller.reconcile_all(&mut self.memories).await
    }

    fn panicked(&mut self) {
        let context = &self.controller.context;
        context.metrics.passed(context.domain.name(), "panic");
    }

    fn finish(&mut self) {
        self.controller.set_readiness();
        heap::give_back();
    }

    async fn changed(&self) {
        self.controller.context.shared.changed().await;
    }

    async fn quiet(&mut self) {
        for memory in self.memories.resources.values() {
            memory.retries.quiet().await;
        }
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
