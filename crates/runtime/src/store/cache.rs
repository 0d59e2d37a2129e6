//! The store of this replica: Weft's objects, and the few other objects that it looks at.
//!
//! It is a plain struct without I/O. Watches and answers to own writes feed it, one
//! [table](super::table) for each stream.
//!
//! The cache keeps objects as text and parses them when a reader looks at them: managed fields make
//! most of an object, and as a tree they take ten times the memory.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::Value;
use weft_plan::{
    Fact, Facts, Inventory, Kind, LAST_APPLIED, Live, OWNER_LABEL, ObjectKey, dropped::Shipped,
    kinds, rollout::PodView,
};

use crate::store::table::{Change, Effect, Table};

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
    /// The definition of this kind of Weft's, as the cluster has it. The store keeps the fields that
    /// the API server drops by it.
    Definition(Kind),
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
    Known(Vec<Arc<Value>>),
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

/// The objects of the cluster that this replica knows.
#[derive(Default)]
pub struct Cache {
    stores: HashMap<Source, Store>,
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
    /// The definitions of the domain's kinds, as this version of Weft has them.
    shipped: Vec<Shipped>,
}

/// Up to this size, in bytes, an object with Weft's label is kept whole while it is not known which
/// are wanted. Weft's own are smaller, but anybody who may write objects in a namespace may put the
/// label on large ones.
const SMALL: usize = 32 * 1024;

#[derive(Default)]
struct Store {
    silence: Option<Silence>,
    objects: Table<ObjectKey, Kept>,
    /// How often something was different.
    news: u64,
}

/// The part of an object that the cache keeps.
#[derive(Debug, PartialEq)]
enum Kept {
    /// Its JSON.
    Whole(Box<str>),
    /// No more than its identity.
    Identity,
    /// The JSON of the part that a fact, or a status, depends on.
    View(Box<str>),
    /// The part of a pod that a rollout depends on.
    Pod(Box<PodView>),
}

impl Kept {
    fn whole(mut object: Value) -> Self {
        if let Some(annotations) = object
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut)
        {
            // As large as the object, and nothing reads it.
            annotations.remove(LAST_APPLIED);
        }
        Self::Whole(object.to_string().into())
    }

    /// The object, if all of it is kept.
    fn object(&self) -> Option<Arc<Value>> {
        match self {
            Self::Whole(text) => Some(Arc::new(parsed(text))),
            Self::Identity | Self::View(_) | Self::Pod(_) => None,
        }
    }

    /// The view of a fact.
    fn view(&self) -> Option<Value> {
        match self {
            Self::View(text) => Some(parsed(text)),
            Self::Identity | Self::Whole(_) | Self::Pod(_) => None,
        }
    }

    /// The size of the object in bytes, if all of it is kept.
    fn size(&self) -> usize {
        match self {
            Self::Whole(text) => text.len(),
            Self::Identity | Self::View(_) | Self::Pod(_) => 0,
        }
    }

    /// Reports whether a newer version of an object is news. (Nodes report every few minutes that
    /// they are alive.)
    fn is_news_after(&self, before: Option<&Self>) -> bool {
        match self {
            Self::Whole(_) | Self::Identity => true,
            Self::View(_) | Self::Pod(_) => before != Some(self),
        }
    }
}

/// Parses text that was written from a value.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

impl Cache {
    /// Notes the MTU of the network of the operator's own host.
    pub fn set_host_mtu(&mut self, mtu: Option<u32>) {
        self.host_mtu = mtu;
    }

    /// Sets the definitions that the streams of [`Source::Definition`] are compared with.
    pub fn set_shipped(&mut self, shipped: Vec<Shipped>) {
        self.shipped = shipped;
    }

    /// Returns the kinds whose definitions are to be watched.
    pub fn shipped(&self) -> Vec<Kind> {
        self.shipped.iter().map(|shipped| shipped.kind).collect()
    }

