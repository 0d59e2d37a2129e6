//! Units that stay, because objects of other users depend on them.

use serde_json::Value;
use weft_plan::{Inventory, Live, ObjectKey, report::Removal};

use crate::{api_server::cluster::Error, reconcile::set::SetObjects};

/// Returns the units that stay although they are to go, each with the object that keeps it.
/// `is_leaving` reports whether a unit is to go.
pub(crate) async fn obstacles(
    objects: &SetObjects,
    resource: &Value,
    is_leaving: impl Fn(&str) -> bool,
) -> Vec<(&'static str, Removal)> {
    let mut found = Vec::new();
    for dependents in objects.set.dependents() {
        if !is_leaving(dependents.unit) || dependents.are_given_up(resource) {
            continue;
        }
        let is_held = |object: &Value| Live::of(object).has_finalizer(dependents.finalizer);
        let listed = objects.cluster.metadata_of(dependents.kind, is_held).await;
        let obstacle = match listed {
            Ok(held) => dependents.obstacle(&objects.owner, &held),
            // The administrator has taken this right away together with the component.
            Err(Error::Api(status)) if status.code == 403 => None,
            Err(error) => Some(Removal {
                object: ObjectKey::new(objects.owner.kind, "", &objects.owner.name),
                blocker: Some(format!(
                    "keeps {} until {} can be listed, since these may need it: {error}",
                    dependents.unit, dependents.kind.plural
                )),
            }),
        };
        found.extend(obstacle.map(|obstacle| (dependents.unit, obstacle)));
    }
    found
}

/// Reports whether an object belongs to one of these units.
pub(crate) fn is_of(kept: &[(&'static str, Removal)], key: &ObjectKey, known: &Inventory) -> bool {
    let unit = known.objects.get(key);
    unit.is_some_and(|unit| kept.iter().any(|(one, _)| one == unit))
}
