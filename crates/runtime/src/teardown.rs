//! The end of a resource: webhooks first, then workloads and their pods, permissions last; then what the operands made, Weft's
//! notes, and at last the finalizer.

use serde_json::Value;
use weft_plan::{
    Inventory, ObjectKey, Owner, Stage, kinds,
    report::{Removal, Report},
    rollout::PodView,
};

use crate::{cluster::Error, controller::Controller, objects::Objects, pass, stored};

/// Takes one step, as far as it goes. `None`: the resource is gone.
pub async fn step(controller: &Controller, resource: &Value) -> Option<Report> {
    let owner = Owner::of(&*controller.domain, resource);
    let objects = controller.objects(owner);
    let generation = resource["metadata"]["generation"].as_i64().unwrap_or_default();
    let report = |removals| Report { generation, removing: true, removals, ..Report::default() };
    let inventory = match stored::read(&objects, &controller.config.namespace).await {
        Ok(stored) => stored.inventory,
        Err(error) => {
            return Some(report(vec![Removal {
                object: stored::inventory_key(&controller.config.namespace, &objects.owner),
                blocker: Some(error.to_string()),
            }]));
        }
    };
    let orphan = finalizers(resource).any(|finalizer| finalizer == "orphan");
    if !orphan {
        let left = remove_all(&objects, &inventory).await;
        if !left.is_empty() {
            return Some(report(left));
        }
    }
    if let Err(error) = stored::forget(&objects, &*controller.domain, &controller.config.namespace).await {
        return Some(report(vec![Removal {
            object: stored::inventory_key(&controller.config.namespace, &objects.owner),
            blocker: Some(error.to_string()),
        }]));
    }
    let key = ObjectKey::new(controller.domain.resource(), "", &objects.owner.name);
    match pass::set_finalizer(&objects, &key, resource, false).await {
        Ok(()) => None,
        Err(error) => Some(report(vec![Removal { object: key, blocker: Some(error.to_string()) }])),
    }
}

/// Removes what is left of a resource that is gone without its finalizer: somebody took it off by hand, or the definition of the
/// resource was deleted. Returns whether nothing is left to do.
pub async fn leftovers(controller: &Controller, name: &str) -> bool {
    let owner =
        Owner { kind: controller.domain.resource(), name: name.to_owned(), uid: None, manager: weft_plan::manager(&*controller.domain) };
    let objects = controller.objects(owner);
    let namespace = &controller.config.namespace;
    if controller.shared.lock().owned(&stored::inventory_key(namespace, &objects.owner)).is_none() {
        return true;
    }
    let operators = controller.shared.lock().operators();
    if pass::blocked(&*controller.domain, operators.iter().map(|operator| &**operator)).is_some() {
        return false;
    }
    tracing::info!(resource = name, "the resource is gone without its finalizer; removing what it left");
    let left = match stored::read(&objects, namespace).await {
        Ok(stored) => remove_all(&objects, &stored.inventory).await,
        Err(error) => vec![Removal { object: stored::inventory_key(namespace, &objects.owner), blocker: Some(error.to_string()) }],
    };
    for removal in left.iter().filter(|removal| removal.blocker.is_some()) {
        tracing::warn!(object = %removal.object.human(), blocker = removal.blocker, "could not be removed");
    }
    left.is_empty() && stored::forget(&objects, &*controller.domain, namespace).await.is_ok()
}

/// The finalizers of a resource.
pub fn finalizers(resource: &Value) -> impl Iterator<Item = &str> {
    resource["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Removes everything that an inventory lists, stage by stage from the end. Returns what is still there: the earlier stages are
/// then not touched yet.
pub async fn remove_all(objects: &Objects<'_>, inventory: &Inventory) -> Vec<Removal> {
    for stage in Stage::ALL.iter().rev() {
        let of_stage: Vec<_> = inventory.objects.keys().filter(|key| Stage::of(key.kind) == *stage).cloned().collect();
        let left = pass::remove(objects, &of_stage).await;
        if !left.is_empty() {
            return left;
        }
        if *stage == Stage::Workload {
            match pods(objects).await {
                Ok(pods) if pods.is_empty() => {}
                Ok(pods) => return pods.iter().map(pod_left).collect(),
                Err(error) => {
                    return vec![Removal {
                        object: ObjectKey::new(kinds::NAMESPACE, "", objects.domain.namespace()),
                        blocker: Some(format!("its pods cannot be listed: {error}")),
                    }];
                }
            }
        }
    }
    let mut left = Vec::new();
    for key in &inventory.made_by_operands {
        let deleted = match objects.cluster.get(key).await {
            Ok(None) => Ok(None),
            Ok(Some(live)) => objects.delete(key, live["metadata"]["uid"].as_str().unwrap_or_default()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = deleted {
            left.push(Removal { object: key.clone(), blocker: Some(error.to_string()) });
        }
    }
    left
}

/// The pods of the domain's workloads: as known, else by asking.
async fn pods(objects: &Objects<'_>) -> Result<Vec<PodView>, Error> {
    if let Some(shared) = objects.shared {
        return Ok(shared.lock().pods().cloned().collect());
    }
    let query = format!("labelSelector={}", objects.domain.pod_selector());
    let pods = objects.cluster.list(kinds::POD, Some(objects.domain.namespace()), &query).await?;
    Ok(pods.iter().filter_map(PodView::of).collect())
}

/// A pod that has not ended yet. Nothing is wrong with that, but if it lasts it names the node to look at.
fn pod_left(pod: &PodView) -> Removal {
    Removal { object: ObjectKey::new(kinds::POD, &pod.namespace, &pod.name), blocker: None }
}
