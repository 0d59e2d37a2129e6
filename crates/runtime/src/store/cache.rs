//! The store of this replica: Weft's objects, and the few other objects that it looks at.
//!
//! It is a plain struct without I/O. Watches feed it, and answers to own writes go into it, so that
//! a reader never sees an object as it was before a write of ours. resourceVersions of one kind are
//! compared as numbers (Kubernetes API concepts, "Resource versions", as KEP-5647 does for the
//! built-in controllers).
//!
//! Objects are kept as text and read when they are looked at: managed fields make most of an
//! object, and as a tree they take ten times the memory.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::{Value, json};
use weft_plan::{
    Fact, Facts, Inventory, Kind, Live, OWNER_LABEL, ObjectKey, kinds, rollout::PodView,
};

/// A stream of objects that the cache is fed from. One kind may come from several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The resources of the domain.
    Resources,
    /// The objects of this kind that are Weft's, in one namespace or everywhere.
    Owned(Kind, Option<String>),
    /// The pods of the workloads.
    Pods,
    /// Workloads of this kind and name anywhere: an operator of the domain, Weft's or another.
    Operators(Kind, &'static str),
    /// Of all objects of this kind those by which another operator has the API server ask about
    /// what Weft writes.
    Admission(Kind),
    /// Objects that facts of the cluster are made from. The store keeps only the parts that matter.
    Fact(Fact),
    /// One object that a workload or a decision depends on, whosever it is: its metadata, or all of
    /// it.
    Named(ObjectKey),
    /// The objects of this kind in one namespace, or everywhere, that a label selector chooses,
    /// whosever they are. All if that is empty.
    Selected(Kind, Option<String>, String),
}

/// The known objects of others.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    /// Nobody watches, or the watch has not answered yet.
    Unknown,
    /// The cluster does not serve the kind.
    NotServed,
    /// The API server lets us read nothing of it, in these words.
    Refused(String),
    /// These are there, by name.
    Told(Vec<Arc<Value>>),
}

/// The result of a watch by name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ByName {
    /// There is no such watch, it may not look, or it has not answered yet.
    Unknown,
    /// The object is not there.
    Gone,
    /// It is there: its metadata, or all of it.
    There(Arc<Value>),
}

/// The reason why a stream shows nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The API server lets us read nothing of it, in these words.
    Refused(String),
    /// The cluster does not serve the kind, or not yet.
    NotServed,
}

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
    /// The end of a list.
    Complete,
}

/// The objects of the cluster that this replica knows.
#[derive(Default)]
pub struct Cache {
    stores: HashMap<Source, Store>,
    pods: HashMap<String, PodView>,
    /// Pods seen since their stream started over. `None` while it runs.
    listed_pods: Option<HashSet<String>>,
    /// The MTU of the operator's own host.
    host_mtu: Option<u32>,
    /// The namespaces whose pods may report on nodes.
    node_reporters: Vec<&'static str>,
    /// Which objects of [`Source::Admission`] are kept.
    admission: Option<fn(&Value) -> bool>,
    /// Of which of the objects with Weft's label more than the identity is kept. `None` while that
    /// is not known.
    wanted: Option<HashSet<ObjectKey>>,
    /// Kinds that a cluster may lack and that no stream shows.
    unwatched: Vec<Kind>,
}

/// Up to this size, in bytes, an object with Weft's label is kept whole while it is not known which
/// are wanted. Weft's own are smaller, but anybody who may write objects in a namespace may put the
/// label on large ones.
const SMALL: usize = 32 * 1024;

#[derive(Default)]
struct Store {
    complete: bool,
    silence: Option<Silence>,
    objects: HashMap<ObjectKey, Known>,
    /// The latest resourceVersion that the stream has shown.
    told: u64,
    /// Seen since the stream started over. `None` while it runs.
    listed: Option<HashSet<ObjectKey>>,
    /// Objects that we deleted: late news of them is no news.
    buried: HashMap<ObjectKey, String>,
}

/// An object in the API server's last answer.
struct Known {
    version: u64,
    uid: String,
    /// Its JSON. `None` if only its identity is kept.
    text: Option<Box<str>>,
}

impl Known {
    fn new(object: &Value) -> Self {
        let uid = Live::of(object).uid().to_owned();
        Self {
            version: Live::of(object).resource_version(),
            uid,
            text: Some(object.to_string().into()),
        }
    }

    /// The object, if more than its identity is kept.
    fn object(&self) -> Option<Arc<Value>> {
        // It was written from a value.
        self.text
            .as_ref()
            .map(|text| Arc::new(serde_json::from_str(text).unwrap_or_default()))
    }

    fn size(&self) -> usize {
        self.text.as_ref().map_or(0, |text| text.len())
    }
}

impl Cache {
    /// Notes the MTU of the network of the operator's own host.
    pub fn set_host_mtu(&mut self, mtu: Option<u32>) {
        self.host_mtu = mtu;
    }

    /// Sets the namespaces whose pods may report on their nodes.
    pub(crate) fn set_node_reporters(&mut self, namespaces: Vec<&'static str>) {
        self.node_reporters = namespaces;
    }

    /// Sets the rule that recognizes another operator's objects of admission.
    pub(crate) fn set_admission(&mut self, is_theirs: Option<fn(&Value) -> bool>) {
        self.admission = is_theirs;
    }

    /// Forgets everything that streams brought, and the streams.
    pub fn start_over(&mut self) {
        (self.stores, self.pods, self.listed_pods, self.wanted) = Default::default();
    }

