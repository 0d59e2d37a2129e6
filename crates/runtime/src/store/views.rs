//! Views of the objects of a kind, for kinds whose whole objects would take too much memory.
//!
//! As with the [`cache`](crate::store::cache), watches and answers to own writes feed one
//! [table](crate::store::table) for each stream.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use weft_plan::Live;

use crate::store::{
    notifier::Notifier,
    stream::Failed,
    table::{Change, Effect, Row, Table},
    watch::Sink,
};

/// The views of the objects of one kind, by name.
pub struct Views<V> {
    view: fn(&Value) -> Option<V>,
    notifier: Notifier,
    known: Mutex<Known<V>>,
}

/// The known objects. An object without a view has a row too: nothing of it is of interest, but its
/// version counts.
pub struct Known<V>(Table<String, Option<V>>);

impl<V: PartialEq> Views<V> {
    /// Returns a store without objects. `view` makes the part of an object that is kept, if any.
    pub fn new(view: fn(&Value) -> Option<V>, notifier: Notifier) -> Self {
        Self {
            view,
            notifier,
            known: Mutex::new(Known(Table::default())),
        }
    }

    /// Looks at what is known. Never hold this across an await.
    pub fn lock(&self) -> MutexGuard<'_, Known<V>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an object as a write of Weft has left it.
    pub fn wrote(&self, object: &Value) {
        let view = (self.view)(object);
        let name = Live::of(object).name().to_owned();
        self.lock().0.wrote(name, object, view);
    }

    /// Takes out an object that Weft has deleted.
    pub fn deleted(&self, name: &str, uid: &str) {
        self.lock().0.bury(&name.to_owned(), uid);
    }
}

impl<V: PartialEq + Send> Sink for Views<V> {
    fn take(&self, change: Change) {
        if self.lock().take(change, self.view) {
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
        self.0.is_complete()
    }

    /// The views by name, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0
            .iter()
            .filter_map(|(name, row)| Some((name.as_str(), row.kept.as_ref()?)))
    }

    /// Returns the view of the object of this name.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.0.get(name)?.kept.as_ref()
    }

    /// Reports whether all objects of a list at this resourceVersion are known in that or a later
    /// version.
    pub fn has_caught_up(&self, list: &[Value], at: u64) -> bool {
        self.0.has_caught_up(list, at, name)
    }

    /// Takes in a change. Returns whether a view is different now.
    fn take(&mut self, change: Change, view: fn(&Value) -> Option<V>) -> bool {
        match self.0.take(change, name, |object| Some(view(&object))) {
            Effect::Nothing => false,
            Effect::Listed => true,
            Effect::Removed(row) => row.kept.is_some(),
            Effect::Put(name, before) => self
                .0
                .get(&name)
                .is_some_and(|now| is_news(before.as_ref(), now)),
        }
    }
}

/// Reports whether a row shows something else than the one before. The same view of another object
/// of that name is news.
fn is_news<V: PartialEq>(before: Option<&Row<Option<V>>>, now: &Row<Option<V>>) -> bool {
    match before {
        Some(before) => before.kept != now.kept || before.uid != now.uid && now.kept.is_some(),
        None => now.kept.is_some(),
    }
}

fn name(object: &Value) -> Option<String> {
    Some(Live::of(object).name().to_owned())
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
        views.take(Change::Complete(5));
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
        views.take(Change::Complete(12));
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
        views.take(Change::Complete(50));
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
