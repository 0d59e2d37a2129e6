//! The watches of a domain: its resources and their objects, the facts that decisions use, and the
//! single objects that workloads need.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use weft_plan::{
    Inventory, Kind, OWNER_LABEL, ObjectKey, ObjectSet, Owner, Selection, Unit, kinds, rollout,
};

use crate::{
    api_server::cluster::Cluster,
    metrics::Metrics,
    reconcile::stored,
    store::{
        cache::Source,
        watch::{Shared, Watch},
        watches::Watches,
    },
};

/// The watches of a domain, besides those that run always.
pub(crate) struct Reach {
    domain: Arc<dyn ObjectSet>,
    shared: Shared,
    /// The operator's own namespace.
    namespace: String,
    /// Of kinds that a cluster may lack.
    served: Watches,
    /// Of the objects in namespaces that follow from the resource.
    places: Watches,
    /// The objects that the last decision asked for.
    built: Mutex<HashSet<ObjectKey>>,
    /// Of single objects.
    named: Watches,
}

impl Reach {
    pub fn new(
        domain: Arc<dyn ObjectSet>,
        cluster: &Cluster,
        shared: Shared,
        metrics: &Metrics,
        namespace: String,
    ) -> Self {
        let watches = || Watches::new(cluster.client().clone(), shared.clone(), metrics.clone());
        let (served, places, named) = (watches(), watches(), watches());
        shared.lock().set_node_reporters(domain.node_reporters());
        shared.lock().set_admission(domain.admission());
        let watched: HashSet<Kind> = domain
            .kinds()
            .into_iter()
            .chain(domain.facts().into_iter().map(|fact| fact.objects().kind))
            .collect();
        shared.lock().set_unwatched(
            kinds::ALL
                .iter()
                .copied()
                .filter(|kind| kind.is_optional() && !watched.contains(kind))
                .collect(),
        );
        Self {
            domain,
            shared,
            namespace,
            served,
            places,
            built: Mutex::default(),
            named,
        }
    }

    /// Watches kinds that a cluster may lack for as long as the cluster serves them.
    pub(crate) fn follow_definitions(&self, while_served: &[Watch]) {
        let definitions = self.shared.lock().definitions();
        self.served.set(
            while_served
                .iter()
                .filter(|watch| definitions.serves(watch.kind))
                .cloned(),
        );
    }

    /// Notes what a decision asks for, so that it is watched. Returns whether all of it is known
    /// already.
    pub fn builds(&self, units: &[Unit]) -> bool {
        let keys = units
            .iter()
            .flat_map(|unit| &unit.objects)
            .map(|object| object.key().clone());
        *self.built.lock().unwrap_or_else(PoisonError::into_inner) = keys.collect();
        self.update();
        self.shared.lock().may_act()
    }

    /// Watches the objects of the inventories and of the last decision where they are, and has no
    /// more than the identity of any other kept.
    pub fn update(&self) {
        let mut cache = self.shared.lock();
        if !cache.has_spoken(&Source::Owned(
            kinds::CONFIG_MAP,
            Some(self.namespace.clone()),
        )) {
            return;
        }
        let mut wanted = self
            .built
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let names: HashSet<_> = self
            .domain
            .resource_name()
            .map(str::to_owned)
            .into_iter()
            .chain(cache.inventories(self.domain.resource(), &self.namespace))
            .collect();
        for name in names {
            let owner = Owner {
                kind: self.domain.resource(),
                name: name.clone(),
                uid: None,
                manager: String::new(),
            };
            let map = cache.owned(&stored::inventory_key(&self.namespace, &owner));
            let inventory = map
                .and_then(|map| Inventory::from_data(&map["data"]).ok())
                .unwrap_or_default();
            wanted.extend(
                inventory
                    .objects
                    .into_keys()
                    .chain(inventory.made_by_operands),
            );
            wanted.extend(self.domain.record(&name).map(|(record, _)| record));
        }
        let places: HashSet<_> = match self.domain.namespace() {
            Some(_) => HashSet::new(),
            None => {
                let follows = |key: &&ObjectKey| {
                    key.kind.namespaced
                        && !key.kind.is_optional()
                        && self.domain.kinds().contains(&key.kind)
                };
                wanted
                    .iter()
                    .filter(follows)
                    .map(|key| (key.kind, key.namespace.clone()))
                    .collect()
            }
        };
        cache.want(wanted);
        drop(cache);
        let own = (kinds::CONFIG_MAP, Some(self.namespace.clone()));
        self.places
            .set(
                places
                    .into_iter()
                    .filter(|place| *place != own)
                    .map(|(kind, namespace)| Watch {
                        source: Source::Owned(kind, namespace.clone()),
                        kind,
                        namespace,
                        labels: self.owner_selector(),
                        fields: String::new(),
                        metadata_only: false,
                    }),
            );
    }