    /// Notes for which kinds that a cluster may lack there is no stream: their definitions alone
    /// say whether they are served.
    pub(crate) fn set_unwatched(&mut self, kinds: Vec<Kind>) {
        self.unwatched = kinds;
    }

    /// Announces a stream, so that the cache is not complete until it has spoken.
    pub fn expect(&mut self, source: Source) {
        self.stores.entry(source).or_default();
    }

    /// Forgets a stream and what it brought.
    pub(crate) fn retire(&mut self, source: &Source) {
        self.stores.remove(source);
    }

    /// Reports whether every stream has listed everything at least once.
    pub fn is_complete(&self) -> bool {
        !self.stores.is_empty()
            && self
                .stores
                .values()
                .all(|store| store.complete || store.silence == Some(Silence::NotServed))
    }

    /// Reports whether this stream has listed everything at least once.
    pub(crate) fn has_spoken(&self, source: &Source) -> bool {
        self.stores.get(source).is_some_and(|store| store.complete)
    }

    /// Reports whether enough is known to act. Every stream has listed its objects or may not,
    /// apart from those of single objects. The resources themselves must be known.
    pub fn may_act(&self) -> bool {
        let counts = |source: &Source| !source.is_of_others();
        !self.stores.is_empty()
            && self
                .stores
                .iter()
                .filter(|(source, _)| counts(source))
                .all(|(source, store)| store.is_settled(source))
    }

    /// Reports whether enough is known to write status as well, because no further answer is due
    /// soon.
    pub(crate) fn is_settled(&self) -> bool {
        !self.stores.is_empty()
            && self
                .stores
                .iter()
                .all(|(source, store)| store.is_settled(source))
    }

    /// Notes that a stream shows nothing, or that it does again. Returns whether that is new.
    pub(crate) fn silence(&mut self, source: &Source, why: Option<Silence>) -> bool {
        let Some(store) = self.stores.get_mut(source) else {
            return false;
        };
        let new = store.silence != why;
        store.silence = why;
        new
    }

    /// Why a stream is refused, if it is.
    pub fn refusal(&self, source: &Source) -> Option<&str> {
        self.stores.get(source)?.refusal()
    }

    /// Reports whether all of Weft's objects of this kind and place are known.
    pub(crate) fn sees_all_like(&self, key: &ObjectKey) -> bool {
        let sources = [
            Source::Owned(key.kind, key.namespace.clone()),
            Source::Owned(key.kind, None),
        ];
        sources
            .iter()
            .filter_map(|source| self.stores.get(source))
            .any(|store| store.complete && store.silence.is_none())
    }

    /// Returns the reason why Weft's objects of this kind and place cannot be watched.
    pub(crate) fn blind_to(&self, key: &ObjectKey) -> Option<&str> {
        [
            Source::Owned(key.kind, key.namespace.clone()),
            Source::Owned(key.kind, None),
        ]
        .iter()
        .find_map(|source| self.refusal(source))
    }

    /// Takes in what a stream says. Returns whether anything is different now.
    pub fn feed(&mut self, source: &Source, change: Change) -> bool {
        if *source == Source::Pods {
            return self.feed_pod(change);
        }
        let Some(store) = self.stores.get_mut(source) else {
            return false;
        };
        if let Source::Fact(fact) = source {
            return store.feed_fact(*fact, change);
        }
        let is_wanted = |object: &Value| {
            !matches!(source, Source::Admission(_))
                || self.admission.is_some_and(|is_theirs| is_theirs(object))
        };
        match change {
            // An object that belongs to another owner from now on counts as gone.
            Change::Applied(object) if !is_wanted(&object) => store.feed(Change::Deleted(object)),
            Change::Listed(object) if !is_wanted(&object) => false,
            change => {
                let key = match &change {
                    Change::Applied(object) | Change::Listed(object)
                        if matches!(source, Source::Owned(..)) =>
                    {
                        ObjectKey::of(object)
                    }
                    _ => None,
                };
                let new = store.feed(change);
                if let Some(key) = key
                    && let Some(known) = store.objects.get_mut(&key)
                    && !keeps(self.wanted.as_ref(), &key, known.size())
                {
                    known.text = None;
                }
                new
            }
        }
    }

    /// Notes which of the objects with Weft's label matter. Of each other one only the identity is
    /// kept: anybody who may write objects in a namespace may put the label on them.
    pub fn want(&mut self, wanted: HashSet<ObjectKey>) {
        for (source, store) in &mut self.stores {
            if matches!(source, Source::Owned(..)) {
                store
                    .objects
                    .iter_mut()
                    .filter(|(key, known)| !keeps(Some(&wanted), key, known.size()))
                    .for_each(|(_, known)| known.text = None);
            }
        }
        self.wanted = Some(wanted);
    }

    /// Takes in a list at this resourceVersion next to a stream. The stream may lag behind the
    /// list, or be ahead. In the second case the list is of no use.
    pub fn looked(&mut self, source: &Source, objects: Vec<Value>, version: u64) {
        let Some(store) = self
            .stores
            .get_mut(source)
            .filter(|store| store.told <= version)
        else {
            return;
        };
        store.objects.retain(|_, known| {
            known.version > version
                || objects
                    .iter()
                    .any(|object| object["metadata"]["uid"] == *known.uid)
        });
        for object in objects {
            store.put(object);
        }
    }

