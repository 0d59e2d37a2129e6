//! Carries out the decisions of `weft-plan` for single objects: apply, take over, recreate, delete.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use weft_plan::{
    Deviation, Difference, Domain, Drift, Freeze, Kind, Live, Manifest, Mode, ObjectKey, Owner,
    Stage, Step, Unit, What,
    admission::Request,
    deletion, effective_body, is_kept_for_ever, kinds, leave_patch,
    report::{Failure, FailureClass},
    step, take_patch,
};

use crate::{
    api_server::cluster::{BRIEFLY, Cluster, Error},
    metrics::Metrics,
    reconcile::{
        admission::{Admission, Finding},
        other_controller,
        repairs::{self, Last},
        resistance::Altered,
        retry::{Attempt, Retries},
    },
    store::{cache::ByName, watch::Shared},
};

/// Requests in flight at once, for all units together.
const IN_FLIGHT: usize = 16;
/// The number of immediate attempts on one object after another client wrote it in between.
const ATTEMPTS: usize = 4;

/// The time that a reconcile waits for one object.
const PATIENCE: Duration = Duration::from_secs(2);

/// The stages that are applied at once inside a unit. Each waits for the one before. Definitions,
/// permissions and configuration do not need each other, and the later stages need all of them.
const STEPS: [&[Stage]; 5] = [
    &[Stage::Namespace],
    &[Stage::Definition, Stage::Access, Stage::Config],
    &[Stage::Binding],
    &[Stage::Workload],
    &[Stage::Webhook],
];

/// The result for one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was as it should be, or is now.
    Done,
    /// The object is another owner's and stays as it is.
    Left(Left),
    /// It is not as it should be, and its resource wants it to stay so. With the object, if it is
    /// there without our label.
    Held(Deviation, Option<Arc<Value>>),
}

/// The result for the objects of a unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// The failures, one for each object.
    pub failures: Vec<Failure>,
    /// Objects that are left to their owners.
    pub left: Vec<Left>,
    /// Objects that drifted and stay so.
    pub drift: Vec<Drift>,
    /// Objects among these that have lost our label, so that no watch shows them.
    pub unlabelled: HashMap<ObjectKey, Arc<Value>>,
    /// Digests of what is applied, where they are asked for.
    pub digests: BTreeMap<ObjectKey, String>,
}

/// An object that is left to its owner.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    /// The identity of the object.
    pub object: ObjectKey,
    /// The owner of the object, for people.
    pub why: String,
}

/// Reads and writes objects on behalf of one resource.
#[derive(Clone)]
pub struct Objects {
    pub(crate) cluster: Cluster,
    /// The store. Without it, every look is a request.
    pub(crate) shared: Option<Shared>,
    /// The store with the definitions, where that is another one.
    definitions: Option<Shared>,
    pub(crate) domain: Arc<dyn Domain>,
    pub(crate) owner: Owner,
    pub(crate) metrics: Metrics,
    retries: Option<Arc<Retries>>,
    admission: Option<Admission>,
    freeze: Freeze,
    permits: Arc<Semaphore>,
}

impl Objects {
    /// On behalf of `owner`.
    pub fn new(
        cluster: Cluster,
        shared: Option<Shared>,
        domain: Arc<dyn Domain>,
        owner: Owner,
        metrics: Metrics,
    ) -> Self {
        Self {
            cluster,
            shared,
            definitions: None,
            domain,
            owner,
            metrics,
            retries: None,
            admission: None,
            freeze: Freeze::Nothing,
            permits: Arc::new(Semaphore::new(IN_FLIGHT)),
        }
    }

    /// With what is known of earlier failures.
    #[must_use]
    pub fn with_retries(self, retries: Arc<Retries>) -> Self {
        Self {
            retries: Some(retries),
            ..self
        }
    }

    /// With the policies and webhooks that may change what is applied.
    #[must_use]
    pub fn with_admission(self, admission: Admission) -> Self {
        Self {
            admission: Some(admission),
            ..self
        }
    }

    /// Returns what is known of earlier failures.
    pub(crate) fn retries(&self) -> Option<&Retries> {
        self.retries.as_deref()
    }

