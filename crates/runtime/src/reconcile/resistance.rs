//! Objects that resist: a repair does not last, because another client or the API server answers it.
//!
//! There are two kinds of this. An admission policy or a webhook changes what Weft applies, so
//! the API server's answer differs from the request. Or another client writes a field again each
//! time. In both cases a repair at each event would write for ever, so it comes after growing pauses.
//! Where watches show each change of what alters an object, the next repair waits for a change, or an
//! hour.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::Value;
use weft_plan::{Deviation, Difference, Manifest, ObjectKey, Step, writer};

use crate::{backoff::Backoff, reconcile::admission::Finding};

/// So many repairs of one field within [`RECENTLY`] are made at once.
const AT_ONCE: usize = 5;
/// So many repairs of one object within [`RECENTLY`] are made at once, of whichever fields.
const AT_ONCE_OF_ALL: usize = 15;
/// How long a repair counts.
const RECENTLY: Duration = Duration::from_secs(60);
/// The first and the longest pause before the next repair.
const PAUSES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// How long after a change of a policy or webhook the first repair follows, and until when further
/// ones do, after pauses that double: each API server takes some time to go by the change. A
/// refresh of all policies takes it a second.
const CHANGE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));

/// The longest pause where only a policy seems to alter an object. A match is no proof: the API server
/// itself may drop a field, until the definition is another one.
const SELDOM: Duration = Duration::from_secs(3600);

/// How the API server's answer to an apply differs from the request.
pub(crate) struct Altered {
    /// The fields that differ.
    pub differences: Vec<Difference>,
    /// When the request was sent, at the earliest.
    pub sent: Instant,
    /// The policies and webhooks that may have changed the object.
    pub finding: Finding,
}

impl Altered {
    fn deviation(&self) -> Deviation {
        Deviation::Altered {
            differences: self.differences.clone(),
            by: self.finding.names.clone(),
        }
    }

    /// When the same is applied again, where `pause` is the end of the pause after the last time.
    fn due(&self, pause: Option<Instant>) -> Option<Instant> {
        let Some(watching) = &self.finding.watching else {
            return pause;
        };
        let Some(changed) = watching.changed() else {
            return pause;
        };
        // Zero if the change came after the request.
        let age = self.sent.saturating_duration_since(changed);
        if age < CHANGE.1 {
            return Some(changed + CHANGE.0.max(2 * age));
        }
        match self.finding.decide_alone && watching.shows_all() {
            true => Some(self.sent + SELDOM),
            false => pause,
        }
    }
}

/// The objects of a resource that resist, or were repaired a short time ago.
#[derive(Default)]
pub(crate) struct Resistance(Mutex<HashMap<ObjectKey, Repaired>>);

/// An object that was repaired a short time ago.
struct Repaired {
    /// The digest of the manifest.
    manifest: String,
    /// The times of recent repairs, with the paths of the fields.
    repairs: VecDeque<(Instant, Vec<String>)>,
    /// How the API server's last answer differs from what was applied.
    altered: Option<Altered>,
    /// The fields that another client writes again each time. The empty path is the whole object.
    contested: HashSet<String>,
    /// True if the object was repaired too often, of whichever fields.
    all_contested: bool,
    backoff: Backoff,
    until: Option<Instant>,
}

impl Repaired {
    fn of(manifest: String) -> Self {
        Self {
            manifest,
            repairs: VecDeque::new(),
            altered: None,
            contested: HashSet::new(),
            all_contested: false,
            backoff: Backoff::new(PAUSES.0, PAUSES.1),
            until: None,
        }
    }

    fn pause(&mut self, now: Instant) {
        self.until = Some(now + self.backoff.next_pause());
    }

    /// When the next repair is due. `None` if it has to wait for nothing.
    fn due(&self) -> Option<Instant> {
        match &self.altered {
            Some(altered) if self.is_contested() => altered.due(self.until).max(self.until),
            Some(altered) => altered.due(self.until),
            None => self.until,
        }
    }

    fn is_contested(&self) -> bool {
        self.all_contested || !self.contested.is_empty()
    }

    /// Reports whether nothing of it counts any more.
    fn is_over(&self) -> bool {
        self.altered.is_none() && self.until.is_none() && self.repairs.is_empty()
    }