    fn feed_pod(&mut self, change: Change) -> bool {
        match change {
            Change::Applied(pod) | Change::Listed(pod) => {
                let Some(view) = PodView::of(&pod) else {
                    return false;
                };
                if let Some(listed) = &mut self.listed_pods {
                    listed.insert(view.uid.clone());
                }
                self.pods.insert(view.uid.clone(), view.clone()).as_ref() != Some(&view)
            }
            Change::Deleted(pod) => pod
                .pointer("/metadata/uid")
                .and_then(Value::as_str)
                .is_some_and(|uid| self.pods.remove(uid).is_some()),
            // Pods are known by their uids, and each list takes out those that are not on it.
            Change::Rewound => false,
            Change::Restarted => {
                self.listed_pods = Some(HashSet::new());
                false
            }
            Change::Complete => {
                let listed = self.listed_pods.take().unwrap_or_default();
                let before = self.pods.len();
                self.pods.retain(|uid, _| listed.contains(uid));
                let first = !std::mem::replace(
                    &mut self.stores.entry(Source::Pods).or_default().complete,
                    true,
                );
                first || before != self.pods.len()
            }
        }
    }

    /// The pods of the workloads.
    pub fn pods(&self) -> impl Iterator<Item = &PodView> {
        self.pods.values()
    }

    /// Returns an object of Weft's. An object that Weft may no longer see is not known.
    pub fn owned(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        let sources = [
            Source::Owned(key.kind, key.namespace.clone()),
            Source::Owned(key.kind, None),
        ];
        sources.iter().find_map(|source| {
            self.stores
                .get(source)
                .filter(|store| store.refusal().is_none())?
                .objects
                .get(key)?
                .object()
        })
    }

    /// The resources of this kind that have an inventory in this namespace, by their names.
    pub fn inventories(&self, kind: Kind, namespace: &str) -> Vec<String> {
        let prefix = Inventory::config_map_name(kind, "");
        let sources = [
            Source::Owned(kinds::CONFIG_MAP, Some(namespace.to_owned())),
            Source::Owned(kinds::CONFIG_MAP, None),
        ];
        let keys = sources
            .iter()
            .filter_map(|source| self.stores.get(source))
            .flat_map(|store| store.objects.keys());
        let there = keys.filter(|key| key.namespace.as_deref() == Some(namespace));
        there
            .filter_map(|key| key.name.strip_prefix(&prefix).map(str::to_owned))
            .collect()
    }

    /// The resources of the domain.
    pub fn resources(&self) -> Vec<Arc<Value>> {
        self.stores
            .get(&Source::Resources)
            .map(|store| store.objects.values().filter_map(Known::object).collect())
            .unwrap_or_default()
    }

    /// Workloads that may be operators of the domain, and what may be left of them.
    pub fn operators(&self) -> Vec<Arc<Value>> {
        let stores = self
            .stores
            .iter()
            .filter(|(source, _)| source.is_of_operators());
        stores
            .flat_map(|(_, store)| store.objects.values().filter_map(Known::object))
            .collect()
    }

    /// Why it cannot be seen whether there is another operator, if that is so.
    pub(crate) fn blind_to_operators(&self) -> Option<&str> {
        self.stores
            .iter()
            .find_map(|(source, store)| source.is_of_operators().then(|| store.refusal()).flatten())
    }

    /// Returns the kinds that the cluster serves next to those of Kubernetes, by their definitions.
    pub fn definitions(&self) -> Facts {
        self.facts_of(|fact| fact == Fact::Definitions)
    }

    /// Returns the known facts of the cluster. A kind that a cluster may lack counts as served once
    /// its own stream has listed its objects. A decision then knows which of them Weft has, and the
    /// API server is ready to take more. A kind that is never watched counts as served as soon as
    /// its definition exists.
    pub fn facts(&self) -> Facts {
        let mut facts = self.facts_of(|_| true);
        facts.nodes_unknown = self.refusal(&Source::Fact(Fact::Nodes)).is_some();
        facts.host_mtu = self.host_mtu;
        facts.hear(self.pods.values(), &self.node_reporters);
        let has_told = |(source, store): &(&Source, &Store)| {
            store.is_settled(source) && store.silence != Some(Silence::NotServed)
        };
        let told: HashSet<_> = self
            .stores
            .iter()
            .filter(has_told)
            .filter_map(|(source, _)| source.kind())
            .collect();
        let is_unknown = |kind: &&Kind| {
            kind.is_optional() && !told.contains(kind) && !self.unwatched.contains(kind)
        };
        for kind in kinds::ALL.iter().filter(is_unknown) {
            facts.definitions.remove(&kind.definition());
        }
        facts
    }

    fn facts_of(&self, wanted: impl Fn(Fact) -> bool) -> Facts {
        let mut facts = Facts::default();
        for (source, store) in &self.stores {
            if let Source::Fact(fact) = source
                && wanted(*fact)
            {
                let objects = store
                    .objects
                    .iter()
                    .filter_map(|(key, known)| Some((key, known.object()?)));
                objects.for_each(|(key, object)| facts.add(*fact, &key.name, &object["view"]));
            }
        }
        facts
    }

    /// Returns the known objects of others.
    pub fn look(&self, source: &Source) -> Look {
        let Some(store) = self.stores.get(source) else {
            return Look::Unknown;
        };
        match &store.silence {
            Some(Silence::Refused(why)) => Look::Refused(why.clone()),
            Some(Silence::NotServed) => Look::NotServed,
            None if store.complete => Look::Told(store.sorted()),
            None => Look::Unknown,
        }
    }