    /// With another cache that the definitions of kinds are watched for.
    #[must_use]
    pub fn with_definitions(self, definitions: Shared) -> Self {
        Self {
            definitions: Some(definitions),
            ..self
        }
    }

    /// With steps that are not to be carried out.
    #[must_use]
    pub(crate) fn with_freeze(self, freeze: Freeze) -> Self {
        Self { freeze, ..self }
    }

    /// Reports whether Weft must not recreate an object that existed before, see [`Freeze::expects`].
    pub(crate) fn expects(&self, object: &ObjectKey) -> bool {
        self.freeze.expects(object)
    }

    /// The object as it is: from the cache if it is Weft's, else by asking, since whatever is not
    /// labelled as Weft's is not watched.
    pub async fn live(&self, key: &ObjectKey) -> Result<Option<Arc<Value>>, Error> {
        if let Some(known) = self
            .shared
            .as_ref()
            .and_then(|shared| shared.lock().owned(key))
        {
            return Ok(Some(known));
        }
        Ok(self.cluster.get(key).await?.map(Arc::new))
    }

    /// Returns the step for an object in this state.
    pub fn step(&self, manifest: &Manifest, live: Option<&Value>) -> Step {
        step(
            manifest,
            live,
            &self.owner,
            live.is_some_and(|live| self.domain.made_by_original(live)),
        )
    }

    /// Applies a unit step by step. A step that fails holds back the later ones of this unit: a
    /// workload without its permissions or a webhook without its server would do harm.
    pub(crate) async fn apply_unit(&self, unit: &Unit) -> Applied {
        let mut applied = Applied::default();
        for step in STEPS {
            let objects = unit
                .objects
                .iter()
                .filter(|object| step.contains(&Stage::of(object.key().kind)));
            for (object, outcome) in
                join_all(objects.map(async |object| (object, self.ensure(object).await))).await
            {
                let key = object.key();
                if matches!(self.freeze, Freeze::Drift(_))
                    && matches!(outcome, Ok(Outcome::Done | Outcome::Held(..)))
                {
                    applied.digests.insert(key.clone(), object.hash());
                }
                match outcome {
                    Ok(Outcome::Done) => {}
                    Ok(Outcome::Left(one)) => applied.left.push(one),
                    Ok(Outcome::Held(deviation, unlabelled)) => {
                        applied.drift.push(Drift {
                            unit: unit.name.clone(),
                            object: key.clone(),
                            deviation,
                        });
                        applied
                            .unlabelled
                            .extend(unlabelled.map(|live| (key.clone(), live)));
                    }
                    Err(failure) => applied.failures.push(failure),
                }
            }
            if !applied.failures.is_empty() {
                break;
            }
        }
        applied
    }

