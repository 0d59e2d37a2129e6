//! Parts of users' objects that only the operator would remove: a finalizer of it, without which an
//! object could never be deleted, and the condition of a node, which would stay as it is for ever.

use anyhow::Result;
use serde_json::Value;
use weft_api::node_network::NODE_CONDITION;
use weft_node_network::rollout::readiness;
use weft_plan::{Live, ObjectKey, condition, kinds, manager};

use crate::online::{Online, Site};

/// An object with such a part.
pub struct Held {
    /// Identity of the object.
    pub key: ObjectKey,
    object: Value,
    part: Part,
}

enum Part {
    Finalizer(&'static str),
    Condition,
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
        let held = |object: &Value| Live::of(object).has_finalizer(finalizer);
        let objects = objects.into_iter().filter(held);
        all.extend(objects.filter_map(|object| Held::new(object, Part::Finalizer(finalizer))));
    }
    if site.entry.has_policies {
        let nodes = online.cluster.list(kinds::NODE, None, "").await;
        let nodes = nodes.map_err(|error| online.explain(error))?;
        let nodes = nodes
            .into_iter()
            .filter(|node| condition(&node["status"], NODE_CONDITION).is_some());
        all.extend(nodes.filter_map(|node| Held::new(node, Part::Condition)));
    }
    Ok(all)
}

impl Held {
    fn new(object: Value, part: Part) -> Option<Self> {
        let key = ObjectKey::of(&object)?;
        Some(Self { key, object, part })
    }
}

/// Removes that part of the object.
///
/// # Errors
/// The API server refuses the write.
pub async fn release(online: &Online, site: &Site, held: &Held) -> Result<()> {
    let Held { key, object, part } = held;
    let manager = manager(&*site.domain);
    let released = match part {
        Part::Finalizer(finalizer) => {
            let taken = online
                .cluster
                .take_finalizer(key, object, finalizer, &manager);
            taken.await
        }
        Part::Condition => {
            let body = readiness::without_condition(&key.name, Live::of(object).uid());
            let written = online.cluster.apply_status(key, &body, &manager).await;
            written.map(drop)
        }
    };
    released.map_err(|error| online.explain(error))
}