    /// All objects of Weft's of a kind in a namespace, by name.
    pub fn owned_of(&self, kind: Kind, namespace: &str) -> Vec<Arc<Value>> {
        self.stores
            .get(&Source::Owned(kind, Some(namespace.to_owned())))
            .map(Store::sorted)
            .unwrap_or_default()
    }

    /// Returns whether an object that is watched by name exists, or `None` if that is not known.
    pub fn exists(&self, key: &ObjectKey) -> Option<bool> {
        let store = self.stores.get(&Source::Named(key.clone()))?;
        store.complete.then(|| store.objects.contains_key(key))
    }

    /// Returns the result of a watch by name, whoever owns the object.
    pub(crate) fn by_name(&self, key: &ObjectKey) -> ByName {
        match self.stores.get(&Source::Named(key.clone())) {
            Some(store) if store.complete && store.silence.is_none() => store
                .objects
                .get(key)
                .and_then(Known::object)
                .map_or(ByName::Gone, ByName::There),
            _ => ByName::Unknown,
        }
    }

    /// Returns an object that is being deleted and whose end a watch will show.
    pub fn going(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        let by_name = || match self.by_name(key) {
            ByName::There(object) => Some(object),
            ByName::Gone | ByName::Unknown => None,
        };
        self.owned(key)
            .or_else(by_name)
            .filter(|object| Live::of(object).is_being_deleted())
    }

    /// Returns the generation of the definition of a kind, if the cluster may lack the kind and
    /// facts show it.
    pub fn definition_of(&self, kind: Kind) -> Option<i64> {
        let key = ObjectKey::new(kinds::CUSTOM_RESOURCE_DEFINITION, "", &kind.definition());
        self.stores
            .get(&Source::Fact(Fact::Definitions))?
            .objects
            .get(&key)?
            .object()?["view"]["generation"]
            .as_i64()
    }

    /// Puts in what the API server answered to a write of ours.
    pub fn wrote(&mut self, object: &Value) {
        let Some(key) = ObjectKey::of(object) else {
            return;
        };
        let by_name = Source::Named(key.clone());
        for source in [
            Source::Owned(key.kind, key.namespace.clone()),
            Source::Owned(key.kind, None),
            Source::Resources,
            by_name,
        ] {
            let Some(store) = self.stores.get_mut(&source) else {
                continue;
            };
            let right = match source {
                Source::Named(_) => true,
                // The stream never shows another owner's object, although we wrote something on it.
                Source::Owned(..) if Live::of(object).label(OWNER_LABEL).is_some() => true,
                _ => store.objects.contains_key(&key),
            };
            if right {
                store.put(object.clone());
                if let Some(listed) = &mut store.listed {
                    listed.insert(key.clone());
                }
            }
        }
        // Only its stream shows whether a selector still chooses it.
        for (source, store) in &mut self.stores {
            if matches!(source, Source::Selected(..)) && store.objects.contains_key(&key) {
                store.put(object.clone());
            }
        }
    }

    /// Takes out what is known to be gone: deleted by us, or not found where it should be.
    pub fn gone(&mut self, key: &ObjectKey, uid: &str) {
        for source in [
            Source::Owned(key.kind, key.namespace.clone()),
            Source::Owned(key.kind, None),
        ] {
            if let Some(store) = self.stores.get_mut(&source) {
                if store.objects.get(key).is_some_and(|known| known.uid == uid) {
                    store.objects.remove(key);
                }
                store.buried.insert(key.clone(), uid.to_owned());
            }
        }
    }
}

/// Reports whether more than the identity of an object of this size is kept.
fn keeps(wanted: Option<&HashSet<ObjectKey>>, key: &ObjectKey, size: usize) -> bool {
    // By their names inventories are found.
    let is_inventory = key.kind == kinds::CONFIG_MAP && key.name.starts_with(Inventory::PREFIX);
    is_inventory || wanted.map_or(size <= SMALL, |wanted| wanted.contains(key))
}

impl Source {
    /// Returns the kind, if the stream is about the kind as such.
    fn kind(&self) -> Option<Kind> {
        match self {
            Self::Owned(kind, _) => Some(*kind),
            Self::Fact(fact) => Some(fact.objects().kind),
            Self::Resources
            | Self::Pods
            | Self::Operators(..)
            | Self::Admission(_)
            | Self::Named(_)
            | Self::Selected(..) => None,
        }
    }

    /// Reports whether the stream is about other operators.
    fn is_of_operators(&self) -> bool {
        matches!(self, Self::Operators(..) | Self::Admission(_))
    }

    /// Reports whether the stream is about objects of others that a single object depends on. It
    /// holds up nothing else.
    pub(crate) fn is_of_others(&self) -> bool {
        matches!(self, Self::Named(_) | Self::Selected(..))
    }
}

impl Store {
    fn is_settled(&self, source: &Source) -> bool {
        self.complete || self.silence.is_some() && *source != Source::Resources
    }

    fn sorted(&self) -> Vec<Arc<Value>> {
        let mut all: Vec<_> = self.objects.iter().collect();
        all.sort_by_key(|(key, _)| *key);
        all.into_iter()
            .filter_map(|(_, known)| known.object())
            .collect()
    }

    fn refusal(&self) -> Option<&str> {
        match &self.silence {
            Some(Silence::Refused(why)) => Some(why),
            Some(Silence::NotServed) | None => None,
        }
    }

