//! Weft's notes about a resource in the operator's namespace: its inventory, and the record of the
//! original operator.

use std::sync::Arc;

use serde_json::{Value, json};
use weft_plan::{Inventory, InventoryError, Live, Manifest, OWNER_LABEL, ObjectKey, Owner, kinds};

use crate::{
    api_server::cluster::Error,
    reconcile::{objects::Objects, set::SetObjects},
};

/// The notes about a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// The objects that Weft has in the cluster for the resource.
    pub inventory: Inventory,
    /// The last applied configuration in the original's form.
    pub record: Option<String>,
}

/// Why what is stored cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// It could not be read.
    #[error(transparent)]
    Request(#[from] Error),
    /// The inventory is damaged.
    #[error(
        "ConfigMap {name} is damaged: {why}. Restore it, or delete it: objects of components that are no longer wanted then have to be deleted by hand"
    )]
    Damaged {
        /// namespace/name of the ConfigMap
        name: String,
        /// what is wrong with it
        why: InventoryError,
    },
}

/// Where the inventory of a resource is.
pub(crate) fn inventory_key(namespace: &str, owner: &Owner) -> ObjectKey {
    ObjectKey::new(
        kinds::CONFIG_MAP,
        namespace,
        &Inventory::config_map_name(owner.kind, &owner.name),
    )
}

/// Reads what is stored.
///
/// # Errors
/// It cannot be read, or is damaged: then nothing may be written, since something might be left
/// over.
pub async fn read(objects: &SetObjects, namespace: &str) -> Result<Stored, StoredError> {
    let key = inventory_key(namespace, &objects.owner);
    let (map, record) = futures::join!(objects.live(&key), record(objects));
    let inventory = match map? {
        Some(map) => Inventory::from_data(&map["data"]).map_err(|why| StoredError::Damaged {
            name: format!("{namespace}/{}", key.name),
            why,
        })?,
        // Nothing is Weft's yet. The first reconcile removes leftovers of another operator that
        // nobody needs.
        None => Inventory {
            objects: objects.domain.obsolete().into_iter().collect(),
            ..Inventory::default()
        },
    };
    Ok(Stored {
        inventory,
        record: record?,
    })
}

async fn record(objects: &SetObjects) -> Result<Option<String>, Error> {
    let Some((key, field)) = objects.set.record(&objects.owner.name) else {
        return Ok(None);
    };
    let text = |map: Option<Arc<Value>>| {
        map.and_then(|map| map["data"][field].as_str().map(str::to_owned))
    };
    let own = text(objects.live(&key).await?);
    match objects
        .set
        .original_record(&objects.owner.name)
        .filter(|_| own.is_none())
    {
        Some(original) => Ok(text(objects.live(&original).await?)),
        None => Ok(own),
    }
}

/// Makes the stored inventory this one.
pub(crate) async fn write_inventory(
    objects: &Objects,
    namespace: &str,
    inventory: &Inventory,
) -> Result<(), Error> {
    write(
        objects,
        &inventory_key(namespace, &objects.owner),
        inventory.to_data(),
        &Value::Null,
    )
    .await
}

/// Makes the record of the last applied configuration this one. The resource owns that of the
/// original, and ceases to: the record goes with the rest of Weft's notes, or when users delete it
/// on purpose.
pub(crate) async fn write_record(objects: &Objects, record: &Manifest) -> Result<(), Error> {
    if let Some(live) = objects.live(record.key()).await?
        && Live::of(&live).owners().next().is_some()
    {
        let live = Live::of(&live);
        let patch = json!({
            "metadata": {
                "uid": live.uid(), "resourceVersion": live.resource_version_text(),
                "ownerReferences": null
            }
        });
        let patched = objects
            .cluster
            .merge_patch(record.key(), "", &patch, &objects.owner.manager)
            .await?;
        if objects.has_label(&patched) {
            objects.remember(&patched);
        }
    }
    write(
        objects,
        record.key(),
        record.body()["data"].clone(),
        &record.body()["metadata"]["labels"],
    )
    .await
}

/// Both are Weft's own notes: applied with force, whoever touched them, and only when they differ.
/// And only over what we know: a new leader whose watch lags would forget names that the leader
/// before it had added.
async fn write(
    objects: &Objects,
    key: &ObjectKey,
    data: Value,
    labels: &Value,
) -> Result<(), Error> {
    let mut labels = labels.as_object().cloned().unwrap_or_default();
    labels.insert(OWNER_LABEL.to_owned(), objects.owner.label().into());
    let mut body = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": key.namespace, "name": key.name, "labels": labels},
        "data": data,
    });
    let known = match &objects.shared {
        Some(shared) => shared.lock().owned(key),
        // A command has no watches: it looks.
        None => objects.cluster.get(key).await?.map(Arc::new),
    };
    if let Some(known) = &known {
        let has_labels = labels
            .iter()
            .all(|(label, value)| Live::of(known).label(label) == value.as_str());
        if known["data"] == body["data"] && has_labels {
            return Ok(());
        }
        body["metadata"]["resourceVersion"] = Live::of(known).resource_version_text().into();
    }
    let (cluster, manager) = (&objects.cluster, objects.owner.manager.as_str());
    let mut written = match &known {
        Some(_) => cluster.apply(key, &body, manager).await,
        None => cluster.apply_new(key, &body, manager).await,
    };
    if matches!(&written, Err(error) if error.is_conflict()) {
        let newest = cluster.get(key).await?;
        match (&newest, &known) {
            // No watch shows it: it is the original's record, or a user removed the label. `read`
            // has looked at it.
            (Some(newest), None) if !objects.has_label(newest) => {
                body["metadata"]["resourceVersion"] =
                    Live::of(newest).resource_version_text().into();
                written = cluster.apply(key, &body, manager).await;
            }
            // The next attempt begins with what is there.
            (Some(newest), _) => objects.remember(newest),
            (None, Some(known)) => objects.forget(key, Live::of(known).uid()),
            (None, None) => {}
        }
    }
    objects.remember(&written?);
    Ok(())
}

/// Deletes inventory and record, last of all when a resource goes.
pub(crate) async fn forget(objects: &SetObjects, namespace: &str) -> Result<(), Error> {
    let record = objects.set.record(&objects.owner.name).map(|(key, _)| key);
    for key in record
        .into_iter()
        .chain([inventory_key(namespace, &objects.owner)])
    {
        if let Some(live) = objects.live(&key).await? {
            objects.delete(&key, Live::of(&live).uid()).await?;
        }
    }
    Ok(())
}
