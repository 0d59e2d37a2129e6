//! Reconciles one PlacementAPI: assesses it and applies the result, until nothing is left to apply.
//! Then it writes status.

use std::{
    collections::BTreeSet,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::FutureExt;
use jiff::Timestamp;
use serde_json::{Value, json};
use weft_api::placement::PlacementApi;
use weft_placement::{
    Assessment, assess,
    conditions::Step as Aspect,
    domain::FINALIZER,
    peers::{Claim, database::RandomBytes},
    singleton::counts_instead,
};
use weft_plan::{
    Domain, Drift, Live, Manifest, ObjectKey, Owner, Step, Unit, drift, kinds, manager, owned,
    report::{Failure, FailureClass},
};
use weft_runtime::{
    api_server::{clock, cluster::Error},
    reconcile::{
        defect::defect,
        objects::{Objects, Outcome},
        originals::held_by_another,
    },
};

use super::{memory::Memory, place::Place, view::View};

/// How often a reconcile assesses. There are fewer steps than this that wait for another's objects.
const ROUNDS: usize = 24;

/// The key of a PlacementAPI.
pub(super) fn key_of(resource: &Value) -> ObjectKey {
    let resource = Live::of(resource);
    ObjectKey::new(kinds::PLACEMENT_API, resource.namespace(), resource.name())
}

impl Place {
    /// Reconciles one PlacementAPI. Returns the time at which the next reconcile is due if nothing
    /// happens before.
    pub(super) async fn reconcile(
        &self,
        resource: &Arc<Value>,
        all: &[Arc<Value>],
        memory: &mut Memory,
    ) -> Option<Instant> {
        let began = Instant::now();
        // A defect in one reconcile must not end the operator: it becomes a condition.
        let passed = AssertUnwindSafe(self.guarded_pass(resource, all, memory))
            .catch_unwind()
            .await;
        self.metrics.took(self.domain.name(), began.elapsed());
        match passed {
            Ok(Ok(due)) => due,
            Ok(Err(error)) => {
                tracing::warn!(%error, object = %key_of(resource).human(), "reconcile failed");
                self.metrics.passed(self.domain.name(), "failed");
                memory.retry(Some(error.class()))
            }
            Err(panic) => {
                let message = defect(&*panic);
                self.metrics.passed(self.domain.name(), "panic");
                let mut assessment = Assessment::default();
                assessment
                    .steps
                    .set(Aspect::Input, Aspect::Input.fails(message));
                // Tried again with everything else.
                let _ = self.report(resource, &assessment, None).await;
                memory.retry(Some(FailureClass::Bug))
            }
        }
    }

    async fn guarded_pass(
        &self,
        resource: &Arc<Value>,
        all: &[Arc<Value>],
        memory: &mut Memory,
    ) -> Result<Option<Instant>, Error> {
        let name = self.domain.name();
        let blocked = held_by_another(
            &*self.domain,
            &self.domain.settings().operator_namespace,
            &self.common,
        );
        self.tell_blocked(resource, memory, blocked.as_ref());
        if let Some(blocked) = blocked {
            // Attempts under way end, as during a pause.
            memory.tasks.settle();
            memory.quiet().await;
            self.report_blocked(resource, &blocked).await?;
            self.metrics.passed(name, "blocked");
            return Ok(None);
        }
        if drift::pause(resource).is_some() {
            self.metrics.passed(name, "paused");
            memory.tasks.settle();
            memory.quiet().await;
            return Ok(None);
        }
        if Live::of(resource).is_being_deleted() {
            memory.quiet().await;
            memory.retries.depart();
            memory.held.clear();
            let owner = Owner::of(&*self.domain, resource);
            let view = View::new(self, &owner, resource, memory).departing();
            let done = self.depart(resource, &view).await;
            (memory.asked, _) = view.into_asked();
            let deadline = done?.map(instant);
            memory.retry(None);
            return Ok([deadline, memory.tasks.settle()]
                .into_iter()
                .flatten()
                .min());
        }
        let owner = Owner::of(&*self.domain, resource);
        let objects = Objects::new(
            self.cluster.clone(),
            Some(self.shared.clone()),
            self.domain.clone(),
            owner.clone(),
            self.metrics.clone(),
        )
        .with_definitions(self.common.clone())
        .with_retries(Arc::clone(&memory.retries))
        .with_admission(self.admission.clone());
        let elder = counts_instead(resource, all.iter().map(|other| &**other));
        let mut assessment = Assessment::default();
        let mut next_look = None;
        for _ in 0..ROUNDS {
            let latest = self.latest(resource);
            let view = View::new(self, &owner, &latest, memory);
            assessment = look(&latest, elder, self, &view);
            let (asked, starting) = view.into_asked();
            memory.asked = asked;
            if assessment.holds && !Live::of(&latest).has_finalizer(FINALIZER) {
                match self.bind(&latest).await {
                    Ok(()) => continue,
                    Err(error) => {
                        return self
                            .refused(resource, assessment, &key_of(resource), error)
                            .await;
                    }
                }
            }
            match self.claim(&assessment.claims).await {
                Ok(false) => {}
                Ok(true) => continue,
                Err((key, error)) => {
                    let key = key.clone();
                    return self.refused(resource, assessment, &key, error).await;
                }
            }
            // An object with a finalizer is already being deleted, and a watch reports its end.
            assessment.deletions.retain(|(key, uid)| {
                self.shared
                    .lock()
                    .going(key)
                    .is_none_or(|live| Live::of(&live).uid() != uid)
            });
            for (key, uid) in assessment.deletions.clone() {
                if let Err(error) = objects.delete(&key, &uid).await {
                    return self.not_deleted(resource, assessment, &key, error).await;
                }
            }
            let unit = Unit {
                name: name.to_owned(),
                objects: std::mem::take(&mut assessment.objects),
            };
            assessment.objects = owned(vec![unit], &owner, |_| false)
                .into_iter()
                .flat_map(|unit| unit.objects)
                .collect();
            let wrote = self.apply(&objects, &assessment.objects, memory).await;
            let repairs = memory.retries.take_repairs();
            if !repairs.is_empty() {
                self.tell(resource, repairs);
            }
            if wrote || !assessment.deletions.is_empty() {
                continue;
            }
            let starts = &memory.retries.starts;
            // An unsettled assessment has not come as far as all pods.
            if assessment.settled {
                starts.retain(starting.iter());
            }
            let now = clock::now();
            let lists = starting.iter().any(|pod| starts.is_due(pod, now));
            next_look = starts.look(&self.cluster, &starting, now).await;
            if !lists {
                break;
            }
        }
        // An unsettled assessment has not come as far as all objects.
        if assessment.settled {
            let wanted: BTreeSet<_> = assessment.objects.iter().map(Manifest::key).collect();
            memory.retries.retain(|object| wanted.contains(object));
        }
        let settled = assessment.settled
            && assessment
                .objects
                .iter()
                .all(|object| !memory.retries.is_under_way(object.key()));
        if settled {
            // Before the write of status, since status names some of the objects to release.
            if let Err((key, error)) = self.disclaim(resource, &assessment.disclaims).await {
                let key = key.clone();
                return self.refused(resource, assessment, &key, error).await;
            }
            self.report(&self.latest(resource), &assessment, Some(&memory.held))
                .await?;
        }
        self.metrics.passed(
            name,
            if memory.failures.is_empty() {
                "ok"
            } else {
                "failed"
            },
        );
        let again = memory
            .failures
            .keys()
            .chain(memory.held.iter().map(|held| &held.object))
            .filter_map(|key| memory.retries.due(key));
        let deadline = [assessment.deadline, next_look].into_iter().flatten();
        let deadline = deadline.min().map(instant);
        memory.pause = None;
        Ok(again.chain(deadline).chain(memory.tasks.settle()).min())
    }

    /// Applies what is not as it should be, up to the first failure. An object that others have
    /// changed is a failure too, and holds back no other. Returns whether anything is different then.
    async fn apply(&self, objects: &Objects, wanted: &[Manifest], memory: &mut Memory) -> bool {
        let before = std::mem::take(&mut memory.failures);
        memory.held.clear();
        let mut wrote = false;
        for manifest in wanted {
            let live = self.shared.lock().owned(manifest.key());
            if live.is_some() && objects.step(manifest, live.as_deref()) == Step::Keep {
                memory.retries.is_right(manifest);
                continue;
            }
            match objects.ensure(manifest).await {
                Ok(Outcome::Held(deviation, _)) => {
                    // The others do their task all the same.
                    if deviation.harms() {
                        let failure = Failure {
                            object: manifest.key().clone(),
                            class: FailureClass::Refused,
                            message: deviation.human(),
                        };
                        memory.failures.insert(manifest.key().clone(), failure);
                    }
                    memory.held.push(Drift {
                        unit: self.domain.name().to_owned(),
                        object: manifest.key().clone(),
                        deviation,
                    });
                }
                Ok(_) => wrote = true,
                Err(failure) => {
                    if before.get(manifest.key()) != Some(&failure) {
                        tracing::warn!(object = %failure.object.human(), why = failure.message, "could not be applied");
                    }
                    memory.failures.insert(manifest.key().clone(), failure);
                    break;
                }
            }
        }
        wrote || memory.failures != before
    }

    /// Puts finalizers on others' objects. Returns whether there was anything to do, or which
    /// object could not be held.
    async fn claim<'a>(&self, claims: &'a [Claim]) -> Result<bool, (&'a ObjectKey, Error)> {
        for Claim { key, body } in claims {
            let written = self
                .cluster
                .apply(key, body, &manager(&*self.domain))
                .await
                .map_err(|error| (key, error))?;
            tracing::info!(object = %key.human(), "held");
            self.shared.lock().wrote(&written);
        }
        Ok(!claims.is_empty())
    }

    /// Sees to it that the resource does not go before what it holds was released.
    async fn bind(&self, resource: &Value) -> Result<(), Error> {
        let key = key_of(resource);
        // The uid keeps the apply from making one that was just deleted.
        let body = json!({"apiVersion": key.kind.api_version(), "kind": key.kind.kind,
        "metadata": {
            "name": key.name, "namespace": key.namespace, "uid": Live::of(resource).uid(),
            "finalizers": [FINALIZER]
        }});
        let written = self
            .cluster
            .apply(&key, &body, &manager(&*self.domain))
            .await?;
        self.shared.lock().wrote(&written);
        Ok(())
    }

    /// Ends a reconcile in which a finalizer could not be put on an object, or taken off. The
    /// condition of the object's step says how to fix it.
    pub(super) async fn refused(
        &self,
        resource: &Arc<Value>,
        assessment: Assessment,
        key: &ObjectKey,
        error: Error,
    ) -> Result<Option<Instant>, Error> {
        if !matches!(
            error.class(),
            FailureClass::Conflict | FailureClass::Transient
        ) {
            let why = format!("the finalizer of {}: {error}", key.human());
            self.report_failure(resource, assessment, key, why).await?;
        }
        Err(error)
    }

    /// Ends a reconcile in which an object could not be deleted that prevents another one. The
    /// condition of the object's step says why. A failure that passes by itself is reported, too, as
    /// with objects that could not be applied.
    async fn not_deleted(
        &self,
        resource: &Arc<Value>,
        assessment: Assessment,
        key: &ObjectKey,
        error: Error,
    ) -> Result<Option<Instant>, Error> {
        if error.class() != FailureClass::Conflict {
            let why = format!("the deletion of {}: {error}", key.human());
            self.report_failure(resource, assessment, key, why).await?;
        }
        Err(error)
    }

    /// Reports a failure about this object by the condition of its step.
    async fn report_failure(
        &self,
        resource: &Arc<Value>,
        mut assessment: Assessment,
        key: &ObjectKey,
        why: String,
    ) -> Result<(), Error> {
        let step = match key.kind {
            kinds::MARIADB_ACCOUNT => Aspect::MariaDbAccount,
            kinds::MARIADB_DATABASE => Aspect::Db,
            kinds::TOPOLOGY => Aspect::Topology,
            kinds::JOB => Aspect::DbSync,
            _ => Aspect::Input,
        };
        assessment.steps.set(step, step.fails(why));
        // Without these two, status keeps the names of the objects that Weft still has to release.
        (assessment.found.topology, assessment.found.credential) = (None, None);
        self.report(&self.latest(resource), &assessment, None).await
    }

    /// The resource as it is after our own writes of this reconcile.
    pub(super) fn latest(&self, resource: &Arc<Value>) -> Arc<Value> {
        let known = self.shared.lock().resources();
        known
            .into_iter()
            .find(|known| Live::of(known).uid() == Live::of(resource).uid())
            .unwrap_or_else(|| Arc::clone(resource))
    }
}

/// The same time by the clock that pauses are measured with.
fn instant(time: Timestamp) -> Instant {
    Instant::now() + Duration::try_from(time.duration_since(clock::now())).unwrap_or_default()
}

fn look(resource: &Value, elder: Option<&str>, place: &Place, view: &View<'_>) -> Assessment {
    match serde_json::from_value::<PlacementApi>(resource.clone()) {
        Ok(read) => assess(
            &read,
            elder,
            place.domain.settings(),
            view,
            clock::now(),
            RandomBytes {
                user: rand::random(),
                password: rand::random(),
            },
        ),
        Err(error) => {
            let mut assessment = Assessment {
                settled: true,
                ..Assessment::default()
            };
            assessment
                .steps
                .set(Aspect::Input, Aspect::Input.fails(error));
            assessment
        }
    }
}
