//! The end of a resource: webhooks first, then workloads and their pods, permissions last. Then
//! what the operands made, Weft's notes, and at last the finalizer.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::Value;
use weft_plan::{
    Inventory, Live, OWNER_LABEL, ObjectKey, ObjectSet, Owner, Stage, drift, is_kept_for_ever,
    kinds,
    report::{Paused, Removal, Report},
    rollout::PodView,
};

use crate::{
    api_server::cluster::Error,
    reconcile::{
        context::Context,
        dependents, disown,
        finalizer::{self, FINALIZER},
        objects::Objects,
        originals, prune,
        set::SetObjects,
        stored::{self, StoredError},
    },
};

/// The findings about a deletion from one look to the next, so that nothing is asked twice.
#[derive(Debug, Default)]
pub struct Course {
    /// The resource that goes, by its uid.
    uid: Option<String>,
    /// Set once it is decided whether the objects stay.
    is_orphaned: Option<bool>,
    /// Objects that are gone.
    gone: BTreeSet<ObjectKey>,
}

impl Course {
    /// Of another resource nothing is known.
    fn follow(&mut self, resource: Option<&Value>) {
        let uid = resource.map(|resource| Live::of(resource).uid().to_owned());
        if self.uid != uid {
            *self = Self {
                uid,
                ..Self::default()
            };
        }
    }

    /// Those of these objects that may be there. (One that is there again is in the cache.)
    fn remaining<'a>(
        &self,
        objects: &Objects,
        all: impl Iterator<Item = &'a ObjectKey>,
    ) -> Vec<ObjectKey> {
        let is_known = |key: &ObjectKey| {
            objects
                .shared
                .as_ref()
                .is_some_and(|shared| shared.lock().owned(key).is_some())
        };
        all.filter(|key| !self.gone.contains(key) || is_known(key))
            .cloned()
            .collect()
    }
}

/// Takes one step, as far as it goes. `None`: the resource is gone. While another operator runs, or
/// during a pause, nothing is removed, and the resource waits for Weft's finalizer.
pub(crate) async fn step(
    context: &Context,
    resource: &Value,
    course: &mut Course,
) -> Option<Report> {
    let owner = Owner::of(&*context.domain, resource);
    let objects = context.objects(owner);
    let generation = Live::of(resource).generation();
    let report = |removals| Report {
        generation,
        removing: true,
        removals,
        ..Report::default()
    };
    let blocked =
        originals::held_by_another(&*context.domain, &context.config.namespace, &context.shared);
    if blocked.is_some() {
        // Its objects may be the other operator's by now. A watch shows when that operator goes.
        return Some(Report {
            blocked,
            ..report(Vec::new())
        });
    }
    if let Some(value) = drift::pause(resource) {
        let paused = Some(Paused {
            value: value.to_owned(),
            pending: false,
        });
        return Some(Report {
            paused,
            ..report(Vec::new())
        });
    }
    match end(&objects, &context.config.namespace, Some(resource), course).await {
        Ok(left) if left.is_empty() => None,
        Ok(left) => Some(report(left)),
        Err(error) => {
            let object = ObjectKey::new(context.domain.resource(), "", &objects.owner.name);
            Some(report(vec![Removal {
                object,
                blocker: Some(error.to_string()),
            }]))
        }
    }
}

/// The objects that go when a resource is deleted, and those that stay.
pub(crate) struct Parting {
    /// The objects to remove.
    pub goes: Inventory,
    /// The units that outlive the resource (see [`ObjectSet::outlives`]), with the reason and the
    /// way to remove them.
    pub stays: Option<(Inventory, String)>,
}

impl Parting {
    /// Of this resource, which may be gone already.
    pub fn of(domain: &dyn ObjectSet, inventory: Inventory, resource: Option<&Value>) -> Self {
        let stays = Inventory {
            made_by_operands: BTreeSet::new(),
            ..inventory.of_units(|unit| domain.outlives(unit))
        };
        match domain
            .keeps(resource, inventory.decided.as_ref())
            .filter(|_| !stays.objects.is_empty())
        {
            Some(why) => Self {
                goes: inventory.of_units(|unit| !domain.outlives(unit)),
                stays: Some((stays, why)),
            },
            None => Self {
                goes: inventory,
                stays: None,
            },
        }
    }

    fn removes_nothing(&self) -> bool {
        self.goes.objects.is_empty() && self.goes.made_by_operands.is_empty()
    }
}

