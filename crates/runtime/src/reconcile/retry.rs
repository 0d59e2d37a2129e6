//! When what has failed is tried again. Each object has a pause of its own: one that fails is not
//! asked for again at every event, and slows no other.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::watch;
use weft_plan::{
    Manifest, ObjectKey, Step,
    report::{Failure, FailureClass},
};

use crate::{
    backoff::Backoff,
    reconcile::{events::Note, repairs::Seen, resistance::Resistance, starts::Starts},
};

/// The time for which an API server may use an older definition of a kind than the one that it
/// shows.
pub const SETTLING: Duration = Duration::from_secs(60);

/// Returns the first and the longest pause after a failure of this class. Failures that wait for
/// people are tried again too, since their changes (a role, an admission policy) cannot be watched.
/// The first attempts come soon, because people try things out. Where a watch shows every change
/// that may help, there is no pause, see [`Retries::failed`].
fn bounds(class: FailureClass) -> (Duration, Duration) {
    let (first, longest) = match class {
        FailureClass::Conflict => (50, 5_000),
        FailureClass::Transient => (500, 15_000),
        FailureClass::Absent
        | FailureClass::Invalid
        | FailureClass::Leaving
        | FailureClass::Forbidden
        | FailureClass::Foreign => (1_000, 30_000),
        FailureClass::Refused => (1_000, 300_000),
        FailureClass::Bug => (1_000, 60_000),
    };
    (Duration::from_millis(first), Duration::from_millis(longest))
}

/// Returns when this is due. Never, if nothing is.
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
    /// After a failure, given the pause after the failure before it. An attempt that came early,
    /// because of an event, makes the pause no longer.
    pub fn after(before: Option<Self>, class: FailureClass) -> Self {
        let now = Instant::now();
        match before {
            Some(before) if before.class == class && before.until > now => before,
            before => {
                let (first, longest) = bounds(class);
                let mut backoff = before
                    .filter(|before| before.class == class)
                    .map_or_else(|| Backoff::new(first, longest), |before| before.backoff);
                let until = now + backoff.next_pause();
                Self {
                    class,
                    backoff,
                    until,
                }
            }
        }
    }

    /// When the next attempt is due.
    pub fn until(&self) -> Instant {
        self.until
    }
}

/// Something to do, and what else decides whether the API server takes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attempt {
    /// The manifest to apply.
    pub manifest: Manifest,
    /// The step for the object.
    pub step: Step,
    /// The generation of the definition of its kind, if the cluster may lack that.
    pub definition: Option<i64>,
    /// Which specification the object has in the cluster: the API server checks some fields against
    /// the old ones.
    pub live: Option<String>,
}

impl Attempt {
    /// Reports whether this attempt is the same as before, as far as it depends on Weft. Another
    /// attempt needs a reason then.
    fn is_like(&self, before: &Self) -> bool {
        self.step == before.step && self.manifest == before.manifest
    }
}

/// The objects of a resource that could not be applied, and those that are not yet.
#[derive(Default)]
pub struct Retries {
    objects: Mutex<HashMap<ObjectKey, Failed>>,
    under_way: watch::Sender<HashSet<ObjectKey>>,
    /// The objects whose repairs do not last.
    pub(crate) resistance: Resistance,
    /// The pods that do not start.
    pub starts: Starts,
    /// The objects as they were seen last.
    pub(crate) seen: Seen,
    /// Repairs that no event reports yet, in words.
    repairs: Mutex<Vec<String>>,
}

struct Failed {
    attempt: Attempt,
    /// When this attempt failed first.
    first: Instant,
    failure: Failure,
    /// The pause before the next attempt. `None` if it comes with news.
    pause: Option<Pause>,
}

impl Retries {
    /// The last failure to do just this, if it is too soon to try again.
    pub(crate) fn too_soon(&self, attempt: &Attempt) -> Option<Failure> {
        let objects = self.lock();
        let failed = objects
            .get(attempt.manifest.key())
            .filter(|failed| attempt.is_like(&failed.attempt))?;
        let is_the_same =
            attempt.definition == failed.attempt.definition && attempt.live == failed.attempt.live;
        let waits = match &failed.pause {
            Some(pause) => {
                Instant::now() < pause.until()
                    && (is_the_same || failed.failure.class != FailureClass::Invalid)
            }
            None => is_the_same,
        };
        waits.then(|| failed.failure.clone())
    }