    /// Makes one object what it should be.
    pub async fn ensure(&self, manifest: &Manifest) -> Result<Outcome, Failure> {
        let key = manifest.key();
        let mut known = self
            .shared
            .as_ref()
            .and_then(|shared| shared.lock().owned(key));
        let mut unlabelled = None;
        if known.is_none() && self.freeze.expects(key) {
            known = self.look_for(key).await?;
            unlabelled.clone_from(&known);
        }
        let mut step = self.step(manifest, known.as_deref());
        if let Some(deviation) = self.freeze.keeps_back(manifest, &step, known.as_deref()) {
            // Of two reasons, the one counts that remains when the resource asks for repairs again.
            let altered = self.retries.as_ref().and_then(|retries| {
                let resistance = &retries.resistance;
                resistance.altered(manifest, &step)
            });
            return Ok(Outcome::Held(altered.unwrap_or(deviation), unlabelled));
        }
        let Some(retries) = &self.retries else {
            return self.attempt(manifest, Known::of(known)).await;
        };
        // An object that is being deleted is a matter of its own, see below.
        let is_settled = !known.as_deref().is_some_and(is_being_deleted);
        let resists = retries
            .resistance
            .keeps_back(manifest, &step, known.as_deref(), Instant::now())
            .filter(|_| is_settled);
        if let Some(deviation) = resists {
            retries.done(key);
            return Ok(Outcome::Held(deviation, None));
        }
        let failed = |class, message| Failure {
            object: key.clone(),
            class,
            message,
        };
        if self.is_leaving(key, &step, known.as_deref()) {
            known = self.remainder(key, retries).await;
            step = self.step(manifest, known.as_deref());
            if let Some(live) = known
                .as_deref()
                .filter(|live| self.is_leaving(key, &step, Some(live)))
            {
                let message = deletion::being_deleted(live, self.is_of_installation(key));
                let failure = failed(FailureClass::Leaving, message);
                retries.failed(&self.trial(manifest, step, Some(live)), &failure);
                return Err(failure);
            }
        }
        if step == Step::Keep
            && !known.as_deref().is_some_and(is_being_deleted)
            && !retries.is_under_way(key)
        {
            retries.done(key);
            retries.seen.there(manifest, true);
            return Ok(Outcome::Done);
        }
        let attempt = self.trial(manifest, step, known.as_deref());
        let by_name = self
            .shared
            .as_ref()
            .map_or(ByName::Unknown, |shared| shared.lock().by_name(key));
        let known = match (known, by_name) {
            (Some(live), _) => Known::Live(live),
            (None, ByName::Unknown) => {
                retries.is_unwatched(key);
                Known::Nothing
            }
            (None, ByName::Gone) => {
                retries.is_free(key);
                Known::Nothing
            }
            // The metadata show the owner. No request is needed until they change.
            (None, ByName::There(theirs)) => match self.step(manifest, Some(&theirs)) {
                Step::Foreign { why } => {
                    let failure = failed(FailureClass::Foreign, why);
                    retries.waits(&attempt, &failure);
                    return Err(failure);
                }
                Step::Leave { why } => {
                    return Ok(Outcome::Left(Left {
                        object: key.clone(),
                        why,
                    }));
                }
                _ => {
                    retries.is_free(key);
                    Known::There
                }
            },
        };
        if let Some(failure) = retries.too_soon(&attempt) {
            return Err(failure);
        }
        if retries.is_under_way(key) {
            return Err(slow(key));
        }
        let outcome = self.patiently(retries, &attempt, known).await;
        note(retries, &attempt, &outcome);
        outcome
    }

    /// Returns the attempt for an object, with everything that the API server's answer depends on.
    fn trial(&self, manifest: &Manifest, step: Step, live: Option<&Value>) -> Attempt {
        let kind = manifest.key().kind;
        let definitions = self
            .definitions
            .as_ref()
            .or(self.shared.as_ref())
            .filter(|_| kind.is_optional());
        let definition = definitions.and_then(|shared| shared.lock().definition_of(kind));
        let version = |live| match Live::of(live).generation() {
            0 => Live::of(live).resource_version_text().to_owned(),
            generation => generation.to_string(),
        };
        Attempt {
            manifest: manifest.clone(),
            step,
            definition,
            live: live.map(version),
        }
    }

    /// Reports whether a wanted object is being deleted, so that a watch will show its end.
    fn is_leaving(&self, key: &ObjectKey, step: &Step, known: Option<&Value>) -> bool {
        let is_ours =
            matches!(step, Step::Keep | Step::Change { .. }) && known.is_some_and(is_being_deleted);
        is_ours
            && self
                .shared
                .as_ref()
                .is_some_and(|shared| shared.lock().going(key).is_some())
    }

    /// Returns the rest of such an object. The first call waits for a moment, because a deletion
    /// that ends at once is not worth a word in status.
    async fn remainder(&self, key: &ObjectKey, retries: &Retries) -> Option<Arc<Value>> {
        if !retries.has_failed(key) {
            tokio::time::sleep(BRIEFLY).await;
        }
        self.shared
            .as_ref()
            .and_then(|shared| shared.lock().owned(key))
    }