/// Carries the end of a resource on as far as possible. `resource` is `None` if only its notes are
/// left. Returns the objects to remove that still exist, which are none once objects, notes and
/// Weft's finalizer are gone. The call can be repeated. `course` holds earlier findings.
///
/// # Errors
/// A note or an object cannot be read or written, or the finalizer cannot be removed.
pub(crate) async fn end(
    objects: &SetObjects,
    namespace: &str,
    resource: Option<&Value>,
    course: &mut Course,
) -> Result<Vec<Removal>, StoredError> {
    course.follow(resource);
    let (domain, whole) = (
        &*objects.set,
        stored::read(objects, namespace).await?.inventory,
    );
    let orphaned = match resource {
        Some(resource) => {
            is_orphaned(
                objects,
                &whole.of_units(|unit| !domain.outlives(unit)),
                resource,
                course,
            )
            .await?
        }
        None => false,
    };
    let Parting { goes, stays } = Parting::of(domain, whole.clone(), resource);
    if !orphaned {
        if let Some(resource) = resource {
            // Once a part of a unit is gone, the unit can release nothing any more.
            let is_whole = |unit: &str| {
                let mut keys = goes.objects.iter().filter(|(_, of)| *of == unit);
                keys.clone().next().is_some() && keys.all(|(key, _)| !course.gone.contains(key))
            };
            let kept = dependents::obstacles(objects, resource, is_whole).await;
            if !kept.is_empty() {
                return Ok(kept.into_iter().map(|(_, obstacle)| obstacle).collect());
            }
        }
        let left = remove_all(objects, &goes, stays.is_none(), course).await;
        if !left.is_empty() {
            return Ok(left);
        }
    }
    match stays {
        // With `orphan` all of it stays.
        Some((stays, _)) => {
            stored::write_inventory(objects, namespace, if orphaned { &whole } else { &stays })
                .await?
        }
        None => stored::forget(objects, namespace).await?,
    }
    if let Some(resource) = resource.filter(|resource| {
        Live::of(resource)
            .finalizers()
            .any(|finalizer| finalizer == FINALIZER)
    }) {
        if disown::is_needed(objects, resource) {
            // Again: Weft may have been killed before it had done so, or another operator may have
            // run meanwhile.
            disown::disown(objects, resource).await?;
        }
        let key = ObjectKey::new(objects.owner.kind, "", &objects.owner.name);
        finalizer::take(objects, &key, resource).await?;
    }
    Ok(Vec::new())
}

/// Removes the rest of a resource that is gone without its finalizer: a user removed it by hand, or
/// the definition of the resource was deleted. Returns objects whose end no watch shows, which must
/// be tried again.
pub(crate) async fn leftovers(context: &Context, name: &str, course: &mut Course) -> Vec<Removal> {
    let owner = Owner {
        kind: context.domain.resource(),
        name: name.to_owned(),
        uid: None,
        manager: weft_plan::manager(&*context.domain),
    };
    let objects = context.objects(owner);
    let namespace = &context.config.namespace;
    let notes = stored::inventory_key(namespace, &objects.owner);
    if context.shared.lock().owned(&notes).is_none() {
        return Vec::new();
    }
    if originals::held_by_another(&*context.domain, namespace, &context.shared).is_some() {
        // A watch shows when it goes.
        return Vec::new();
    }
    let blocker = match stored::read(&objects, namespace).await {
        Ok(stored)
            if Parting::of(&*context.domain, stored.inventory.clone(), None).removes_nothing() =>
        {
            return Vec::new();
        }
        Ok(_) => {
            tracing::info!(
                resource = name,
                "the resource is gone without its finalizer; removing what it left"
            );
            end(&objects, namespace, None, course).await
        }
        Err(error) => Err(error),
    };
    let mut left = blocker.unwrap_or_else(|error| {
        vec![Removal {
            object: notes,
            blocker: Some(error.to_string()),
        }]
    });
    for removal in left.iter().filter(|removal| removal.blocker.is_some()) {
        tracing::warn!(object = %removal.object.human(), blocker = removal.blocker, "could not be removed");
    }
    left.retain(|removal| !context.sees_end_of(&removal.object));
    left
}

