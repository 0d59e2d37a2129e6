//! Giving a resource and its objects back to the operator that Weft replaced: everything goes on
//! running as it is.

use serde_json::{Value, json};
use weft_plan::{Live, OWNER_LABEL, ObjectKey, release_patch};

use crate::{
    api_server::cluster::Error,
    inspect::presence,
    reconcile::{
        finalizer::{self, FINALIZER},
        objects::Objects,
        set::SetObjects,
        stored::{self, StoredError},
    },
};

/// The number of attempts on one object after another client wrote it in between.
const ATTEMPTS: usize = 4;

/// Something to give back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The identity of the object.
    pub object: ObjectKey,
    /// True if the object outlives the resource, so that nothing owns it.
    outlives: bool,
    /// The place of the other operator's record, if this is Weft's record in another place.
    moves_to: Option<ObjectKey>,
}

impl Entry {
    fn new(object: ObjectKey, outlives: bool) -> Self {
        Self {
            object,
            outlives,
            moves_to: None,
        }
    }
}

/// Returns the objects to give back in order: the objects and the record, the resource, then Weft's
/// Lease and inventory. Until the inventory goes, the others can be found again.
///
/// # Errors
/// Something that has to be known cannot be read.
pub async fn release_list(
    objects: &SetObjects,
    resource: &Value,
    namespace: &str,
) -> Result<Vec<Entry>, StoredError> {
    let inventory = stored::read(objects, namespace).await?.inventory;
    let domain = &*objects.set;
    let record = domain.record(&objects.owner.name).map(|(key, _)| Entry {
        moves_to: domain.original_record(&objects.owner.name),
        ..Entry::new(key, domain.is_forced_without_record())
    });
    let entries = inventory
        .objects
        .into_iter()
        .map(|(object, unit)| Entry::new(object, domain.outlives(&unit)));
    let mut list = Vec::new();
    for entry in entries.chain(record) {
        let live = objects.live(&entry.object).await?;
        if live.is_some_and(|live| {
            entry.moves_to.is_some()
                || release_patch(&entry.object, &live, &objects.owner, entry.outlives).is_some()
        }) {
            list.push(entry);
        }
    }
    if Live::of(resource).has_finalizer(FINALIZER) {
        let resource = ObjectKey::new(objects.owner.kind, "", &objects.owner.name);
        list.push(Entry::new(resource, false));
    }
    for object in own(objects, namespace) {
        if objects.live(&object).await?.is_some() {
            list.push(Entry::new(object, false));
        }
    }
    Ok(list)
}

/// The same of a resource that has a namespace and no inventory: its objects are known by their
/// label, and all of them are in that namespace.
///
/// # Errors
/// Something that has to be known cannot be read.
pub async fn labelled_list(objects: &Objects, namespace: &str) -> Result<Vec<Entry>, Error> {
    let mut list = Vec::new();
    for kind in objects.domain.kinds() {
        let (found, _) = objects
            .cluster
            .list_metadata(kind, Some(namespace), OWNER_LABEL)
            .await?;
        let keys = found
            .iter()
            .filter_map(|live| Some((ObjectKey::of(live)?, live)));
        let ours =
            keys.filter(|(key, live)| release_patch(key, live, &objects.owner, false).is_some());
        list.extend(ours.map(|(object, _)| Entry::new(object, false)));
    }
    Ok(list)
}

/// Returns objects that only Weft uses: the Lease, and last the inventory.
fn own(objects: &Objects, namespace: &str) -> [ObjectKey; 2] {
    [
        presence::lease_key(namespace, &*objects.domain),
        stored::inventory_key(namespace, &objects.owner),
    ]
}

/// Gives back one entry of the [`release_list`].
///
/// # Errors
/// It cannot be written.
pub async fn release(
    objects: &Objects,
    resource: &Value,
    namespace: &str,
    entry: &Entry,
) -> Result<(), Error> {
    let key = &entry.object;
    if key.kind == objects.owner.kind {
        return finalizer::take(objects, key, resource).await;
    }
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let Some(live) = objects.live(key).await? else {
            return Ok(());
        };
        if let Some(place) = &entry.moves_to {
            let data = json!({"data": live["data"]});
            write_record(objects, place, data).await?;
        }
        if entry.moves_to.is_some() || own(objects, namespace).contains(key) {
            objects.delete(key, Live::of(&live).uid()).await?;
            return Ok(());
        }
        let Some(patch) = release_patch(key, &live, &objects.owner, entry.outlives) else {
            return Ok(());
        };
        match objects
            .cluster
            .merge_patch(key, "", &patch, &objects.owner.manager)
            .await
        {
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_conflict() => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    last.map_or(Ok(()), Err)
}

/// Writes the record where the other operator continues from it.
async fn write_record(objects: &Objects, place: &ObjectKey, mut body: Value) -> Result<(), Error> {
    let (cluster, manager) = (&objects.cluster, objects.owner.manager.as_str());
    match cluster.merge_patch(place, "", &body, manager).await {
        Err(error) if error.is_not_found() => {
            body["apiVersion"] = place.kind.api_version().into();
            body["kind"] = place.kind.kind.into();
            body["metadata"] = json!({"namespace": place.namespace, "name": place.name});
            cluster.apply_new(place, &body, manager).await.map(drop)
        }
        written => written.map(drop),
    }
}
