//! Users' objects that a finalizer of the operator holds. When the operator is gone, no controller
//! removes the finalizer, and the objects could never be deleted.

use anyhow::Result;
use serde_json::Value;
use weft_plan::{Live, ObjectKey, manager};

use crate::online::{Online, Site};

/// An object that is held.
pub struct Held {
    /// Identity of the held object.
    pub key: ObjectKey,
    object: Value,
    finalizer: &'static str,
}

/// All that the operator of a domain holds.
///
/// # Errors
/// The API server refuses a request.
pub async fn find(online: &Online, site: &Site) -> Result<Vec<Held>> {
    let mut all = Vec::new();
    for (kind, finalizer) in site.entry.finalizers {
        let objects = match online.cluster.list_metadata(*kind, None, "").await {
            Ok((objects, _)) => objects,
            // Their definition is gone, or was never there.
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(online.explain(error)),
        };
        for object in objects
            .into_iter()
            .filter(|object| Live::of(object).has_finalizer(finalizer))
        {
            all.extend(ObjectKey::of(&object).map(|key| Held {
                key,
                object,
                finalizer,
            }));
        }
    }
    Ok(all)
}

/// Removes the finalizer from the object.
///
/// # Errors
/// The API server refuses the write.
pub async fn release(online: &Online, site: &Site, held: &Held) -> Result<()> {
    let Held {
        key,
        object,
        finalizer,
    } = held;
    let taken = online
        .cluster
        .take_finalizer(key, object, finalizer, &manager(&*site.domain))
        .await;
    taken.map(drop).map_err(|error| online.explain(error))
}
