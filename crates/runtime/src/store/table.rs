//! The objects of one stream, by key: the only place that knows which version of an object counts.
//!
//! A watch and the answers to own writes feed a table, so that a reader never sees an object as it
//! was before a write of Weft. resourceVersions of one kind are compared as numbers (Kubernetes API
//! concepts, "Resource versions", as KEP-5647 does for the built-in controllers).

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet, HashSet},
};

use serde_json::Value;
use weft_plan::Live;

/// A message of a stream.
#[derive(Debug)]
pub enum Change {
    /// An object is there, new or changed.
    Applied(Value),
    /// An object is gone.
    Deleted(Value),
    /// The API server's data has gone back in time: the versions that are known say nothing any
    /// more.
    Rewound,
    /// All objects that are there follow.
    Restarted,
    /// One object of a list.
    Listed(Value),
    /// The end of a list at this resourceVersion. 0 if it cannot be read: only the objects on the
    /// list count then.
    Complete(u64),
}

/// The effect of a change on a table.
#[derive(Debug, PartialEq)]
pub enum Effect<K, V> {
    /// The change is older than the table, or says nothing new.
    Nothing,
    /// The table has a newer version of this object. It had this row before.
    Put(K, Option<Row<V>>),
    /// The table had this row, and has it no more.
    Removed(Row<V>),
    /// The first list is complete, or objects are gone with a later one.
    Listed,
}

/// An object in the API server's last answer.
#[derive(Debug, PartialEq)]
pub struct Row<V> {
    /// Its resourceVersion. 0 after the API server's data has gone back in time.
    version: u64,
    /// Its uid.
    pub uid: String,
    /// The part of the object that the table keeps.
    pub kept: V,
}

/// The objects of one stream.
#[derive(Debug)]
pub struct Table<K, V> {
    rows: BTreeMap<K, Row<V>>,
    /// The latest resourceVersion that the stream has shown.
    latest: u64,
    /// Seen since the stream started over. `None` while it runs.
    listed: Option<BTreeSet<K>>,
    complete: bool,
    /// Objects that Weft deleted, with their uids: late news of them is no news.
    buried: BTreeMap<K, String>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            latest: 0,
            listed: None,
            complete: false,
            buried: BTreeMap::new(),
        }
    }
}

impl<K: Clone + Ord, V> Table<K, V> {
    /// Reports whether everything has been listed at least once.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the row of this key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&Row<V>>
    where
        K: Borrow<Q>,
    {
        self.rows.get(key)
    }