    /// Notes that an attempt has failed. The next one comes after a pause, where the failure only
    /// ends with news of what the attempt is made from, or of the object, it comes with these.
    pub(crate) fn failed(&self, attempt: &Attempt, failure: &Failure) {
        let before = self.lock().remove(attempt.manifest.key());
        let first = before
            .as_ref()
            .filter(|before| before.attempt == *attempt)
            .map_or_else(Instant::now, |before| before.first);
        let comes_with_news = match failure.class {
            FailureClass::Invalid => attempt.definition.is_none() || first.elapsed() >= SETTLING,
            class => class == FailureClass::Leaving,
        };
        let pause = (!comes_with_news)
            .then(|| Pause::after(before.and_then(|before| before.pause), failure.class));
        self.put(Failed {
            attempt: attempt.clone(),
            first,
            failure: failure.clone(),
            pause,
        });
    }

    /// Notes a failure because of another owner's object. A watch of that object shows when to try
    /// again.
    pub(crate) fn waits(&self, attempt: &Attempt, failure: &Failure) {
        self.put(Failed {
            attempt: attempt.clone(),
            first: Instant::now(),
            failure: failure.clone(),
            pause: None,
        });
    }

    /// Notes that another owner's object is no longer in the way.
    pub(crate) fn is_free(&self, object: &ObjectKey) {
        let mut objects = self.lock();
        if objects
            .get(object)
            .is_some_and(|failed| failed.failure.class == FailureClass::Foreign)
        {
            objects.remove(object);
        }
    }

    /// Notes that no watch shows another owner's object, so that no event ends the wait.
    pub(crate) fn is_unwatched(&self, object: &ObjectKey) {
        let mut objects = self.lock();
        if objects.get(object).is_some_and(|failed| {
            failed.failure.class == FailureClass::Foreign && failed.pause.is_none()
        }) {
            objects.remove(object);
        }
    }

    /// Notes that the object is as it should be.
    pub fn done(&self, object: &ObjectKey) {
        self.lock().remove(object);
    }

    /// Reports whether the last attempt at this object has failed.
    pub fn has_failed(&self, object: &ObjectKey) -> bool {
        self.lock().contains_key(object)
    }

    /// When this object is tried again. `None` if it has neither failed nor resists, if the next try
    /// comes with news of what it depends on, or if it is being tried.
    pub fn due(&self, object: &ObjectKey) -> Option<Instant> {
        let until = match self.lock().get(object) {
            Some(failed) => failed.pause.as_ref().map(Pause::until),
            None => self.resistance.due(object),
        };
        until.filter(|_| !self.is_under_way(object))
    }

    /// Notes that a watch shows the object of a manifest as it should be.
    pub fn is_right(&self, manifest: &Manifest) {
        self.resistance.is_right(manifest.key());
        self.seen.there(manifest, true);
    }

    /// Forgets the repairs of objects that nobody wants any more.
    pub fn retain(&self, is_wanted: impl Fn(&ObjectKey) -> bool) {
        self.resistance.retain(&is_wanted);
        self.seen.retain(is_wanted);
    }

    /// Forgets the objects of a resource that is being deleted. Another resource of its name begins
    /// without them.
    pub fn depart(&self) {
        self.seen.take();
    }

