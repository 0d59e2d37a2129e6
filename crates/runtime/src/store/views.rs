//! Views of the objects of a kind, for kinds whose whole objects would take too much memory.
//!
//! As with the [`cache`](crate::store::cache), a watch and the answers to own writes feed it, so
//! that a reader never sees an object as it was before a write of ours.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};
use weft_plan::Live;

use serde_json::Value;

use crate::store::{cache::Change, notifier::Notifier, stream::Failed, watch::Sink};

/// The views of the objects of one kind, by name.
pub struct Views<V> {
    view: fn(&Value) -> Option<V>,
    notifier: Notifier,
    known: Mutex<Known<V>>,
}

/// The known objects.
pub struct Known<V> {
    objects: BTreeMap<String, Viewed<V>>,
    /// Seen since the stream started over. `None` while it runs.
    listed: Option<HashSet<String>>,
    complete: bool,
    /// Objects that we deleted, by name: late news of them is no news.
    buried: HashMap<String, String>,
}

struct Viewed<V> {
    version: u64,
    uid: String,
    /// `None`: nothing of it is of interest.
    view: Option<V>,
}

impl<V: PartialEq> Views<V> {
    /// Nothing yet. `view` says what is kept of an object. Of some, nothing.
    pub fn new(view: fn(&Value) -> Option<V>, notifier: Notifier) -> Self {
        Self {
            view,
            notifier,
            known: Mutex::new(Known {
                objects: BTreeMap::new(),
                listed: None,
                complete: false,
                buried: HashMap::new(),
            }),
        }
    }

    /// Looks at what is known. Never hold this across an await.
    pub fn lock(&self) -> MutexGuard<'_, Known<V>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an object as a write of ours has left it.
    pub fn wrote(&self, object: &Value) {
        let view = (self.view)(object);
        let mut known = self.lock();
        if let Some(listed) = &mut known.listed {
            listed.insert(name(object).to_owned());
        }
        known.put(object, view);
    }

    /// Takes out an object that we have deleted.
    pub fn deleted(&self, name: &str, uid: &str) {
        let mut known = self.lock();
        if known
            .objects
            .get(name)
            .is_some_and(|viewed| viewed.uid == uid)
        {
            known.objects.remove(name);
        }
        known.buried.insert(name.to_owned(), uid.to_owned());
    }
}

impl<V: PartialEq + Send> Sink for Views<V> {
    fn take(&self, change: Change) {
        let view = match &change {
            Change::Applied(object) | Change::Listed(object) => (self.view)(object),
            Change::Deleted(_) | Change::Rewound | Change::Restarted | Change::Complete => None,
        };
        if self.lock().take(change, view) {
            self.notifier.notify();
        }
    }

    fn failed(&self, _failed: Failed) {
        // Nothing is done before all is known. The watch has said why.
    }

    fn works(&self) {}
}

impl<V: PartialEq> Known<V> {
    /// Reports whether everything has been listed at least once.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The views, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.objects
            .iter()
            .filter_map(|(name, viewed)| Some((name.as_str(), viewed.view.as_ref()?)))
    }

    /// Returns the view of the object of this name.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.objects.get(name)?.view.as_ref()
    }

    /// Reports whether all objects of a list at this resourceVersion are known in that or a later
    /// version.
    pub fn has_caught_up(&self, list: &[Value], at: u64) -> bool {
        let uids: HashSet<_> = list
            .iter()
            .filter_map(|object| object["metadata"]["uid"].as_str())
            .collect();
        let nothing_gone = self
            .objects
            .values()
            .all(|viewed| viewed.version > at || uids.contains(viewed.uid.as_str()));
        let is_known = |object: &Value| match self.objects.get(name(object)) {
            Some(viewed) => viewed.version >= Live::of(object).resource_version(),
            None => self.buried.contains_key(name(object)),
        };
        nothing_gone && list.iter().all(is_known)
    }

    fn take(&mut self, change: Change, view: Option<V>) -> bool {
        match change {
            Change::Applied(object) => self.put(&object, view),
            Change::Deleted(object) => self.remove(&object),
            Change::Rewound => {
                // The list that follows is the truth: each object on it is newer than version 0.
                self.objects
                    .values_mut()
                    .for_each(|viewed| viewed.version = 0);
                self.buried.clear();
                false
            }
            Change::Restarted => {
                self.listed = Some(HashSet::new());
                false
            }
            Change::Listed(object) => {
                if let Some(listed) = &mut self.listed {
                    listed.insert(name(&object).to_owned());
                }
                self.put(&object, view)
            }
            Change::Complete => {
                let listed = self.listed.take().unwrap_or_default();
                let before = self.objects.len();
                self.objects.retain(|name, _| listed.contains(name));
                self.buried.clear();
                let first = !std::mem::replace(&mut self.complete, true);
                first || before != self.objects.len()
            }
        }
    }

    /// Returns whether that is news.
    fn put(&mut self, object: &Value, view: Option<V>) -> bool {
        let (name, uid, version) = (
            name(object),
            uid(object),
            Live::of(object).resource_version(),
        );
        if self.buried.get(name).is_some_and(|buried| buried == uid)
            || self
                .objects
                .get(name)
                .is_some_and(|viewed| viewed.version >= version)
        {
            return false;
        }
        let before = self.objects.insert(
            name.to_owned(),
            Viewed {
                version,
                uid: uid.to_owned(),
                view,
            },
        );
        let now = self.objects.get(name).and_then(|now| now.view.as_ref());
        match before {
            Some(before) => before.view.as_ref() != now || before.uid != uid && now.is_some(),
            None => now.is_some(),
        }
    }

    fn remove(&mut self, object: &Value) -> bool {
        let (name, uid) = (name(object), uid(object));
        if self.buried.get(name).is_some_and(|buried| buried == uid) {
            self.buried.remove(name);
            return false;
        }
        let outdated = self
            .objects
            .get(name)
            .is_none_or(|viewed| viewed.version > Live::of(object).resource_version());
        !outdated
            && self
                .objects
                .remove(name)
                .is_some_and(|gone| gone.view.is_some())
    }
}