    /// Looks for an object that is not among ours: it is gone, or has lost our label. Where a watch
    /// by its name shows that it is gone, no request is needed.
    async fn look_for(&self, key: &ObjectKey) -> Result<Option<Arc<Value>>, Failure> {
        if self
            .shared
            .as_ref()
            .is_some_and(|shared| shared.lock().exists(key) == Some(false))
        {
            return Ok(None);
        }
        let failed = |error: Error| Failure {
            object: key.clone(),
            class: error.class(),
            message: error.of_operator(),
        };
        let found = self.cluster.get(key).await.map_err(failed)?;
        found
            .iter()
            .filter(|found| self.has_label(found))
            .for_each(|found| self.remember(found));
        Ok(found.map(Arc::new))
    }

    /// An attempt that is left to itself if the API server takes long over it (an admission webhook
    /// may, for half a minute): the pass goes on with everything else, and the answer rings for
    /// another one.
    async fn patiently(
        &self,
        retries: &Arc<Retries>,
        attempt: &Attempt,
        known: Known,
    ) -> Result<Outcome, Failure> {
        let (objects, wanted) = (self.clone(), attempt.manifest.clone());
        let mut task = tokio::spawn(async move { objects.attempt(&wanted, known).await });
        match tokio::time::timeout(PATIENCE, &mut task).await {
            Ok(Ok(outcome)) => return outcome,
            Ok(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
            Err(_) => {}
        }
        let key = attempt.manifest.key();
        retries.begins(key);
        let (retries, shared, attempt) =
            (Arc::clone(retries), self.shared.clone(), attempt.clone());
        let failure = slow(key);
        tokio::spawn(async move {
            // If the task panicked, the next one does so as well, and status reports it.
            if let Ok(outcome) = task.await {
                note(&retries, &attempt, &outcome);
            }
            retries.ended(attempt.manifest.key());
            shared.iter().for_each(Shared::notify);
        });
        Err(failure)
    }

    async fn attempt(&self, manifest: &Manifest, known: Known) -> Result<Outcome, Failure> {
        let key = manifest.key();
        let failed = |class, message: String| Failure {
            object: key.clone(),
            class,
            message,
        };
        let Ok(_permit) = self.permits.acquire().await else {
            return Err(failed(FailureClass::Transient, "shutting down".to_owned()));
        };
        let look = async || {
            self.cluster
                .get(key)
                .await
                .map(|live| live.map(Arc::new))
                .map_err(|e| failed(e.class(), e.of_operator()))
        };
        let mut live = match known {
            Known::Nothing => None,
            Known::Live(live) if !is_being_deleted(&live) => Some(live),
            // The object may be gone by now. Of another owner's object only its existence is known.
            Known::Live(_) | Known::There => look().await?,
        };
        let mut last = None;
        // Status reports a second failure at once, and further attempts come after growing pauses.
        let mut again = self
            .retries
            .as_ref()
            .is_some_and(|retries| retries.has_failed(key));
        for _ in 0..ATTEMPTS {
            let wanted = match self.step(manifest, live.as_deref()) {
                Step::Keep | Step::Change { .. }
                    if live.as_deref().is_some_and(is_being_deleted) =>
                {
                    // Our watch is late then. From now on it shows the object.
                    live.iter()
                        .filter(|live| self.has_label(live))
                        .for_each(|live| self.remember(live));
                    if again {
                        let message = live
                            .as_deref()
                            .map(|live| deletion::being_deleted(live, self.is_of_installation(key)))
                            .unwrap_or_default();
                        return Err(failed(FailureClass::Transient, message));
                    }
                    again = true;
                    tokio::time::sleep(BRIEFLY).await;
                    live = look().await?;
                    continue;
                }
                Step::Keep => {
                    // Our watch is late, then.
                    live.iter()
                        .filter(|live| self.has_label(live))
                        .for_each(|live| self.remember(live));
                    if let Some(retries) = &self.retries {
                        retries.seen.there(manifest, true);
                    }
                    return Ok(Outcome::Done);
                }
                Step::Leave { why } => {
                    return Ok(Outcome::Left(Left {
                        object: key.clone(),
                        why,
                    }));
                }
                Step::Foreign { why } => return Err(failed(FailureClass::Foreign, why)),
                wanted => wanted,
            };
            // An object without Weft's label is not watched, so only this look shows it.
            let resists = self.retries.as_ref().and_then(|retries| {
                let resistance = &retries.resistance;
                resistance.keeps_back(manifest, &wanted, live.as_deref(), Instant::now())
            });
            if let Some(deviation) = resists {
                let unlabelled = live.filter(|live| !self.has_label(live));
                return Ok(Outcome::Held(deviation, unlabelled));
            }
            let before = Before {
                live: live.as_deref(),
                last: self.last(manifest),
                sent: Instant::now(),
            };
            match self.write(manifest, live.as_deref(), &wanted).await {
                Ok(answer) => {
                    return Ok(self.after(manifest, &before, &wanted, &answer).await);
                }
                // Somebody wrote in between, or it is there and we did not know: look.
                Err(e) if e.is_conflict() => last = Some(e),
                Err(e) => {
                    let Some(pause) = e.passes_in().filter(|pause| !again && *pause < PATIENCE)
                    else {
                        let message = match live.as_deref() {
                            Some(live) => other_controller::explain(key, live, &self.owner, &e),
                            None => (self.is_of_installation(key)
                                && e.class() == FailureClass::Forbidden)
                                .then(deletion::gone_with_roles),
                        }
                        .unwrap_or_else(|| e.of_operator());
                        return Err(failed(self.class_of(key, &e), message));
                    };
                    // Once only, because a failure that ends at once is not worth a word in status.
                    // A look shows whether the request was carried out all the same.
                    again = true;
                    tokio::time::sleep(pause).await;
                    last = Some(e);
                }
            }
            live = look().await?;
        }
        let last = last.map(|e| e.to_string()).unwrap_or_default();
        Err(failed(
            FailureClass::Conflict,
            format!("somebody else keeps writing it: {last}"),
        ))
    }

    /// Returns how the object of a manifest was seen last.
    fn last(&self, manifest: &Manifest) -> Last {
        self.retries
            .as_ref()
            .map_or(Last::Never, |retries| retries.seen.last(manifest))
    }

    /// Returns the outcome of a write by the API server's answer, which admission may have changed.
    async fn after(
        &self,
        manifest: &Manifest,
        before: &Before<'_>,
        wanted: &Step,
        answer: &Value,
    ) -> Outcome {
        let Some(retries) = &self.retries else {
            return Outcome::Done;
        };
        let &Before { live, last, sent } = before;
        let key = manifest.key();
        if manifest.mode() == Mode::CreateOnly {
            retries.seen.there(manifest, true);
            retries.repaired(repairs::message(key, wanted, live, last, &[]));
            return Outcome::Done;
        }
        let altered = match self.step(manifest, Some(answer)) {
            Step::Change { differences, .. }
                if differences.iter().any(|one| one.what != What::Unowned) =>
            {
                Some(Altered {
                    differences,
                    sent,
                    finding: self.who_altered(manifest, live, answer).await,
                })
            }
            _ => None,
        };
        // Only now: the answer shows which fields are as they should be.
        let left = altered.as_ref().map_or(&[][..], |one| &one.differences);
        retries.repaired(repairs::message(key, wanted, live, last, left));
        retries.seen.there(manifest, altered.is_none());
        let gone = [Difference::gone()];
        let differences = match wanted {
            Step::Change { differences, .. } if live.is_some() => &**differences,
            Step::Create => &gone,
            _ => &[],
        };
        let deviation = retries
            .resistance
            .repaired(manifest, differences, altered, Instant::now());
        match deviation {
            Some(deviation) => {
                let unlabelled = (!self.has_label(answer)).then(|| Arc::new(answer.clone()));
                Outcome::Held(deviation, unlabelled)
            }
            None => Outcome::Done,
        }
    }

    /// Finds out who may have changed an object between the request and the API server's answer.
    async fn who_altered(
        &self,
        manifest: &Manifest,
        before: Option<&Value>,
        answer: &Value,
    ) -> Finding {
        let Some(admission) = &self.admission else {
            return Finding::default();
        };
        let key = manifest.key();
        let namespace = key.namespace.as_deref().and_then(|name| {
            let key = ObjectKey::new(kinds::NAMESPACE, "", name);
            self.shared.as_ref()?.lock().owned(&key)
        });
        let objects: Vec<&Value> = before
            .into_iter()
            .chain([manifest.body(), answer])
            .collect();
        let request = Request {
            key,
            creates: before.is_none_or(|before| Live::of(before).uid() != Live::of(answer).uid()),
            objects: &objects,
            namespace: namespace.as_deref(),
        };
        admission.find(&request).await
    }

    /// Returns the class of the API server's refusal of an object. The API server's answer about a
    /// Service also depends on addresses and ports of others. Its answer about a definition also
    /// depends on the stored versions of objects.
    fn class_of(&self, key: &ObjectKey, error: &Error) -> FailureClass {
        let depends_on_others =
            matches!(key.kind, kinds::SERVICE | kinds::CUSTOM_RESOURCE_DEFINITION);
        match error.is_of_the_body() && !depends_on_others && self.sees_all_like(key) {
            true => FailureClass::Invalid,
            false => error.class(),
        }
    }

    async fn write(
        &self,
        manifest: &Manifest,
        live: Option<&Value>,
        wanted: &Step,
    ) -> Result<Value, Error> {
        let (key, manager) = (manifest.key(), self.owner.manager.as_str());
        let Some(live) = live else {
            return self.create(manifest).await;
        };
        if let Step::Change { differences, .. } | Step::TakeOver { differences } = wanted {
            let differences: Vec<_> = differences.iter().map(ToString::to_string).collect();
            tracing::info!(object = %key.human(), ?differences, "differs");
        }
        if manifest.mode() == Mode::CreateOnly {
            return self
                .cluster
                .merge_patch(key, "", &leave_patch(live, &self.owner), manager)
                .await;
        }
        if let Step::Change { take: true, .. } | Step::TakeOver { .. } = wanted {
            let patch = take_patch(live, &self.owner, matches!(wanted, Step::TakeOver { .. }));
            let taken = self.cluster.merge_patch(key, "", &patch, manager).await?;
            self.remember(&taken);
        }
        match self
            .apply(key, &effective_body(manifest, live, manager))
            .await
        {
            Err(e) if e.is_immutable_field() && !is_kept_for_ever(key.kind) => {
                tracing::info!(object = %key.human(), reason = %e, "recreated object with an immutable field");
                let uid = Live::of(live).uid();
                self.delete(key, uid).await?;
                self.create(manifest).await
            }
            other => other,
        }
    }

    async fn create(&self, manifest: &Manifest) -> Result<Value, Error> {
        let (key, manager) = (manifest.key(), &self.owner.manager);
        let answer = self
            .cluster
            .apply_new(key, manifest.body(), manager)
            .await?;
        self.applied(key, &answer);
        Ok(answer)
    }

    async fn apply(&self, key: &ObjectKey, body: &Value) -> Result<Value, Error> {
        let answer = self.cluster.apply(key, body, &self.owner.manager).await?;
        self.applied(key, &answer);
        Ok(answer)
    }

    fn applied(&self, key: &ObjectKey, object: &Value) {
        tracing::info!(object = %key.human(), "applied");
        self.metrics.wrote(self.domain.name(), "apply", key.kind);
        self.remember(object);
    }

    /// Deletes an object if it is ours. One of a kind that is never deleted is released. Returns
    /// what is left of it while finalizers hold it.
    pub async fn remove(&self, key: &ObjectKey) -> Result<Option<Value>, Error> {
        let live = match self.live(key).await {
            // We may not ask for it, but a watch shows all that is ours, and it is not among that,
            // or the cluster does not even know its kind: it was never made.
            Err(error)
                if error.class() == FailureClass::Forbidden
                    && (self.sees_all_like(key) || self.is_unserved(key.kind)) =>
            {
                return Ok(None);
            }
            live => live?,
        };
        let Some(live) = live else { return Ok(None) };
        if is_kept_for_ever(key.kind) {
            self.release(key, &live).await?;
            return Ok(None);
        }
        if !self.may_remove(key, &live) {
            return Ok(None);
        }
        if is_being_deleted(&live) {
            return Ok(Some(Value::clone(&live)));
        }
        self.delete(key, Live::of(&live).uid()).await
    }

    /// Reports whether this is the namespace of all operands. The installation makes it with the
    /// operator's roles in it, and the operator has no permission to create it.
    fn is_of_installation(&self, key: &ObjectKey) -> bool {
        key.kind == kinds::NAMESPACE && self.domain.namespace() == Some(key.name.as_str())
    }

    fn sees_all_like(&self, key: &ObjectKey) -> bool {
        self.shared
            .as_ref()
            .is_some_and(|shared| shared.lock().sees_all_like(key))
    }

    fn is_unserved(&self, kind: Kind) -> bool {
        self.shared
            .as_ref()
            .is_some_and(|shared| !shared.lock().facts().serves(kind))
    }

    /// Reports whether Weft removes an object that is no longer wanted. It must be ours, or the
    /// original's without further use, and of a kind that Weft may delete.
    pub(crate) fn may_remove(&self, key: &ObjectKey, live: &Value) -> bool {
        let obsolete = || {
            self.domain.left_by_original(live)
                && self
                    .domain
                    .obsolete()
                    .iter()
                    .any(|(obsolete, _)| obsolete == key)
        };
        !is_kept_for_ever(key.kind) && (self.owner.owns(live) || obsolete())
    }

    /// Reports whether it carries the label of our owner.
    pub(crate) fn has_label(&self, live: &Value) -> bool {
        Live::of(live).label(weft_plan::OWNER_LABEL) == Some(&self.owner.label())
    }

    /// Deletes the object with this uid.
    pub async fn delete(&self, key: &ObjectKey, uid: &str) -> Result<Option<Value>, Error> {
        let left = self.cluster.delete(key, uid).await?;
        tracing::info!(object = %key.human(), "deleted");
        if let Some(retries) = &self.retries {
            retries.seen.forget(key);
        }
        self.metrics.wrote(self.domain.name(), "delete", key.kind);
        match &left {
            Some(left) => self.remember(left),
            None => self.forget(key, uid),
        }
        Ok(left)
    }

    /// Gives up what Weft says on an object that is never deleted: its label goes, the object
    /// stays.
    async fn release(&self, key: &ObjectKey, live: &Value) -> Result<(), Error> {
        if !self.has_label(live) {
            return Ok(());
        }
        let labels = json!({
            "metadata": {"uid": Live::of(live).uid(), "labels": {weft_plan::OWNER_LABEL: null}}
        });
        match self
            .cluster
            .merge_patch(key, "", &labels, &self.owner.manager)
            .await
        {
            Err(e) if !e.is_not_found() && !e.is_conflict() => Err(e),
            _ => Ok(()),
        }
    }

    pub(crate) fn remember(&self, object: &Value) {
        if let Some(shared) = &self.shared {
            shared.lock().wrote(object);
        }
    }

    pub(crate) fn forget(&self, key: &ObjectKey, uid: &str) {
        if let Some(shared) = &self.shared {
            shared.lock().gone(key, uid);
        }
    }
}

fn slow(object: &ObjectKey) -> Failure {
    let message =
        "the API server has not answered yet; an admission webhook may be slow".to_owned();
    Failure {
        object: object.clone(),
        class: FailureClass::Transient,
        message,
    }
}

fn is_being_deleted(live: &Value) -> bool {
    Live::of(live).is_being_deleted()
}

/// The state of an object before a write.
struct Before<'a> {
    /// The object, if it is there.
    live: Option<&'a Value>,
    /// How it was seen before that.
    last: Last,
    /// When the request was sent, at the earliest.
    sent: Instant,
}

/// The state of an object before an attempt.
enum Known {
    /// The object does not exist, or is another owner's.
    Nothing,
    /// The object exists without our label. A watch by its name shows no more.
    There,
    /// The whole object.
    Live(Arc<Value>),
}

impl Known {
    fn of(live: Option<Arc<Value>>) -> Self {
        live.map_or(Self::Nothing, Self::Live)
    }
}

/// Notes what has come of an attempt.
fn note(retries: &Retries, attempt: &Attempt, outcome: &Result<Outcome, Failure>) {
    match outcome {
        Ok(_) => retries.done(attempt.manifest.key()),
        Err(failure) => retries.failed(attempt, failure),
    }
}