    /// Forgets what does not count any more. A client that has not written for so long after a pause
    /// has stopped.
    fn forget(&mut self, now: Instant) {
        if self.until.is_some_and(|until| now > until + RECENTLY) {
            (self.until, self.backoff) = (None, Backoff::new(PAUSES.0, PAUSES.1));
            self.contested.clear();
            self.all_contested = false;
        }
        while self
            .repairs
            .front()
            .is_some_and(|(then, _)| now.duration_since(*then) > RECENTLY)
        {
            self.repairs.pop_front();
        }
    }

    /// The fields that were repaired too often.
    fn too_often(&self) -> HashSet<String> {
        let mut counts: HashMap<&String, usize> = HashMap::new();
        for path in self.repairs.iter().flat_map(|(_, paths)| paths) {
            *counts.entry(path).or_default() += 1;
        }
        let often = counts.into_iter().filter(|(_, count)| *count >= AT_ONCE);
        often.map(|(path, _)| path.clone()).collect()
    }
}

impl Resistance {
    /// How an object deviates, if a repair has to wait. `live` is the object as it is.
    pub(crate) fn keeps_back(
        &self,
        manifest: &Manifest,
        step: &Step,
        live: Option<&Value>,
        now: Instant,
    ) -> Option<Deviation> {
        let mut objects = self.lock();
        let repaired = objects.get_mut(manifest.key())?;
        let gone = [Difference::gone()];
        let differences = match step {
            Step::Change { differences, .. } => &differences[..],
            Step::Create => &gone,
            // It is as it should be. The pause remains: the other one may write at any time.
            _ => {
                repaired.altered = None;
                return None;
            }
        };
        if repaired.manifest != manifest.hash() {
            objects.remove(manifest.key());
            return None;
        }
        if let Some(altered) = &repaired.altered
            && altered.differences == differences
            && repaired.due().is_some_and(|due| now < due)
        {
            return Some(altered.deviation());
        }
        if repaired.until.is_some_and(|until| now < until) {
            let by = |difference: &Difference| {
                let writer = live.and_then(|live| writer(live, &difference.path));
                writer.unwrap_or_else(|| "another client".to_owned())
            };
            let contested: Vec<_> = match repaired.all_contested {
                // The client writes other fields each time.
                true => differences
                    .first()
                    .map(|one| (String::new(), by(one)))
                    .into_iter()
                    .collect(),
                false => differences
                    .iter()
                    .filter(|one| repaired.contested.contains(&one.path))
                    .map(|one| (one.path.clone(), by(one)))
                    .collect(),
            };
            if !contested.is_empty() {
                return Some(Deviation::Contested {
                    differences: differences.to_vec(),
                    contested,
                });
            }
        }
        None
    }

    /// How admission has altered an object, if it still differs in just this.
    pub(crate) fn altered(&self, manifest: &Manifest, step: &Step) -> Option<Deviation> {
        let objects = self.lock();
        let repaired = objects.get(manifest.key())?;
        let altered = repaired.altered.as_ref()?;
        let is_same = repaired.manifest == manifest.hash()
            && matches!(step, Step::Change { differences, .. } if *differences == altered.differences);
        is_same.then(|| altered.deviation())
    }

    /// Notes that an object was changed because of these differences, and how the API server's
    /// answer still differs, if it does. Returns the deviation then.
    pub(crate) fn repaired(
        &self,
        manifest: &Manifest,
        differences: &[Difference],
        altered: Option<Altered>,
        now: Instant,
    ) -> Option<Deviation> {
        let mut objects = self.lock();
        let digest = manifest.hash();
        let repaired = objects
            .entry(manifest.key().clone())
            .or_insert_with(|| Repaired::of(digest.clone()));
        if repaired.manifest != digest {
            *repaired = Repaired::of(digest);
        }
        repaired.forget(now);
        repaired.altered = altered;
        let paths = differences.iter().map(|one| one.path.clone()).collect();
        repaired.repairs.push_back((now, paths));
        let often = repaired.too_often();
        let has = |path: &String| differences.iter().any(|one| one.path == *path);
        let is_again = repaired.contested.iter().any(has) || repaired.all_contested;
        repaired.all_contested |= repaired.repairs.len() >= AT_ONCE_OF_ALL;
        repaired.contested.extend(often.iter().cloned());
        if repaired.altered.is_some() || !often.is_empty() || is_again || repaired.all_contested {
            repaired.pause(now);
        }
        repaired.altered.as_ref().map(Altered::deviation)
    }

    /// When the next repair of this object is due. `None` if it has to wait for nothing.
    pub(crate) fn due(&self, object: &ObjectKey) -> Option<Instant> {
        self.lock().get(object)?.due()
    }