    /// Selects the objects that bear Weft's label of this domain's resources.
    fn owner_selector(&self) -> String {
        let label = |name: &str| {
            Owner {
                kind: self.domain.resource(),
                name: name.to_owned(),
                uid: None,
                manager: String::new(),
            }
            .label()
        };
        self.domain.resource_name().map_or_else(
            || OWNER_LABEL.to_owned(),
            |name| format!("{OWNER_LABEL}={}", label(name)),
        )
    }

    /// Everything that is watched whatever the resources say. Of kinds that a cluster may lack,
    /// while it serves them.
    pub fn watches(&self) -> Vec<Watch> {
        let watch = |source, kind, namespace: Option<&str>, labels: &str, fields: String| Watch {
            source,
            kind,
            namespace: namespace.map(str::to_owned),
            labels: labels.to_owned(),
            fields,
            metadata_only: false,
        };
        let domain = &self.domain;
        let owner = self.owner_selector();
        let place = |kind: Kind| {
            domain
                .namespace()
                .filter(|_| kind.namespaced)
                .map(str::to_owned)
        };
        // Where the namespaces follow from the resource, they are watched when they are known. Only
        // the watch of a kind that a cluster may lack shows whether it is served.
        let is_always_there =
            |kind: &Kind| domain.namespace().is_some() || !kind.namespaced || kind.is_optional();
        let mut places: HashSet<(Kind, Option<String>)> = domain
            .kinds()
            .into_iter()
            .filter(is_always_there)
            .map(|kind| (kind, place(kind)))
            .collect();
        // Inventory and record.
        places.insert((kinds::CONFIG_MAP, Some(self.namespace.clone())));
        let mut watches: Vec<_> = places
            .into_iter()
            .map(|(kind, namespace)| {
                watch(
                    Source::Owned(kind, namespace.clone()),
                    kind,
                    namespace.as_deref(),
                    &owner,
                    String::new(),
                )
            })
            .collect();
        watches.push(watch(
            Source::Resources,
            domain.resource(),
            None,
            "",
            String::new(),
        ));
        watches.push(watch(
            Source::Pods,
            kinds::POD,
            domain.namespace(),
            domain.pod_selector(),
            String::new(),
        ));
        watches.extend(domain.operators().iter().map(|(kind, name)| {
            watch(
                Source::Operators(*kind, name),
                *kind,
                None,
                "",
                format!("metadata.name={name}"),
            )
        }));
        if domain.admission().is_some() {
            watches.extend(
                kinds::ADMISSION
                    .map(|kind| watch(Source::Admission(kind), kind, None, "", String::new())),
            );
        }
        // Objects of the original have no label of ours, and Weft must notice all the same that
        // they are gone.
        if domain.is_forced_without_record()
            && let Some((record, _)) = domain.resource_name().and_then(|name| domain.record(name))
        {
            let fields = format!("metadata.name={}", record.name);
            let by_name = watch(
                Source::Named(record.clone()),
                record.kind,
                record.namespace.as_deref(),
                "",
                fields,
            );
            watches.push(Watch {
                metadata_only: true,
                ..by_name
            });
        }
        let shipped = self.shared.lock().shipped();
        watches.extend(shipped.into_iter().map(Watch::of_definition));
        for fact in domain.facts() {
            let Selection {
                kind,
                namespace,
                labels,
                fields,
                metadata_only,
            } = fact.objects();
            watches.push(Watch {
                metadata_only,
                ..watch(
                    Source::Fact(fact),
                    kind,
                    namespace,
                    labels,
                    fields.to_owned(),
                )
            });
        }
        watches
    }

    /// Watches, by name, what these units depend on and Weft does not make: what their workloads
    /// need, and the objects of others that are in their way. Nothing else is watched by name any
    /// more.
    pub(crate) fn watch_named(&self, units: &[Unit], in_the_way: impl Iterator<Item = ObjectKey>) {
        let objects = || units.iter().flat_map(|unit| &unit.objects);
        let ours: HashSet<_> = objects().map(weft_plan::Manifest::key).collect();
        let inputs = objects()
            .flat_map(|object| rollout::inputs(object.body()))
            .filter(|key| !ours.contains(key));
        self.named.set(inputs.chain(in_the_way).map(|key| Watch {
            kind: key.kind,
            namespace: key.namespace.clone(),
            labels: String::new(),
            fields: format!("metadata.name={}", key.name),
            metadata_only: true,
            source: Source::Named(key),
        }));
    }
}
