//! When what has failed is tried again. Each object has a pause of its own: one that fails is not asked for again at every event, and
//! slows no other.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::sync::watch;
use weft_plan::{
    Manifest, ObjectKey, Step,
    report::{Failure, FailureClass},
};

use crate::backoff::Backoff;

/// The first and the longest pause after a failure of this class. What waits for people is tried again too, since what they change
/// (a role, an admission policy, an object of their own) cannot be watched: soon at first, as they try things out.
fn bounds(class: FailureClass) -> (Duration, Duration) {
    let (first, longest) = match class {
        FailureClass::Conflict => (50, 5_000),
        FailureClass::Transient => (500, 15_000),
        FailureClass::Absent | FailureClass::Forbidden | FailureClass::Foreign | FailureClass::Invalid => (1_000, 30_000),
        FailureClass::Bug => (1_000, 60_000),
    };
    (Duration::from_millis(first), Duration::from_millis(longest))
}

/// Returns when this is due; never, if nothing is.
pub async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// The pauses between attempts at one thing.
#[derive(Debug)]
pub struct Pause {
    class: FailureClass,
    backoff: Backoff,
    until: Instant,
}

impl Pause {
    /// After a failure, given the pause after the failure before it. An attempt that came early, because of an event, makes the
    /// pause no longer.
    pub fn after(before: Option<Self>, class: FailureClass) -> Self {
        let now = Instant::now();
        match before {
            Some(before) if before.class == class && before.until > now => before,
            before => {
                let (first, longest) = bounds(class);
                let mut backoff =
                    before.filter(|before| before.class == class).map_or_else(|| Backoff::new(first, longest), |before| before.backoff);
                let until = now + backoff.next_pause();
                Self { class, backoff, until }
            }
        }
    }

    /// When the next attempt is due.
    pub fn until(&self) -> Instant {
        self.until
    }
}

/// The objects of a resource that could not be applied, and those that are not yet.
#[derive(Default)]
pub struct Retries {
    objects: Mutex<HashMap<ObjectKey, Failed>>,
    under_way: watch::Sender<HashSet<ObjectKey>>,
}

struct Failed {
    /// What was tried.
    body: Value,
    step: Step,
    /// The version of somebody else's object that was in the way, once it is watched.
    theirs: Option<u64>,
    failure: Failure,
    pause: Pause,
}

impl Retries {
    /// The last failure to do just this, if it is too soon to try again. `theirs` is the version of somebody else's object of that name,
    /// where it is watched: a change of it may be just what we wait for.
    pub fn too_soon(&self, manifest: &Manifest, step: &Step, theirs: Option<u64>) -> Option<Failure> {
        let objects = self.lock();
        let failed = objects.get(manifest.key())?;
        let same = failed.step == *step && failed.theirs == theirs && failed.body == *manifest.body();
        (same && Instant::now() < failed.pause.until()).then(|| failed.failure.clone())
    }

    /// Notes what came of an attempt.
    pub fn tried(&self, manifest: &Manifest, step: &Step, theirs: Option<u64>, failure: Option<&Failure>) {
        let mut objects = self.lock();
        let before = objects.remove(manifest.key());
        if let Some(failure) = failure {
            let pause = Pause::after(before.map(|failed| failed.pause), failure.class);
            objects.insert(
                manifest.key().clone(),
                Failed { body: manifest.body().clone(), step: step.clone(), theirs, failure: failure.clone(), pause },
            );
        }
    }

    /// When this object is tried again, if it has failed.
    pub fn due(&self, object: &ObjectKey) -> Option<Instant> {
        self.lock().get(object).map(|failed| failed.pause.until())
    }

    /// Notes that an attempt at this object goes on after its pass.
    pub fn begins(&self, object: &ObjectKey) {
        self.under_way.send_modify(|objects| {
            objects.insert(object.clone());
        });
    }

    /// Notes the end of such an attempt.
    pub fn ended(&self, object: &ObjectKey) {
        self.under_way.send_modify(|objects| {
            objects.remove(object);
        });
    }

    /// Whether an attempt at this object goes on.
    pub fn is_under_way(&self, object: &ObjectKey) -> bool {
        self.under_way.borrow().contains(object)
    }

    /// Waits for the end of every attempt. Each of its requests has a timeout.
    pub async fn quiet(&self) {
        // It fails only without a sender, which is here.
        let _ = self.under_way.subscribe().wait_for(HashSet::is_empty).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Failed>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn manifest(value: &str) -> Manifest {
        Manifest::new(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": {"k": value}}))
            .unwrap()
    }

    fn failure() -> Failure {
        Failure { object: manifest("").key().clone(), class: FailureClass::Invalid, message: "no".into() }
    }

    #[test]
    fn the_same_is_not_tried_again_at_once_and_anything_else_is() {
        let retries = Retries::default();
        assert_eq!(retries.too_soon(&manifest("a"), &Step::Create, None), None);
        retries.tried(&manifest("a"), &Step::Create, None, Some(&failure()));
        assert_eq!(retries.too_soon(&manifest("a"), &Step::Create, None), Some(failure()));
        assert_eq!(retries.too_soon(&manifest("b"), &Step::Create, None), None, "another body");
        assert_eq!(
            retries.too_soon(&manifest("a"), &Step::Change { differences: vec![], take: false }, None),
            None,
            "the object is there by now"
        );
        assert_eq!(retries.too_soon(&manifest("a"), &Step::Create, Some(7)), None, "whoever is in the way has changed something");
        retries.tried(&manifest("a"), &Step::Create, None, None);
        assert_eq!(retries.due(manifest("a").key()), None);
    }

    #[test]
    fn attempts_that_come_early_make_no_longer_pause() {
        let first = Pause::after(None, FailureClass::Invalid);
        let until = first.until();
        let again = Pause::after(Some(first), FailureClass::Invalid);
        assert_eq!(again.until(), until);
        let other = Pause::after(Some(again), FailureClass::Conflict);
        assert!(other.until() < until, "another failure starts afresh");
    }
}