    /// Returns the kinds of the domain of which the API server drops fields that this version of
    /// Weft knows, each with [these fields](Shipped::dropped_by).
    pub fn dropped(&self) -> Vec<(Kind, Vec<String>)> {
        let of = |shipped: &Shipped| (shipped.kind, self.dropped_of(shipped.kind));
        let all = self.shipped.iter().map(of);
        all.filter(|(_, fields)| !fields.is_empty()).collect()
    }

    /// Returns the fields of a kind of the domain that the API server drops. Empty while its
    /// definition is not known.
    pub fn dropped_of(&self, kind: Kind) -> Vec<String> {
        let store = self.stores.get(&Source::Definition(kind));
        let mut rows = store.into_iter().flat_map(|store| store.objects.iter());
        let view = rows.find_map(|(_, row)| row.kept.view());
        view.and_then(|view| serde_json::from_value(view).ok())
            .unwrap_or_default()
    }

    /// Reports whether it is known which fields of a kind of the domain the API server drops.
    pub fn knows_definition(&self, kind: Kind) -> bool {
        let store = self.stores.get(&Source::Definition(kind));
        store.is_some_and(|store| store.is_complete() && store.objects.iter().next().is_some())
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
        (self.stores, self.wanted) = Default::default();
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
                .all(|store| store.is_complete() || store.silence == Some(Silence::NotServed))
    }

    /// Reports whether this stream has listed everything at least once.
    pub(crate) fn has_spoken(&self, source: &Source) -> bool {
        self.stores.get(source).is_some_and(Store::is_complete)
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
        store.news += u64::from(new);
        new
    }