    fn feed(&mut self, change: Change) -> bool {
        if let Change::Applied(object) | Change::Deleted(object) | Change::Listed(object) = &change
        {
            self.told = self.told.max(Live::of(object).resource_version());
        }
        match change {
            Change::Applied(object) => self.put(object),
            Change::Deleted(object) => self.take(&object),
            Change::Rewound => {
                // The list that follows is the truth: each object on it is newer than version 0.
                self.objects
                    .values_mut()
                    .for_each(|known| known.version = 0);
                self.told = 0;
                self.buried.clear();
                false
            }
            Change::Restarted => {
                self.listed = Some(HashSet::new());
                false
            }
            Change::Listed(object) => {
                if let (Some(listed), Some(key)) = (&mut self.listed, ObjectKey::of(&object)) {
                    listed.insert(key);
                }
                self.put(object)
            }
            Change::Complete => {
                let listed = self.listed.take().unwrap_or_default();
                let before = self.objects.len();
                self.objects.retain(|key, _| listed.contains(key));
                self.buried.clear();
                let first = !std::mem::replace(&mut self.complete, true);
                first || before != self.objects.len()
            }
        }
    }

    /// Keeps the view of a fact alone, if there is any. An object with the same view is no news.
    /// (Nodes say every few minutes that they are alive.)
    fn feed_fact(&mut self, fact: Fact, change: Change) -> bool {
        let reduced = |object: &Value| {
            let metadata = &object["metadata"];
            let identity = json!({
                "namespace": metadata["namespace"], "name": metadata["name"],
                "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]
            });
            json!({
                "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": identity,
                "view": fact.view(object)
            })
        };
        let change = match change {
            Change::Applied(object) if fact.view(&object).is_null() => {
                Change::Deleted(reduced(&object))
            }
            Change::Listed(object) if fact.view(&object).is_null() => return false,
            Change::Applied(object) => Change::Applied(reduced(&object)),
            Change::Listed(object) => Change::Listed(reduced(&object)),
            other => other,
        };
        let known = match &change {
            Change::Applied(object) | Change::Listed(object) => ObjectKey::of(object)
                .and_then(|key| self.objects.get(&key)?.object())
                .is_some_and(|known| known["view"] == object["view"]),
            _ => false,
        };
        self.feed(change) && !known
    }

    fn put(&mut self, mut object: Value) -> bool {
        let Some(key) = ObjectKey::of(&object) else {
            return false;
        };
        if self
            .buried
            .get(&key)
            .is_some_and(|uid| Live::of(&object).uid() == uid.as_str())
        {
            return false;
        }
        if let Some(known) = self.objects.get(&key)
            && known.version >= Live::of(&object).resource_version()
        {
            return false;
        }
        if let Some(annotations) = object
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut)
        {
            // As large as the object, and nothing reads it.
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
        self.objects.insert(key, Known::new(&object));
        true
    }

    fn take(&mut self, object: &Value) -> bool {
        let Some(key) = ObjectKey::of(object) else {
            return false;
        };
        if self
            .buried
            .get(&key)
            .is_some_and(|uid| Live::of(object).uid() == uid.as_str())
        {
            self.buried.remove(&key);
            return false;
        }
        // A write of ours may have been put in before this news came: a new object of that name, or
        // the same one with our label again. (To a watch by label, an object that loses it is
        // deleted. The version is that of the deletion or of the loss.)
        let outdated = self
            .objects
            .get(&key)
            .is_none_or(|known| known.version > Live::of(object).resource_version());
        !outdated && self.objects.remove(&key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_a_cluster_may_lack_is_served_once_its_stream_has_spoken() {
        let definitions = Source::Fact(Fact::Definitions);
        let definition = |version: u64, name: &str| {
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()}
            })
        };
        let mut cache = Cache::default();
        cache.expect(definitions.clone());
        cache.feed(&definitions, Change::Restarted);
        assert!(
            !cache.feed(
                &definitions,
                Change::Listed(definition(1, "widgets.example.com"))
            ),
            "nothing depends on it"
        );
        assert!(cache.feed(
            &definitions,
            Change::Listed(definition(2, "issuers.cert-manager.io"))
        ));
        cache.feed(&definitions, Change::Complete);
        let serves = |cache: &Cache| cache.facts().serves(kinds::ISSUER);
        assert!(
            cache.definitions().serves(kinds::ISSUER) && !serves(&cache),
            "nobody watches it yet"
        );

        let issuers = Source::Owned(kinds::ISSUER, Some("n".into()));
        cache.expect(issuers.clone());
        assert!(!cache.may_act());
        cache.silence(&issuers, Some(Silence::NotServed));
        assert!(
            cache.may_act() && cache.is_complete() && !serves(&cache),
            "the API server is not ready for it"
        );
        cache.silence(&issuers, None);
        cache.feed(&issuers, Change::Complete);
        assert!(cache.may_act() && serves(&cache));