    /// All rows, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Row<V>)> {
        self.rows.iter()
    }

    /// All rows in the order of their keys, to change what is kept.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut Row<V>)> {
        self.rows.iter_mut()
    }

    /// Takes in a change of the stream. An object without a key counts as none. `keep` makes the
    /// part of an object that is kept. An object of which it keeps nothing counts as gone.
    pub fn take(
        &mut self,
        change: Change,
        key: impl Fn(&Value) -> Option<K>,
        keep: impl FnOnce(Value) -> Option<V>,
    ) -> Effect<K, V> {
        match change {
            Change::Applied(object) => {
                let Some(key) = key(&object) else {
                    return Effect::Nothing;
                };
                let identity = self.seen(&object);
                match keep(object) {
                    Some(kept) => self.put(key, identity, kept),
                    None => self.remove(&key, &identity),
                }
            }
            Change::Listed(object) => {
                let Some(key) = key(&object) else {
                    return Effect::Nothing;
                };
                let identity = self.seen(&object);
                let Some(kept) = keep(object) else {
                    return Effect::Nothing;
                };
                if let Some(listed) = &mut self.listed {
                    listed.insert(key.clone());
                }
                self.put(key, identity, kept)
            }
            Change::Deleted(object) => {
                let identity = self.seen(&object);
                key(&object).map_or(Effect::Nothing, |key| self.remove(&key, &identity))
            }
            Change::Rewound => {
                // The list that follows is the truth: each object on it is newer than version 0.
                self.rows.values_mut().for_each(|row| row.version = 0);
                self.latest = 0;
                self.buried.clear();
                Effect::Nothing
            }
            Change::Restarted => {
                self.listed = Some(BTreeSet::new());
                Effect::Nothing
            }
            Change::Complete(at) => {
                let listed = self.listed.take().unwrap_or_default();
                let before = self.rows.len();
                // The list lacks the objects that Weft has written since the API server began to
                // answer it.
                let is_later = |row: &Row<V>| at > 0 && row.version > at;
                self.rows
                    .retain(|key, row| is_later(row) || listed.contains(key));
                self.latest = self.latest.max(at);
                self.buried.clear();
                let first = !std::mem::replace(&mut self.complete, true);
                if first || before != self.rows.len() {
                    Effect::Listed
                } else {
                    Effect::Nothing
                }
            }
        }
    }

    /// Takes in an object of this stream as a write of Weft has left it. The stream may have shown
    /// its end already: it is of no use then.
    pub fn wrote(&mut self, key: K, object: &Value, kept: V) {
        let identity = Identity::of(object);
        let is_over = identity.version <= self.latest && !self.rows.contains_key(&key);
        if !is_over {
            self.put(key, identity, kept);
        }
    }

    /// Takes out an object that Weft has deleted, or that was not found where it should be.
    pub fn bury(&mut self, key: &K, uid: &str) {
        if self.rows.get(key).is_some_and(|row| row.uid == uid) {
            self.rows.remove(key);
        }
        self.buried.insert(key.clone(), uid.to_owned());
    }

    /// Takes in a list at this resourceVersion next to the stream. The stream may lag behind the
    /// list, or be ahead. In the second case the list is of no use.
    pub fn looked(
        &mut self,
        list: Vec<Value>,
        at: u64,
        key: impl Fn(&Value) -> Option<K>,
        keep: impl Fn(Value) -> Option<V>,
    ) {
        if self.latest > at {
            return;
        }
        let uids: HashSet<_> = list.iter().map(|object| Live::of(object).uid()).collect();
        self.rows
            .retain(|_, row| row.version > at || uids.contains(row.uid.as_str()));
        for object in list {
            let identity = Identity::of(&object);
            if let Some(key) = key(&object)
                && let Some(kept) = keep(object)
            {
                self.put(key, identity, kept);
            }
        }
    }

    /// Reports whether all objects of a list at this resourceVersion are known in that or a later
    /// version.
    pub fn has_caught_up(
        &self,
        list: &[Value],
        at: u64,
        key: impl Fn(&Value) -> Option<K>,
    ) -> bool {
        let uids: HashSet<_> = list.iter().map(|object| Live::of(object).uid()).collect();
        let nothing_gone = self
            .rows
            .values()
            .all(|row| row.version > at || uids.contains(row.uid.as_str()));
        let is_known = |object: &Value| {
            let Some(key) = key(object) else {
                return true;
            };
            match self.rows.get(&key) {
                Some(row) => row.version >= Live::of(object).resource_version(),
                None => self.buried.contains_key(&key),
            }
        };
        nothing_gone && list.iter().all(is_known)
    }

    /// Notes that the stream has shown this object.
    fn seen(&mut self, object: &Value) -> Identity {
        let identity = Identity::of(object);
        self.latest = self.latest.max(identity.version);
        identity
    }

    fn put(&mut self, key: K, identity: Identity, kept: V) -> Effect<K, V> {
        let Identity { version, uid } = identity;
        let is_outdated = self.buried.get(&key).is_some_and(|buried| *buried == uid)
            || self
                .rows
                .get(&key)
                .is_some_and(|row| row.version >= version);
        if is_outdated {
            return Effect::Nothing;
        }
        let row = Row { version, uid, kept };
        let before = self.rows.insert(key.clone(), row);
        Effect::Put(key, before)
    }

    fn remove(&mut self, key: &K, identity: &Identity) -> Effect<K, V> {
        if self.buried.get(key).is_some_and(|uid| *uid == identity.uid) {
            self.buried.remove(key);
            return Effect::Nothing;
        }
        // A write of Weft may have been put in before this news came: a new object of that name, or
        // the same one with Weft's label again. (To a watch by label, an object that loses it is
        // deleted. The version is that of the deletion or of the loss.)
        let is_outdated = self
            .rows
            .get(key)
            .is_none_or(|row| row.version > identity.version);
        if is_outdated {
            return Effect::Nothing;
        }
        self.rows
            .remove(key)
            .map_or(Effect::Nothing, Effect::Removed)
    }
}

/// The version of an object, and the object that it is a version of.
struct Identity {
    version: u64,
    uid: String,
}