    /// How often the streams have brought something different so far, apart from this one.
    pub fn news_besides(&self, source: &Source) -> u64 {
        let others = self.stores.iter().filter(|(other, _)| *other != source);
        others.map(|(_, store)| store.news).sum()
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
            .any(|store| store.is_complete() && store.silence.is_none())
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

    /// Takes in a change of a stream. Returns whether anything is different now.
    pub fn feed(&mut self, source: &Source, change: Change) -> bool {
        let Some(store) = self.stores.get_mut(source) else {
            return false;
        };
        let (wanted, admission) = (self.wanted.as_ref(), self.admission);
        let shipped = &self.shipped[..];
        let effect = store.objects.take(
            change,
            |object| source.key(object),
            |object| keep(source, object, wanted, admission, shipped),
        );
        let is_news = match effect {
            Effect::Nothing => false,
            Effect::Removed(_) | Effect::Listed => true,
            Effect::Put(key, before) => store
                .objects
                .get(&key)
                .is_some_and(|now| now.kept.is_news_after(before.as_ref().map(|row| &row.kept))),
        };
        store.news += u64::from(is_news);
        is_news
    }

    /// Notes which of the objects with Weft's label matter. Of each other one only the identity is
    /// kept: anybody who may write objects in a namespace may put the label on them.
    pub fn want(&mut self, wanted: HashSet<ObjectKey>) {
        for (source, store) in &mut self.stores {
            if matches!(source, Source::Owned(..)) {
                store
                    .objects
                    .iter_mut()
                    .filter(|(key, row)| !keeps_whole(Some(&wanted), key, row.kept.size()))
                    .for_each(|(_, row)| row.kept = Kept::Identity);
            }
        }
        self.wanted = Some(wanted);
    }

    /// Takes in a list at this resourceVersion next to a stream. The stream may lag behind the
    /// list, or be ahead. In the second case the list is of no use.
    pub fn looked(&mut self, source: &Source, objects: Vec<Value>, version: u64) {
        if let Some(store) = self.stores.get_mut(source) {
            store.objects.looked(
                objects,
                version,
                |object| source.key(object),
                |object| Some(Kept::whole(object)),
            );
        }
    }

    /// The pods of the workloads.
    pub fn pods(&self) -> impl Iterator<Item = &PodView> {
        self.stores
            .get(&Source::Pods)
            .into_iter()
            .flat_map(|store| store.objects.iter())
            .filter_map(|(_, row)| match &row.kept {
                Kept::Pod(view) => Some(&**view),
                Kept::Whole(_) | Kept::Identity | Kept::View(_) => None,
            })
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
                .kept
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
            .flat_map(|store| store.objects.iter().map(|(key, _)| key));
        let there = keys.filter(|key| key.namespace.as_deref() == Some(namespace));
        there
            .filter_map(|key| key.name.strip_prefix(&prefix).map(str::to_owned))
            .collect()
    }

    /// The resources of the domain.
    pub fn resources(&self) -> Vec<Arc<Value>> {
        self.stores
            .get(&Source::Resources)
            .map(Store::all)
            .unwrap_or_default()
    }

    /// Workloads that may be operators of the domain, and what may be left of them.
    pub fn operators(&self) -> Vec<Arc<Value>> {
        let stores = self
            .stores
            .iter()
            .filter(|(source, _)| source.is_of_operators());
        stores.flat_map(|(_, store)| store.all()).collect()
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
        facts.hear(self.pods(), &self.node_reporters);
        let is_served = |(source, store): &(&Source, &Store)| {
            store.is_settled(source) && store.silence != Some(Silence::NotServed)
        };
        let served: HashSet<_> = self
            .stores
            .iter()
            .filter(is_served)
            .filter_map(|(source, _)| source.kind())
            .collect();
        let is_unknown = |kind: &&Kind| {
            kind.is_optional() && !served.contains(kind) && !self.unwatched.contains(kind)
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
                    .filter_map(|(key, row)| Some((key, row.kept.view()?)));
                objects.for_each(|(key, view)| facts.add(*fact, &key.name, &view));
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
            None if store.is_complete() => Look::Known(store.all()),
            None => Look::Unknown,
        }
    }

    /// All objects of Weft's of a kind in a namespace, by name.
    pub fn owned_of(&self, kind: Kind, namespace: &str) -> Vec<Arc<Value>> {
        self.stores
            .get(&Source::Owned(kind, Some(namespace.to_owned())))
            .map(Store::all)
            .unwrap_or_default()
    }

    /// Returns whether an object that is watched by name exists, or `None` if that is not known.
    pub fn exists(&self, key: &ObjectKey) -> Option<bool> {
        let store = self.stores.get(&Source::Named(key.clone()))?;
        store
            .is_complete()
            .then(|| store.objects.get(key).is_some())
    }

    /// Returns the result of a watch by name, whoever owns the object.
    pub(crate) fn by_name(&self, key: &ObjectKey) -> ByName {
        match self.stores.get(&Source::Named(key.clone())) {
            Some(store) if store.is_complete() && store.silence.is_none() => store
                .objects
                .get(key)
                .and_then(|row| row.kept.object())
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
            .kept
            .view()?["generation"]
            .as_i64()
    }

    /// Takes in the API server's answer to a write of Weft.
    pub fn wrote(&mut self, object: &Value) {
        let Some(key) = ObjectKey::of(object) else {
            return;
        };
        let is_owned = Live::of(object).label(OWNER_LABEL).is_some();
        for source in [
            Source::Owned(key.kind, key.namespace.clone()),
            Source::Owned(key.kind, None),
            Source::Resources,
            Source::Named(key.clone()),
        ] {
            let Some(store) = self.stores.get_mut(&source) else {
                continue;
            };
            let belongs = match source {
                Source::Named(_) => true,
                // The stream never shows another owner's object, although Weft wrote something on
                // it.
                Source::Owned(..) if is_owned => true,
                _ => store.objects.get(&key).is_some(),
            };
            if belongs {
                store
                    .objects
                    .wrote(key.clone(), object, Kept::whole(object.clone()));
            }
        }
        for (source, store) in &mut self.stores {
            // Only its stream shows whether a selector still chooses it, and a list that lacks it
            // takes it out.
            if matches!(source, Source::Selected(..)) && store.objects.get(&key).is_some() {
                store
                    .objects
                    .wrote(key.clone(), object, Kept::whole(object.clone()));
            }
        }
    }

    /// Takes out what is known to be gone: deleted by Weft, or not found where it should be.
    pub fn gone(&mut self, key: &ObjectKey, uid: &str) {
        for source in [
            Source::Owned(key.kind, key.namespace.clone()),
            Source::Owned(key.kind, None),
        ] {
            if let Some(store) = self.stores.get_mut(&source) {
                store.objects.bury(key, uid);
            }
        }
    }
}

/// Returns the part of an object of this stream that the cache keeps. `None` if the object is of no
/// interest.
fn keep(
    source: &Source,
    object: Value,
    wanted: Option<&HashSet<ObjectKey>>,
    admission: Option<fn(&Value) -> bool>,
    shipped: &[Shipped],
) -> Option<Kept> {
    match source {
        Source::Pods => Some(Kept::Pod(Box::new(PodView::of(&object)?))),
        Source::Fact(fact) => {
            let view = fact.view(&object);
            (!view.is_null()).then(|| Kept::View(view.to_string().into()))
        }
        Source::Definition(kind) => {
            let shipped = shipped.iter().find(|shipped| shipped.kind == *kind)?;
            let fields = Value::from(shipped.dropped_by(&object));
            Some(Kept::View(fields.to_string().into()))
        }
        // An object that belongs to another owner from now on counts as gone.
        Source::Admission(_) if !admission.is_some_and(|is_theirs| is_theirs(&object)) => None,
        Source::Owned(..) => {
            let key = ObjectKey::of(&object)?;
            let kept = Kept::whole(object);
            Some(if keeps_whole(wanted, &key, kept.size()) {
                kept
            } else {
                Kept::Identity
            })
        }
        Source::Resources
        | Source::Operators(..)
        | Source::Admission(_)
        | Source::Named(_)
        | Source::Selected(..) => Some(Kept::whole(object)),
    }
}

/// Reports whether more than the identity of an object of this size is kept.
fn keeps_whole(wanted: Option<&HashSet<ObjectKey>>, key: &ObjectKey, size: usize) -> bool {
    // By their names inventories are found.
    let is_inventory = key.kind == kinds::CONFIG_MAP && key.name.starts_with(Inventory::PREFIX);
    is_inventory || wanted.map_or(size <= SMALL, |wanted| wanted.contains(key))
}

impl Source {
    /// Returns the key of an object of this stream.
    fn key(&self, object: &Value) -> Option<ObjectKey> {
        let live = Live::of(object);
        match self {
            Self::Pods => Some(ObjectKey::new(kinds::POD, live.namespace(), live.name())),
            _ => ObjectKey::of(object),
        }
    }

    /// Returns the kind, if the stream is about the kind as such.
    fn kind(&self) -> Option<Kind> {
        match self {
            Self::Owned(kind, _) => Some(*kind),
            Self::Fact(fact) => Some(fact.objects().kind),
            Self::Resources
            | Self::Pods
            | Self::Operators(..)
            | Self::Admission(_)
            | Self::Definition(_)
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
    fn is_complete(&self) -> bool {
        self.objects.is_complete()
    }

    fn is_settled(&self, source: &Source) -> bool {
        self.is_complete() || self.silence.is_some() && *source != Source::Resources
    }

    /// The objects of which all is kept, in the order of their keys.
    fn all(&self) -> Vec<Arc<Value>> {
        self.objects
            .iter()
            .filter_map(|(_, row)| row.kept.object())
            .collect()
    }

    fn refusal(&self) -> Option<&str> {
        match &self.silence {
            Some(Silence::Refused(why)) => Some(why),
            Some(Silence::NotServed) | None => None,
        }
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