/// Reports whether the user who deletes the resource wants its objects to stay
/// (`kubectl delete --cascade=orphan`).
///
/// The garbage collector then removes the owner reference from every object, and after that its
/// finalizer `orphan` from the resource. This may be over before we look, so the objects decide.
/// Weft asks the API server, since the store may be older. Single objects may lack the reference,
/// or still have it, for other reasons, so the majority counts. Weft asks once, because it would
/// ask for ever about an object that another finalizer holds.
async fn is_orphaned(
    objects: &Objects,
    inventory: &Inventory,
    resource: &Value,
    course: &mut Course,
) -> Result<bool, Error> {
    if Live::of(resource)
        .finalizers()
        .any(|finalizer| finalizer == "orphan")
    {
        return Ok(true);
    }
    if let Some(decided) = course.is_orphaned {
        return Ok(decided);
    }
    // Once the first of them are removed, it is decided.
    let first = Stage::ALL.into_iter().rev().find_map(|stage| {
        let keys: Vec<_> = inventory
            .objects
            .keys()
            .filter(|key| Stage::of(key.kind) == stage)
            .collect();
        (!keys.is_empty()).then_some(keys)
    });
    let begun = |shared: &crate::store::watch::Shared| {
        first
            .iter()
            .flatten()
            .all(|key| shared.lock().owned(key).is_none())
    };
    if objects.shared.as_ref().is_some_and(begun) {
        course.is_orphaned = Some(false);
        return Ok(false);
    }
    let places: BTreeSet<_> = inventory
        .objects
        .keys()
        .filter(|key| !is_kept_for_ever(key.kind))
        .map(|key| (key.kind, key.namespace.clone()))
        .collect();
    let selector = format!("{OWNER_LABEL}={}", objects.owner.label());
    let lists = join_all(places.iter().map(|(kind, namespace)| {
        objects
            .cluster
            .list_metadata(*kind, namespace.as_deref(), &selector)
    }))
    .await;
    let (mut with, mut without) = (0, 0);
    for list in lists {
        let (items, _) = list?;
        for item in items.iter().filter(|item| {
            ObjectKey::of(item).is_some_and(|key| inventory.objects.contains_key(&key))
        }) {
            let count = if Live::of(item).is_owned_by(Live::of(resource).uid()) {
                &mut with
            } else {
                &mut without
            };
            *count += 1;
        }
    }
    course.is_orphaned = Some(without > with);
    Ok(without > with)
}

/// Removes everything that an inventory lists, stage by stage from the end. Returns what is still
/// there: the earlier stages are then not touched yet. `to_the_last_pod`: none of the pods of these
/// workloads is to stay, so the end of all is waited for. Pods of other workloads stay, whatever
/// their labels.
async fn remove_all(
    objects: &Objects,
    inventory: &Inventory,
    to_the_last_pod: bool,
    course: &mut Course,
) -> Vec<Removal> {
    for stage in Stage::ALL.iter().rev() {
        let of_stage = course.remaining(
            objects,
            inventory
                .objects
                .keys()
                .filter(|key| Stage::of(key.kind) == *stage),
        );
        let left = prune::remove(objects, &of_stage).await;
        course.gone.extend(
            of_stage
                .into_iter()
                .filter(|key| left.iter().all(|removal| removal.object != *key)),
        );
        if !left.is_empty() {
            return left;
        }
        if *stage == Stage::Workload && to_the_last_pod {
            let is_of_these = |pod: &PodView| {
                pod.workload
                    .as_ref()
                    .is_some_and(|workload| inventory.objects.contains_key(workload))
            };
            match pods(objects).await {
                Ok(pods) if !pods.iter().any(is_of_these) => {}
                Ok(pods) => {
                    return pods
                        .iter()
                        .filter(|pod| is_of_these(pod))
                        .map(pod_left)
                        .collect();
                }
                Err(error) => {
                    return vec![Removal {
                        object: ObjectKey::new(objects.owner.kind, "", &objects.owner.name),
                        blocker: Some(format!("its pods cannot be listed: {error}")),
                    }];
                }
            }
        }
    }
    let mut left = Vec::new();
    for key in inventory
        .made_by_operands
        .iter()
        .filter(|key| !course.gone.contains(key))
        .cloned()
        .collect::<Vec<_>>()
    {
        let deleted = match objects.cluster.get_metadata(&key).await {
            Ok(None) => Ok(None),
            Ok(Some(live)) => objects.delete(&key, Live::of(&live).uid()).await,
            Err(error) => Err(error),
        };
        match deleted {
            Ok(_) => drop(course.gone.insert(key)),
            Err(error) => left.push(Removal {
                object: key,
                blocker: Some(error.to_string()),
            }),
        }
    }
    left
}

/// The pods of the domain's workloads: as known, else by asking.
async fn pods(objects: &Objects) -> Result<Vec<PodView>, Error> {
    if let Some(shared) = &objects.shared {
        return Ok(shared.lock().pods().cloned().collect());
    }
    let query = format!("labelSelector={}", objects.domain.pod_selector());
    let pods = objects
        .cluster
        .list(kinds::POD, objects.domain.namespace(), &query)
        .await?;
    Ok(pods.iter().filter_map(PodView::of).collect())
}

/// A pod that has not ended yet. Nothing is wrong with that, but if it lasts it names the node to
/// look at.
fn pod_left(pod: &PodView) -> Removal {
    Removal {
        object: ObjectKey::new(kinds::POD, &pod.namespace, &pod.name),
        blocker: None,
    }
}