impl Identity {
    fn of(object: &Value) -> Self {
        let live = Live::of(object);
        Self {
            version: live.resource_version(),
            uid: live.uid().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, uid: &str, version: u64) -> Value {
        json!({"metadata": {"name": name, "uid": uid, "resourceVersion": version.to_string()}})
    }

    fn name(object: &Value) -> Option<String> {
        Some(Live::of(object).name().to_owned())
    }

    fn take(table: &mut Table<String, u64>, change: Change) -> Effect<String, u64> {
        table.take(change, name, |object| {
            Some(Live::of(&object).resource_version())
        })
    }

    fn table() -> Table<String, u64> {
        let mut table = Table::default();
        take(&mut table, Change::Restarted);
        take(&mut table, Change::Listed(object("a", "1", 5)));
        assert_eq!(take(&mut table, Change::Complete(5)), Effect::Listed);
        table
    }

    fn known(table: &Table<String, u64>) -> Option<u64> {
        table.get("a").map(|row| row.kept)
    }

    #[test]
    fn a_late_event_never_undoes_a_write_of_weft() {
        let mut table = table();
        table.wrote("a".into(), &object("a", "1", 10), 10);
        let late = take(&mut table, Change::Applied(object("a", "1", 9)));
        assert_eq!((late, known(&table)), (Effect::Nothing, Some(10)));
        table.bury(&"a".into(), "1");
        let late = take(&mut table, Change::Applied(object("a", "1", 10)));
        assert_eq!((late, known(&table)), (Effect::Nothing, None));
        table.wrote("a".into(), &object("a", "2", 12), 12);
        take(&mut table, Change::Deleted(object("a", "1", 11)));
        assert_eq!(known(&table), Some(12), "its predecessor has ended");
        take(&mut table, Change::Deleted(object("a", "2", 11)));
        assert_eq!(known(&table), Some(12), "Weft put its label back since");
        take(&mut table, Change::Deleted(object("a", "2", 13)));
        assert_eq!(known(&table), None);
    }

    #[test]
    fn an_object_of_which_nothing_is_kept_counts_as_gone() {
        let mut table = table();
        let gone = table.take(Change::Applied(object("a", "1", 6)), name, |_| None);
        assert!(matches!(gone, Effect::Removed(row) if row.kept == 5));
        assert_eq!(known(&table), None);
    }

    #[test]
    fn an_object_written_during_a_list_survives_its_end() {
        let mut table = table();
        take(&mut table, Change::Restarted);
        table.wrote("b".into(), &object("b", "2", 6), 6);
        take(&mut table, Change::Listed(object("a", "1", 5)));
        assert_eq!(take(&mut table, Change::Complete(5)), Effect::Nothing);
        assert_eq!(table.iter().count(), 2);
    }

    #[test]
    fn an_answer_that_comes_after_the_end_of_its_object_revives_nothing() {
        let mut table = table();
        take(&mut table, Change::Applied(object("a", "1", 6)));
        take(&mut table, Change::Deleted(object("a", "1", 7)));
        table.wrote("a".into(), &object("a", "1", 6), 6);
        assert_eq!(known(&table), None);
        table.wrote("a".into(), &object("a", "2", 8), 8);
        assert_eq!(known(&table), Some(8), "another object of that name");
    }

    #[test]
    fn a_list_at_a_later_version_shows_the_end_of_what_was_written_before() {
        let mut table = table();
        take(&mut table, Change::Restarted);
        table.wrote("b".into(), &object("b", "2", 6), 6);
        take(&mut table, Change::Listed(object("a", "1", 5)));
        assert_eq!(take(&mut table, Change::Complete(8)), Effect::Listed);
        assert_eq!(table.iter().count(), 1);
        table.wrote("b".into(), &object("b", "2", 6), 6);
        assert_eq!(table.iter().count(), 1, "the answer comes after the list");
    }

    #[test]
    fn a_list_without_a_version_shows_what_is_there_and_hides_no_later_write() {
        let mut table = table();
        take(&mut table, Change::Restarted);
        assert_eq!(take(&mut table, Change::Complete(0)), Effect::Listed);
        assert_eq!(known(&table), None);
        table.wrote("a".into(), &object("a", "2", 6), 6);
        assert_eq!(known(&table), Some(6));
    }

    #[test]
    fn a_list_of_restored_data_replaces_later_versions() {
        let mut table = table();
        take(&mut table, Change::Applied(object("a", "1", 90)));
        take(&mut table, Change::Rewound);
        take(&mut table, Change::Restarted);
        assert_eq!(known(&table), Some(90), "until the list is complete");
        take(&mut table, Change::Listed(object("a", "1", 50)));
        take(&mut table, Change::Complete(50));
        assert_eq!(known(&table), Some(50));
    }

    #[test]
    fn a_list_next_to_the_stream_counts_only_if_the_stream_lags() {
        let keep = |object: Value| Some(Live::of(&object).resource_version());
        let mut table = table();
        table.looked(Vec::new(), 4, name, keep);
        assert_eq!(known(&table), Some(5), "the object is newer than the list");
        table.looked(vec![object("a", "2", 7)], 8, name, keep);
        assert_eq!(known(&table), Some(7));
        table.looked(Vec::new(), 9, name, keep);
        assert_eq!(known(&table), None);
    }

    #[test]
    fn a_table_has_caught_up_once_it_knows_each_object_of_a_list() {
        let mut table = table();
        let caught_up =
            |table: &Table<_, _>, list: &[Value], at| table.has_caught_up(list, at, name);
        assert!(caught_up(&table, &[object("a", "1", 5)], 5));
        assert!(!caught_up(&table, &[object("a", "1", 6)], 6), "a change");
        let two = [object("a", "1", 5), object("b", "2", 6)];
        assert!(!caught_up(&table, &two, 6), "a new object");
        assert!(!caught_up(&table, &[], 6), "a deletion");
        take(&mut table, Change::Applied(object("b", "2", 8)));
        assert!(caught_up(&table, &two[..1], 7), "the table is ahead");
    }
}