fn name(object: &Value) -> &str {
    Live::of(object).name()
}

fn uid(object: &Value) -> &str {
    Live::of(object).uid()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn object(name: &str, uid: &str, version: u64, value: i64) -> Value {
        json!({
            "metadata": {"name": name, "uid": uid, "resourceVersion": version.to_string()},
            "value": value
        })
    }

    fn views() -> Views<i64> {
        let views = Views::new(
            |object| object["value"].as_i64().filter(|value| *value >= 0),
            Notifier::default(),
        );
        views.take(Change::Restarted);
        views.take(Change::Listed(object("a", "1", 5, 1)));
        views.take(Change::Complete);
        views
    }

    fn rung(views: &Views<i64>) -> bool {
        futures::FutureExt::now_or_never(views.notifier.notified()).is_some()
    }

    #[test]
    fn only_what_is_kept_is_news() {
        let views = views();
        assert!(rung(&views) && views.lock().is_complete());
        views.take(Change::Applied(object("a", "1", 6, 1)));
        assert!(!rung(&views));
        views.take(Change::Applied(object("a", "1", 7, 2)));
        assert!(rung(&views));
        views.take(Change::Applied(object("a", "1", 8, -1)));
        assert!(rung(&views) && views.lock().get("a").is_none());
    }

    #[test]
    fn news_from_before_an_own_write_is_none() {
        let views = views();
        views.wrote(&object("a", "1", 9, 9));
        views.take(Change::Applied(object("a", "1", 8, 8)));
        assert_eq!(views.lock().get("a"), Some(&9));
        views.deleted("a", "1");
        views.take(Change::Applied(object("a", "1", 9, 9)));
        assert_eq!(views.lock().get("a"), None);
        views.wrote(&object("a", "2", 12, 12));
        views.take(Change::Deleted(object("a", "1", 11, 9)));
        assert_eq!(views.lock().get("a"), Some(&12), "another one of that name");
        views.take(Change::Restarted);
        views.wrote(&object("b", "3", 13, 13));
        views.take(Change::Listed(object("a", "2", 12, 12)));
        views.take(Change::Complete);
        assert_eq!(
            views.lock().iter().count(),
            2,
            "what was written while a list was read is not in it"
        );
    }

    #[test]
    fn a_list_of_restored_data_replaces_what_was_known() {
        let views = views();
        views.take(Change::Applied(object("a", "1", 90, 9)));
        views.take(Change::Rewound);
        views.take(Change::Restarted);
        views.take(Change::Listed(object("a", "1", 50, 5)));
        views.take(Change::Complete);
        assert_eq!(views.lock().get("a"), Some(&5));
    }

    #[test]
    fn it_is_known_whether_a_watch_lags_behind_a_list() {
        let views = views();
        assert!(views.lock().has_caught_up(&[object("a", "1", 5, 0)], 5));
        assert!(
            !views.lock().has_caught_up(&[object("a", "1", 6, 0)], 6),
            "a change"
        );
        assert!(
            !views
                .lock()
                .has_caught_up(&[object("a", "1", 5, 0), object("b", "2", 6, 0)], 6),
            "a new one"
        );
        assert!(!views.lock().has_caught_up(&[], 6), "a deletion");
        views.take(Change::Applied(object("b", "2", 8, 0)));
        assert!(
            views.lock().has_caught_up(&[object("a", "1", 5, 0)], 7),
            "it is ahead"
        );
    }
}
