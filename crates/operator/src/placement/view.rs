//! The answers of a namespace's watches to the questions of one PlacementAPI.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use weft_placement::{
    World,
    domain::FINALIZER,
    registration::{Progress, Task},
    world::{Question, Seen},
};
use weft_plan::{
    Kind, Live, ObjectKey, Owner,
    report::{Failure, FailureClass},
    rollout::{PodView, Trouble},
};
use weft_runtime::{
    reconcile::starts::Starts,
    store::cache::{Look, Source},
};

use super::{memory::Memory, place::Place, tasks::Tasks};

/// The view of a namespace for one PlacementAPI, and the questions that were asked.
pub(super) struct View<'a> {
    pub place: &'a Place,
    pub owner: &'a Owner,
    pub failures: &'a BTreeMap<ObjectKey, Failure>,
    pub tasks: &'a Tasks,
    /// True if the PlacementAPI has Weft's finalizer. Without it, a deletion does not wait, and
    /// whatever a task has registered in Keystone would stay there.
    is_bound: bool,
    starts: &'a Starts,
    /// The operator releases objects of a kind also while the kind's definition is being deleted,
    /// because the definition waits for them.
    departs: bool,
    asked: Mutex<BTreeSet<Question>>,
    /// The pods that do not start, and whose events may have the cause.
    starting: Mutex<Vec<PodView>>,
}

impl<'a> View<'a> {
    /// Of this PlacementAPI, as it is after the operator's own writes.
    pub fn new(place: &'a Place, owner: &'a Owner, resource: &Value, memory: &'a Memory) -> Self {
        Self {
            place,
            owner,
            failures: &memory.failures,
            tasks: &memory.tasks,
            is_bound: Live::of(resource).has_finalizer(FINALIZER),
            starts: &memory.retries.starts,
            departs: false,
            asked: Mutex::default(),
            starting: Mutex::default(),
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

    /// All that was asked for, and the pods whose events matter.
    pub fn into_asked(self) -> (BTreeSet<Question>, Vec<PodView>) {
        let asked = self.asked.into_inner();
        let starting = self.starting.into_inner();
        (
            asked.unwrap_or_else(PoisonError::into_inner),
            starting.unwrap_or_else(PoisonError::into_inner),
        )
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
            Look::Known(objects) => Seen::Known(objects),
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
            // Another operator that prevents the work may disappear.
            let _ = self.object(key);
        }
        Some(failure.clone())
    }

    fn held_up(&self, pod: &PodView) -> Option<Trouble> {
        let mut starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if starting.iter().all(|other| other.uid != pod.uid) {
            starting.push(pod.clone());
        }
        self.starts.cause(pod)
    }

    fn keystone(&self, task: &Task) -> Progress {
        if !self.is_bound {
            return Progress::UnderWay;
        }
        self.tasks.ask(task, &self.place.notifier())
    }

    fn serves(&self, kind: Kind) -> bool {
        self.place.common.lock().definitions().serves(kind)
    }
}