    /// Returns the state for another generation of the resource: everything is tried at once, and
    /// objects are known as they were seen last.
    pub(crate) fn next_generation(&self) -> Self {
        let mut repairs = self.repairs.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            seen: self.seen.take(),
            repairs: Mutex::new(std::mem::take(&mut *repairs)),
            ..Self::default()
        }
    }

    fn put(&self, failed: Failed) {
        self.lock()
            .insert(failed.attempt.manifest.key().clone(), failed);
    }

    /// Notes a repair of what another client has made of an object, in words.
    pub(crate) fn repaired(&self, repair: Option<String>) {
        let mut repairs = self.repairs.lock().unwrap_or_else(PoisonError::into_inner);
        repairs.extend(repair);
    }

    /// Takes the repairs since the last call, each as an event.
    pub fn take_repairs(&self) -> Vec<Note> {
        let mut repairs = self.repairs.lock().unwrap_or_else(PoisonError::into_inner);
        let note = |message| Note {
            warning: false,
            reason: "Repaired".to_owned(),
            message,
        };
        std::mem::take(&mut *repairs)
            .into_iter()
            .map(note)
            .collect()
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

    /// Reports whether an attempt at this object goes on.
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
    use crate::reconcile::testing::manifest;

    fn attempt(value: &str) -> Attempt {
        Attempt {
            manifest: manifest(value),
            step: Step::Create,
            definition: None,
            live: None,
        }
    }

    fn failure(class: FailureClass) -> Failure {
        Failure {
            object: manifest("").key().clone(),
            class,
            message: "no".into(),
        }
    }

    #[test]
    fn the_same_is_not_tried_again_at_once_and_anything_else_is() {
        let (retries, refused) = (Retries::default(), failure(FailureClass::Refused));
        assert_eq!(retries.too_soon(&attempt("a")), None);
        retries.failed(&attempt("a"), &refused);
        assert_eq!(retries.too_soon(&attempt("a")), Some(refused));
        assert_eq!(retries.too_soon(&attempt("b")), None, "another body");
        let change = Attempt {
            step: Step::Change {
                differences: vec![],
                take: false,
            },
            ..attempt("a")
        };
        assert_eq!(
            retries.too_soon(&change),
            None,
            "the object is there by now"
        );
        assert!(retries.due(manifest("a").key()).is_some());
        retries.done(manifest("a").key());
        assert!(!retries.has_failed(manifest("a").key()));
    }

    #[test]
    fn an_invalid_object_waits_for_a_change_and_for_no_timer() {
        let (retries, invalid) = (Retries::default(), failure(FailureClass::Invalid));
        let before = Attempt {
            live: Some("1".into()),
            ..attempt("a")
        };
        retries.failed(&before, &invalid);
        assert_eq!(retries.too_soon(&before), Some(invalid));
        assert_eq!(retries.due(manifest("a").key()), None);
        assert!(retries.has_failed(manifest("a").key()));
        let changes = [
            (
                "the body",
                Attempt {
                    manifest: manifest("b"),
                    ..before.clone()
                },
            ),
            (
                "the object",
                Attempt {
                    live: Some("2".into()),
                    ..before.clone()
                },
            ),
        ];
        for (what, after) in changes {
            assert_eq!(retries.too_soon(&after), None, "{what} is another one");
        }
    }

    #[test]
    fn a_new_definition_is_tried_at_once_and_for_a_while() {
        let (retries, invalid) = (Retries::default(), failure(FailureClass::Invalid));
        let by = |definition| Attempt {
            definition: Some(definition),
            ..attempt("a")
        };
        let key = manifest("a").key().clone();
        retries.failed(&by(1), &invalid);
        assert!(
            retries.due(&key).is_some(),
            "the API server may go by an older definition still"
        );
        assert!(retries.too_soon(&by(1)).is_some());
        assert_eq!(retries.too_soon(&by(2)), None);
        if let Some(long_ago) = Instant::now().checked_sub(SETTLING) {
            retries.lock().get_mut(&key).unwrap().first = long_ago;
            retries.failed(&by(1), &invalid);
            assert_eq!(retries.due(&key), None);
            retries.failed(&by(2), &invalid);
            assert!(retries.due(&key).is_some());
        }
    }

    #[test]
    fn a_pause_is_ended_by_no_change_of_the_live_object() {
        let retries = Retries::default();
        retries.failed(&attempt("a"), &failure(FailureClass::Refused));
        let later = Attempt {
            live: Some("2".into()),
            ..attempt("a")
        };
        assert!(retries.too_soon(&later).is_some());
    }

    #[test]
    fn a_foreign_object_is_waited_for_by_timer_until_a_watch_tells_of_it() {
        let (retries, foreign) = (Retries::default(), failure(FailureClass::Foreign));
        let key = manifest("a").key().clone();
        retries.failed(&attempt("a"), &foreign);
        assert!(retries.due(&key).is_some(), "nobody watches it yet");
        retries.waits(&attempt("a"), &foreign);
        assert_eq!(
            (retries.due(&key), retries.too_soon(&attempt("a"))),
            (None, Some(foreign.clone()))
        );
        retries.is_unwatched(&key);
        assert_eq!(
            retries.too_soon(&attempt("a")),
            None,
            "nobody tells of it any more"
        );
        retries.failed(&attempt("a"), &foreign);
        retries.is_unwatched(&key);
        assert!(retries.due(&key).is_some());
        retries.is_free(&key);
        assert_eq!(retries.too_soon(&attempt("a")), None);
        retries.failed(&attempt("a"), &failure(FailureClass::Forbidden));
        retries.is_free(&key);
        assert!(
            retries.too_soon(&attempt("a")).is_some(),
            "it was not in the way"
        );
    }

    #[test]
    fn an_attempt_under_way_is_not_due() {
        let retries = Retries::default();
        let key = manifest("a").key().clone();
        retries.begins(&key);
        retries.failed(&attempt("a"), &failure(FailureClass::Transient));
        assert_eq!(retries.due(&key), None, "its answer leads on");
        retries.ended(&key);
        assert!(retries.due(&key).is_some());
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