    /// Notes that an object is as it should be.
    pub(crate) fn is_right(&self, object: &ObjectKey) {
        if let Some(repaired) = self.lock().get_mut(object) {
            repaired.altered = None;
        }
    }

    /// Forgets the objects that nobody wants any more. With the last one that waits for a policy or
    /// webhook, the watches of these end.
    pub(crate) fn retain(&self, is_wanted: impl Fn(&ObjectKey) -> bool) {
        let now = Instant::now();
        self.lock().retain(|object, repaired| {
            repaired.forget(now);
            is_wanted(object) && !repaired.is_over()
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Repaired>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;
    use crate::reconcile::{
        admission::tests::Fed,
        testing::{changed, manifest, written_by},
    };

    fn difference(path: &str) -> Difference {
        changed(path, "theirs")
    }

    fn change(path: &str) -> Step {
        Step::Change {
            differences: vec![difference(path)],
            take: false,
        }
    }

    fn live() -> Value {
        written_by(&[("other-operator", "k")])
    }

    /// Repairs the field whenever that may be done, for so many seconds. Returns how often.
    fn fight(resistance: &Resistance, path: &str, from: Instant, seconds: u64) -> usize {
        let (manifest, live) = (manifest("ours"), live());
        let mut writes = 0;
        for second in 0..seconds {
            let now = from + Duration::from_secs(second);
            let kept = resistance.keeps_back(&manifest, &change(path), Some(&live), now);
            if kept.is_none() {
                writes += 1;
                resistance.repaired(&manifest, &[difference(path)], None, now);
                // The watch shows the repair before the other one writes again.
                let kept = resistance.keeps_back(&manifest, &Step::Keep, Some(&live), now);
                assert_eq!(kept, None);
            }
        }
        writes
    }

    #[test]
    fn a_field_that_is_written_again_each_time_is_repaired_ever_more_seldom() {
        let (resistance, start) = (Resistance::default(), Instant::now());
        let first_minute = fight(&resistance, "data.k", start, 60);
        assert!((AT_ONCE..=20).contains(&first_minute), "{first_minute}");
        let second_minute = fight(&resistance, "data.k", start + RECENTLY, 60);
        assert!(second_minute <= first_minute / 2, "{second_minute}");

        let due = resistance.due(manifest("ours").key()).unwrap();
        let now = due - Duration::from_millis(1);
        let held = resistance.keeps_back(&manifest("ours"), &change("data.k"), Some(&live()), now);
        let Some(Deviation::Contested { contested, .. }) = held else {
            panic!("{held:?}");
        };
        let by = ("data.k".to_owned(), "other-operator".to_owned());
        assert_eq!(contested, [by]);
        let other = resistance.keeps_back(&manifest("ours"), &change("data.other"), None, now);
        assert_eq!(other, None, "another field is repaired at once");
        let changed = resistance.keeps_back(&manifest("new"), &change("data.k"), None, now);
        assert_eq!(changed, None, "another manifest is applied at once");
    }

    /// How often within a minute an object is written that is at once another one again.
    fn writes(resistance: &Resistance, step: impl Fn(u64) -> Step) -> usize {
        let (manifest, start, live) = (manifest("ours"), Instant::now(), live());
        let may_be_written = |second: &u64| {
            let (step, now) = (step(*second), start + Duration::from_secs(*second));
            let kept = resistance.keeps_back(&manifest, &step, Some(&live), now);
            if kept.is_none() {
                let gone = vec![Difference::gone()];
                let differences = match step {
                    Step::Change { differences, .. } => differences,
                    _ => gone,
                };
                resistance.repaired(&manifest, &differences, None, now);
            }
            kept.is_none()
        };
        (0..60).filter(may_be_written).count()
    }

    #[test]
    fn an_object_that_is_deleted_each_time_is_created_ever_more_seldom() {
        let resistance = Resistance::default();
        let created = writes(&resistance, |_| Step::Create);
        assert!((AT_ONCE..=20).contains(&created), "{created}");
        let now = resistance.due(manifest("ours").key()).unwrap() - Duration::from_millis(1);
        let held = resistance.keeps_back(&manifest("ours"), &Step::Create, None, now);
        let held = held.map(|deviation| deviation.human());
        assert_eq!(
            held.as_deref(),
            Some("deleted again and again by another client")
        );
    }

    #[test]
    fn a_client_that_adds_another_field_each_time_meets_pauses_too() {
        let resistance = Resistance::default();
        let repaired = writes(&resistance, |second| change(&format!("data.k{second}")));
        assert!((AT_ONCE_OF_ALL..=20).contains(&repaired), "{repaired}");
        let now = resistance.due(manifest("ours").key()).unwrap() - Duration::from_millis(1);
        let held = resistance.keeps_back(&manifest("ours"), &change("data.new"), None, now);
        let Some(Deviation::Contested { contested, .. }) = held else {
            panic!("{held:?}");
        };
        let whole = (String::new(), "another client".to_owned());
        assert_eq!(contested, [whole], "each field would be another series");
    }

    #[test]
    fn a_client_meets_pauses_where_admission_changes_another_field() {
        let (resistance, start) = (Resistance::default(), Instant::now());
        let (manifest, live) = (manifest("ours"), live());
        let both = Step::Change {
            differences: vec![difference("data.k"), difference("data.other")],
            take: false,
        };
        let mut writes = 0;
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            if resistance
                .keeps_back(&manifest, &both, Some(&live), now)
                .is_none()
            {
                writes += 1;
                let differences = [difference("data.k"), difference("data.other")];
                resistance.repaired(&manifest, &differences, Some(altered(now, None)), now);
            }
        }
        assert!(writes <= 20, "{writes}");
    }

    #[test]
    fn an_object_that_was_written_once_is_soon_forgotten() {
        let resistance = Resistance::default();
        let long_ago = Instant::now() - 2 * RECENTLY;
        resistance.repaired(&manifest("ours"), &[Difference::gone()], None, long_ago);
        assert_eq!(resistance.lock().len(), 1);
        resistance.retain(|_| true);
        assert_eq!(resistance.lock().len(), 0);
    }

    #[test]
    fn a_client_that_has_stopped_for_a_while_meets_no_pause() {
        let (resistance, start) = (Resistance::default(), Instant::now());
        fight(&resistance, "data.k", start, 60);
        let later = resistance.due(manifest("ours").key()).unwrap() + 2 * RECENTLY;
        assert_eq!(fight(&resistance, "data.k", later, 4), 4);
    }

    #[test]
    fn a_few_repairs_are_made_at_once() {
        let (resistance, mut now) = (Resistance::default(), Instant::now());
        for _ in 0..20 {
            assert_eq!(fight(&resistance, "data.k", now, 4), 4);
            now += RECENTLY + Duration::from_secs(5);
        }
        assert_eq!(resistance.due(manifest("ours").key()), None);
    }

    /// The answer to a request of this time differs in a field. With watches, only a policy may have
    /// changed it.
    fn altered(sent: Instant, watches: Option<&Fed>) -> Altered {
        Altered {
            differences: vec![difference("data.k")],
            sent,
            finding: Finding {
                names: vec!["MutatingAdmissionPolicy \"p\"".to_owned()],
                decide_alone: watches.is_some(),
                watching: watches.map(|fed| Arc::clone(&fed.0)),
            },
        }
    }

    fn deviation() -> Option<Deviation> {
        Some(altered(Instant::now(), None).deviation())
    }

    #[test]
    fn an_altered_object_whose_repair_was_due_long_ago_is_repaired() {
        let (resistance, now) = (Resistance::default(), Instant::now());
        let (manifest, long_ago) = (manifest("ours"), now - 10 * RECENTLY);
        resistance.repaired(&manifest, &[], Some(altered(long_ago, None)), long_ago);
        // A pause of the operator or an earlier stage has kept it back since.
        resistance.retain(|_| true);
        let kept = resistance.keeps_back(&manifest, &change("data.k"), None, now);
        assert_eq!(kept, None);
    }

    #[test]
    fn an_object_that_admission_changes_is_not_applied_again_at_once() {
        let (resistance, now) = (Resistance::default(), Instant::now());
        let manifest = manifest("ours");
        let noted = resistance.repaired(&manifest, &[], Some(altered(now, None)), now);
        assert_eq!(noted, deviation());
        let held = resistance.keeps_back(&manifest, &change("data.k"), None, now);
        assert_eq!(held, deviation());
        let more = resistance.keeps_back(&manifest, &change("data.other"), None, now);
        assert_eq!(more, None, "another field has changed");
        let due = resistance.due(manifest.key()).unwrap();
        assert!(due > now && due <= now + PAUSES.0);
        let again = resistance.keeps_back(&manifest, &change("data.k"), None, due);
        assert_eq!(again, None, "the policy may be gone");
        let differences = [difference("data.k")];
        assert_eq!(
            resistance.repaired(&manifest, &differences, None, due),
            None
        );
        let edited = resistance.keeps_back(&manifest, &change("data.k"), None, due);
        assert_eq!(edited, None, "it was put right");
    }

    /// Applies the object whenever that is due, from the last change on, and gets the same answer.
    /// Returns how long after the change, in seconds.
    fn applied_after(resistance: &Resistance, fed: &Fed) -> Vec<f64> {
        let (manifest, changed) = (manifest("ours"), fed.0.changed().unwrap());
        let mut times = Vec::new();
        while let Some(due) = resistance.due(manifest.key())
            && due < changed + SELDOM
        {
            let just_before = due - Duration::from_millis(1);
            let step = change("data.k");
            let held = resistance.keeps_back(&manifest, &step, None, just_before);
            assert_eq!(held, deviation());
            assert_eq!(resistance.keeps_back(&manifest, &step, None, due), None);
            resistance.repaired(&manifest, &[], Some(altered(due, Some(fed))), due);
            times.push((due - changed).as_secs_f64());
            assert!(times.len() < 20, "no end of {times:?}");
        }
        times
    }

    #[tokio::test]
    async fn an_altered_object_waits_for_a_change_of_a_policy() {
        let (resistance, fed) = (Resistance::default(), Fed::new());
        let (manifest, now) = (manifest("ours"), Instant::now());
        resistance.repaired(&manifest, &[], Some(altered(now, Some(&fed))), now);
        let due = resistance.due(manifest.key());
        assert!(due.unwrap() > now, "the watches show nothing yet");

        // Something may have changed before the watches began, and an API server learns of each
        // change late.
        fed.answer();
        let expected = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
        assert_eq!(applied_after(&resistance, &fed), expected);
        let much_later = now + SELDOM / 2;
        let step = change("data.k");
        let held = resistance.keeps_back(&manifest, &step, None, much_later);
        assert_eq!(held, deviation(), "nothing has changed");
        let in_an_hour = now + SELDOM + Duration::from_secs(65);
        let held = resistance.keeps_back(&manifest, &step, None, in_an_hour);
        assert_eq!(held, None, "something else may have changed");

        fed.change();
        // The test has gone ahead of the clock.
        let sent = altered(now, Some(&fed));
        resistance.repaired(&manifest, &[], Some(sent), now);
        assert_eq!(applied_after(&resistance, &fed), expected);

        fed.refuse();
        let sent = now + Duration::from_secs(3600);
        resistance.repaired(&manifest, &[], Some(altered(sent, Some(&fed))), sent);
        let due = resistance.due(manifest.key());
        assert!(due.unwrap() > sent, "a change may pass unseen");
    }

    #[tokio::test]
    async fn an_object_of_a_webhook_is_tried_after_pauses() {
        let (resistance, fed) = (Resistance::default(), Fed::new());
        fed.answer();
        let (manifest, sent) = (
            manifest("ours"),
            fed.0.changed().unwrap() + Duration::from_secs(3600),
        );
        let mut by_webhook = altered(sent, Some(&fed));
        by_webhook.finding.decide_alone = false;
        resistance.repaired(&manifest, &[], Some(by_webhook), sent);
        let due = resistance.due(manifest.key()).unwrap();
        assert!(due > sent && due <= sent + PAUSES.1);
    }

    #[tokio::test]
    async fn the_watches_end_with_the_last_object_that_waits() {
        let key = manifest("ours").key().clone();
        let ends: [fn(&Resistance, &ObjectKey); 4] = [
            |resistance, _| {
                let now = Instant::now();
                resistance.keeps_back(&manifest("ours"), &Step::Keep, None, now);
            },
            |resistance, _| {
                let now = Instant::now();
                resistance.repaired(&manifest("ours"), &[], None, now);
            },
            |resistance, key| resistance.is_right(key),
            |resistance, _| resistance.retain(|_| false),
        ];
        for end in ends {
            let (resistance, fed) = (Resistance::default(), Fed::new());
            let now = Instant::now();
            let waits = altered(now, Some(&fed));
            resistance.repaired(&manifest("ours"), &[], Some(waits), now);
            resistance.retain(|object| *object == key);
            assert_eq!(Arc::strong_count(&fed.0), 2);
            end(&resistance, &key);
            assert_eq!(Arc::strong_count(&fed.0), 1);
        }
    }
}
