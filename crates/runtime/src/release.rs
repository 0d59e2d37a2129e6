//! Giving a resource and its objects back to the operator that Weft replaced: everything goes on running as it is.

use serde_json::Value;
use weft_plan::{ObjectKey, release_patch};

use crate::{
    cluster::Error,
    objects::Objects,
    pass, presence,
    stored::{self, StoredError},
    teardown,
};

/// How often one object is tried again after somebody else wrote in between.
const ATTEMPTS: usize = 4;

/// What there is to give back, in order: the objects and the record, then the resource, and last Weft's lease and inventory. Until that is
/// gone, the rest can be found again.
///
/// # Errors
/// Something that has to be known cannot be read.
pub async fn release_list(objects: &Objects, resource: &Value, namespace: &str) -> Result<Vec<ObjectKey>, StoredError> {
    let inventory = stored::read(objects, namespace).await?.inventory;
    let record = objects.domain.record(&objects.owner.name).map(|(key, _)| key);
    let mut list = Vec::new();
    for key in inventory.objects.into_keys().chain(record) {
        if objects.live(&key).await?.is_some_and(|live| release_patch(&key, &live, &objects.owner).is_some()) {
            list.push(key);
        }
    }
    if teardown::finalizers(resource).any(|finalizer| finalizer == pass::FINALIZER) {
        list.push(ObjectKey::new(objects.owner.kind, "", &objects.owner.name));
    }
    for key in own(objects, namespace) {
        if objects.live(&key).await?.is_some() {
            list.push(key);
        }
    }
    Ok(list)
}

/// What nobody but Weft has a use for: the lease, and last the inventory.
fn own(objects: &Objects, namespace: &str) -> [ObjectKey; 2] {
    [presence::lease_key(namespace, &*objects.domain), stored::inventory_key(namespace, &objects.owner)]
}

/// Gives back one entry of the [`release_list`].
///
/// # Errors
/// It cannot be written.
pub async fn release(objects: &Objects, resource: &Value, namespace: &str, key: &ObjectKey) -> Result<(), Error> {
    if key.kind == objects.owner.kind {
        return pass::take_finalizer(objects, key, resource).await;
    }
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let Some(live) = objects.live(key).await? else { return Ok(()) };
        if own(objects, namespace).contains(key) {
            objects.delete(key, live["metadata"]["uid"].as_str().unwrap_or_default()).await?;
            return Ok(());
        }
        let Some(patch) = release_patch(key, &live, &objects.owner) else { return Ok(()) };
        match objects.cluster.merge_patch(key, "", &patch, &objects.owner.manager).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.is_conflict() => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    last.map_or(Ok(()), Err)
}
