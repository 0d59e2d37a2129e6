//! The removal of objects that are no longer wanted.

use futures::future::join_all;
use serde_json::Value;
use weft_plan::{Live, ObjectKey, Stage, deletion, report::Removal};

use crate::reconcile::objects::Objects;

/// Deletes what is no longer wanted, later stages first. Returns what could not be deleted or is
/// still held.
pub(crate) async fn remove(objects: &Objects, surplus: &[ObjectKey]) -> Vec<Removal> {
    let mut left = Vec::new();
    for stage in Stage::ALL.iter().rev() {
        let keys: Vec<_> = surplus
            .iter()
            .filter(|key| Stage::of(key.kind) == *stage)
            .collect();
        let outcomes = join_all(keys.iter().map(|key| async move {
            let blocker = match objects.remove(key).await {
                Ok(left) => left.map(|object| held_by(&object))?,
                Err(error) => Some(error.to_string()),
            };
            Some(Removal {
                object: (*key).clone(),
                blocker,
            })
        }))
        .await;
        left.extend(outcomes.into_iter().flatten());
    }
    left
}

/// Returns the reason why an object that is being deleted still exists.
fn held_by(object: &Value) -> Option<String> {
    Live::of(object).finalizers().next()?;
    Some(format!(
        "is being deleted, and waits for {}",
        deletion::waits_for(object, None)
    ))
}