        let mut going = definition(3, "issuers.cert-manager.io");
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(cache.feed(&definitions, Change::Applied(going)));
        assert!(!serves(&cache));
    }

    #[test]
    fn a_kind_that_is_never_watched_is_served_by_its_definition() {
        let definitions = Source::Fact(Fact::Definitions);
        let metadata =
            json!({"name": "issuers.cert-manager.io", "uid": "u", "resourceVersion": "1"});
        let mut cache = Cache::default();
        cache.set_unwatched(vec![kinds::ISSUER]);
        cache.expect(definitions.clone());
        cache.feed(
            &definitions,
            Change::Applied(json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": metadata
            })),
        );
        assert!(cache.facts().serves(kinds::ISSUER) && !cache.facts().serves(kinds::CERTIFICATE));
    }

    #[test]
    fn forbidden_objects_are_unknown_and_hold_up_nothing() {
        let mut cache = cache();
        cache.wrote(&object(5, "a"));
        assert!(!cache.is_settled());
        assert!(cache.silence(&source(), Some(Silence::Refused("forbidden".into()))));
        assert!(
            !cache.silence(&source(), Some(Silence::Refused("forbidden".into()))),
            "that is no news"
        );
        assert!(cache.is_settled() && !cache.is_complete());
        assert_eq!(
            (known(&cache), cache.blind_to(&key())),
            (None, Some("forbidden"))
        );
        assert!(cache.silence(&source(), None));
        assert_eq!((known(&cache), cache.blind_to(&key())), (Some(5), None));
    }

    #[test]
    fn a_selected_object_is_known_as_weft_has_written_it() {
        let source = Source::Selected(kinds::SERVICE, Some("n".into()), "held=true".into());
        let mut cache = Cache::default();
        cache.expect(source.clone());
        cache.wrote(&object(4, "a"));
        cache.feed(&source, Change::Complete);
        assert_eq!(
            cache.look(&source),
            Look::Told(Vec::new()),
            "only the stream knows what is chosen"
        );
        cache.feed(&source, Change::Applied(object(5, "a")));
        cache.wrote(&object(6, "a"));
        let known = |cache: &Cache| match cache.look(&source) {
            Look::Told(all) => all
                .iter()
                .map(|object| Live::of(object).resource_version())
                .collect(),
            _ => Vec::new(),
        };
        assert_eq!(known(&cache), [6]);
        // It was not chosen any more by that write.
        cache.feed(&source, Change::Deleted(object(6, "a")));
        assert_eq!(known(&cache), [0_u64; 0]);
    }

    #[test]
    fn of_a_fact_only_the_view_is_kept_and_the_same_view_is_no_news() {
        let source = Source::Fact(Fact::Nodes);
        let node = |version: u64, runtime: &str| {
            let metadata = json!({"name": "n", "uid": "u", "resourceVersion": version.to_string()});
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": metadata,
                "status": {"nodeInfo": {"containerRuntimeVersion": runtime}, "images": ["large"]}
            })
        };
        let mut cache = Cache::default();
        cache.expect(source.clone());
        assert!(cache.feed(&source, Change::Applied(node(1, "containerd://1"))));
        assert!(
            !cache.feed(&source, Change::Applied(node(2, "containerd://1"))),
            "it is alive, which is no news"
        );
        assert!(cache.feed(&source, Change::Applied(node(3, "containerd://2"))));
        assert_eq!(cache.facts().nodes["n"].container_runtime, "containerd://2");
        assert!(
            !cache.stores[&source].objects.values().any(|known| known
                .text
                .as_ref()
                .unwrap()
                .contains("large"))
        );
        assert!(cache.feed(&source, Change::Deleted(node(4, "containerd://2"))));
        assert!(cache.facts().nodes.is_empty() && !cache.facts().nodes_unknown);
        cache.silence(&source, Some(Silence::Refused("forbidden".into())));
        assert!(cache.facts().nodes_unknown);
    }

    #[test]
    fn an_input_of_one_workload_delays_reports_and_no_writes() {
        let mut cache = cache();
        cache.feed(&source(), Change::Restarted);
        cache.feed(&source(), Change::Complete);
        cache.expect(Source::Named(key()));
        assert!(cache.may_act() && !cache.is_settled());
        cache.silence(
            &Source::Named(key()),
            Some(Silence::Refused("no answer".into())),
        );
        assert!(cache.may_act() && cache.is_settled());
    }

    #[test]
    fn a_watch_by_name_tells_nothing_while_it_may_not_look() {
        let by_name = Source::Named(key());
        let mut cache = cache();
        assert_eq!(
            cache.by_name(&key()),
            ByName::Unknown,
            "there is no such watch"
        );
        cache.expect(by_name.clone());
        assert_eq!(
            cache.by_name(&key()),
            ByName::Unknown,
            "it has not answered yet"
        );
        cache.feed(&by_name, Change::Complete);
        assert_eq!(cache.by_name(&key()), ByName::Gone);
        let theirs = object(5, "a");
        cache.feed(&by_name, Change::Applied(theirs.clone()));
        assert_eq!(cache.by_name(&key()), ByName::There(Arc::new(theirs)));
        cache.silence(&by_name, Some(Silence::Refused("forbidden".into())));
        assert_eq!(cache.by_name(&key()), ByName::Unknown);
    }

    #[test]
    fn the_end_of_an_object_is_told_while_a_watch_shows_it_going() {
        let mut cache = cache();
        assert_eq!(cache.going(&key()), None);
        cache.wrote(&object(5, "a"));
        assert_eq!(cache.going(&key()), None, "nobody deletes it");
        let mut going = object(6, "a");
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        // The object after our own delete. The watch may lag behind.
        cache.wrote(&going);
        assert_eq!(cache.going(&key()), Some(Arc::new(going.clone())));
        cache.silence(&source(), Some(Silence::Refused("forbidden".into())));
        assert_eq!(cache.going(&key()), None, "nobody would tell");
        cache.silence(&source(), None);
        cache.feed(&source(), Change::Deleted(object(7, "a")));
        assert_eq!(cache.going(&key()), None);
    }

    #[test]
    fn another_generation_of_a_definition_is_news() {
        let definitions = Source::Fact(Fact::Definitions);
        let definition = |version: u64, generation: i64| {
            let metadata = json!({
                "name": "issuers.cert-manager.io", "uid": "u",
                "resourceVersion": version.to_string(), "generation": generation
            });
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": metadata
            })
        };
        let mut cache = Cache::default();
        cache.expect(definitions.clone());
        assert_eq!(cache.definition_of(kinds::ISSUER), None);
        assert!(cache.feed(&definitions, Change::Applied(definition(1, 1))));
        assert!(
            !cache.feed(&definitions, Change::Applied(definition(2, 1))),
            "its status changed"
        );
        assert_eq!(cache.definition_of(kinds::ISSUER), Some(1));
        assert!(cache.feed(&definitions, Change::Applied(definition(3, 2))));
        assert_eq!(cache.definition_of(kinds::ISSUER), Some(2));
    }

    fn object(version: u64, uid: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "n", "name": "c", "uid": uid, "resourceVersion": version.to_string(),
            "labels": {OWNER_LABEL: "kind.name"}}})
    }

    fn source() -> Source {
        Source::Owned(kinds::CONFIG_MAP, Some("n".into()))
    }

    fn key() -> ObjectKey {
        ObjectKey::new(kinds::CONFIG_MAP, "n", "c")
    }

    fn cache() -> Cache {
        let mut cache = Cache::default();
        cache.expect(source());
        cache
    }

    fn known(cache: &Cache) -> Option<u64> {
        cache
            .owned(&key())
            .map(|object| Live::of(&object).resource_version())
    }

    #[test]
    fn of_admission_only_what_another_operator_has_is_kept() {
        let source = Source::Admission(kinds::VALIDATING_WEBHOOK_CONFIGURATION);
        let hook = |version: u64, label: &str| {
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {
                "name": "h", "uid": "u", "resourceVersion": version.to_string(),
                "labels": {"of": label}
            }})
        };
        let mut cache = Cache::default();
        cache.set_admission(Some(|object| {
            object["metadata"]["labels"]["of"] == "theirs"
        }));
        cache.expect(source.clone());
        cache.feed(&source, Change::Restarted);
        assert!(!cache.feed(&source, Change::Listed(hook(1, "mine"))));
        cache.feed(&source, Change::Complete);
        assert_eq!(cache.operators().len(), 0);
        assert!(cache.feed(&source, Change::Applied(hook(2, "theirs"))));
        assert_eq!(cache.operators().len(), 1);
        assert!(
            cache.feed(&source, Change::Applied(hook(3, "mine"))),
            "it is another one's now"
        );
        assert_eq!(cache.operators().len(), 0);
    }

    #[test]
    fn a_list_counts_only_where_the_stream_lags_behind_it() {
        let mut cache = cache();
        cache.feed(&source(), Change::Complete);
        cache.feed(&source(), Change::Applied(object(5, "a")));
        cache.looked(&source(), Vec::new(), 4);
        assert_eq!(known(&cache), Some(5), "it was made after the list");
        cache.looked(&source(), vec![object(7, "b")], 8);
        assert_eq!(known(&cache), Some(7), "made anew");
        cache.looked(&source(), Vec::new(), 9);
        assert_eq!(known(&cache), None);
        cache.feed(&source(), Change::Deleted(object(10, "c")));
        cache.looked(&source(), vec![object(9, "c")], 9);
        assert_eq!(known(&cache), None, "it was deleted after the list");
    }

    #[test]
    fn late_news_never_undoes_a_write_of_ours() {
        let mut cache = cache();
        cache.wrote(&object(10, "a"));
        assert!(!cache.feed(&source(), Change::Applied(object(9, "a"))));
        assert_eq!(known(&cache), Some(10));
        cache.gone(&key(), "a");
        assert!(
            !cache.feed(&source(), Change::Applied(object(10, "a"))),
            "an object that we deleted"
        );
        assert_eq!(known(&cache), None);
        cache.wrote(&object(12, "b"));
        assert!(
            !cache.feed(&source(), Change::Deleted(object(11, "a"))),
            "the end of its predecessor"
        );
        assert_eq!(known(&cache), Some(12));
        assert!(
            !cache.feed(&source(), Change::Deleted(object(11, "b"))),
            "it had lost our label, and we put it back since"
        );
        assert!(cache.feed(&source(), Change::Deleted(object(13, "b"))));
        assert_eq!(known(&cache), None);
    }

    #[test]
    fn marks_on_objects_of_others_make_none_of_them_ours() {
        let mut theirs = object(5, "a");
        theirs["metadata"]["labels"] = json!({"a": "b"});
        let mut cache = cache();
        cache.wrote(&theirs);
        assert_eq!(known(&cache), None);
        // One that has just lost our label is known as it is, until its stream takes it away.
        cache.wrote(&object(4, "a"));
        cache.wrote(&theirs);
        assert_eq!(known(&cache), Some(5));
    }

    #[test]
    fn a_list_brings_what_is_there_and_takes_what_is_not() {
        let mut cache = cache();
        assert!(!cache.is_complete());
        cache.feed(&source(), Change::Applied(object(1, "a")));
        cache.feed(&source(), Change::Restarted);
        assert_eq!(
            known(&cache),
            Some(1),
            "nothing is forgotten before the list is whole"
        );
        assert!(cache.feed(&source(), Change::Complete));
        assert!(cache.is_complete());
        assert_eq!(known(&cache), None);
    }

    #[test]
    fn a_list_of_restored_data_replaces_what_was_known() {
        let mut cache = cache();
        cache.feed(&source(), Change::Complete);
        cache.wrote(&object(90, "a"));
        cache.feed(&source(), Change::Applied(object(90, "a")));
        cache.feed(&source(), Change::Rewound);
        cache.feed(&source(), Change::Restarted);
        assert_eq!(known(&cache), Some(90), "it stays until the list is whole");
        assert!(cache.feed(&source(), Change::Listed(object(50, "a"))));
        cache.feed(&source(), Change::Complete);
        assert_eq!(known(&cache), Some(50));
        assert!(
            cache.feed(&source(), Change::Applied(object(51, "a"))),
            "events of the restored data count"
        );
        cache.gone(&key(), "a");
        cache.feed(&source(), Change::Rewound);
        cache.feed(&source(), Change::Restarted);
        cache.feed(&source(), Change::Listed(object(50, "a")));
        assert_eq!(known(&cache), Some(50), "an object that we deleted is back");
    }

    #[test]
    fn only_the_identity_of_unwanted_objects_is_kept() {
        let large = |name: &str, version: u64| {
            let mut object = object(version, name);
            object["metadata"]["name"] = name.into();
            object["data"] = json!({"text": "x".repeat(SMALL)});
            object
        };
        let key = |name: &str| ObjectKey::new(kinds::CONFIG_MAP, "n", name);
        let mut cache = cache();
        cache.feed(&source(), Change::Restarted);
        assert!(cache.feed(&source(), Change::Listed(large("hostile", 1))));
        assert!(cache.feed(&source(), Change::Listed(large("weft-inventory-x", 1))));
        cache.feed(&source(), Change::Listed(object(1, "a")));
        cache.feed(&source(), Change::Complete);
        let size = |cache: &Cache| {
            cache.stores[&source()]
                .objects
                .values()
                .map(Known::size)
                .sum::<usize>()
        };
        assert!(
            size(&cache) < 2 * SMALL && cache.owned(&key("hostile")).is_none(),
            "while nothing is known, large objects are not kept"
        );
        assert!(known(&cache).is_some() && cache.owned(&key("weft-inventory-x")).is_some());
        cache.want(HashSet::from([key("wanted")]));
        assert_eq!(known(&cache), None, "nobody wants it");
        assert!(cache.feed(&source(), Change::Applied(large("wanted", 2))));
        assert!(cache.owned(&key("wanted")).is_some(), "however large it is");
        let before = size(&cache);
        assert!(cache.feed(&source(), Change::Applied(large("hostile", 3))));
        assert_eq!(size(&cache), before);
        assert!(
            !cache.feed(&source(), Change::Applied(large("hostile", 3))),
            "its version is known"
        );
    }

    #[test]
    fn a_write_during_a_list_stays() {
        let mut cache = cache();
        cache.feed(&source(), Change::Restarted);
        cache.wrote(&object(5, "a"));
        cache.feed(&source(), Change::Complete);
        assert_eq!(known(&cache), Some(5));
    }

    #[test]
    fn reports_of_pods_about_their_nodes_are_facts_and_news() {
        let pod = |mtu: u32| {
            let message = format!(r#"{{"mtu":{mtu},"podCIDRs":[],"missingPlugins":[]}}"#);
            json!({"metadata": {
                "namespace": "n", "name": "p", "uid": "u"
            }, "spec": {"nodeName": "node-1"},
                   "status": {
                       "initContainerStatuses": [{"state": {"terminated": {"message": message}}}]
                   }})
        };
        let mut cache = Cache::default();
        cache.expect(Source::Pods);
        cache.set_host_mtu(Some(1500));
        cache.set_node_reporters(vec!["n"]);
        assert!(cache.feed(&Source::Pods, Change::Applied(pod(9000))));
        assert!(!cache.feed(&Source::Pods, Change::Applied(pod(9000))));
        assert_eq!(
            (
                cache.facts().cni_reports["node-1"].mtu,
                cache.facts().host_mtu
            ),
            (Some(9000), Some(1500))
        );
        assert!(cache.feed(&Source::Pods, Change::Applied(pod(1400))));
        assert_eq!(cache.facts().cni_reports["node-1"].mtu, Some(1400));
        assert!(
            cache.feed(&Source::Pods, Change::Deleted(pod(1400)))
                && cache.facts().cni_reports.is_empty()
        );
    }

    #[test]
    fn pods_are_not_forgotten_before_their_list_is_whole() {
        let pod = |uid: &str| json!({"metadata": {"namespace": "n", "name": uid, "uid": uid}});
        let mut cache = Cache::default();
        cache.expect(Source::Pods);
        let mut feed = |change| cache.feed(&Source::Pods, change);
        feed(Change::Restarted);
        feed(Change::Listed(pod("a")));
        feed(Change::Listed(pod("b")));
        assert!(feed(Change::Complete));
        feed(Change::Restarted);
        feed(Change::Listed(pod("b")));
        assert_eq!(
            cache.pods().count(),
            2,
            "a teardown that saw none would go on as if all had ended"
        );
        assert!(cache.feed(&Source::Pods, Change::Complete));
        assert_eq!(cache.pods().count(), 1);
    }
}
