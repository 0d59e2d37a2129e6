//! Removal without an operator: what the operator's teardown does, for when it is gone, and what
//! else an installation leaves.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Discovery,
    api::{ApiResource, DynamicObject, ListParams},
    discovery::{Scope, verbs},
};
use serde_json::Value;
use weft_plan::{Domain, Inventory, Live, ObjectKey, Owner, kinds, manager, report::Removal};

use crate::{
    api_server::cluster::{Cluster, Error},
    reconcile::{
        set::SetObjects,
        stored::{self, StoredError},
        teardown::{self, Course, Parting},
    },
};

/// Requests in flight at once.
const IN_FLIGHT: usize = 16;

/// How often a kind is asked for again that the API server is not ready to answer for, and how long
/// after.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(200);

/// Carries the teardown of a resource on as far as possible. `resource` is `None` if only its notes
/// are left. Returns the objects that still exist, which are none once objects, notes and Weft's
/// finalizer are gone. You can repeat the call.
///
/// # Errors
/// A note cannot be read or deleted, or the finalizer cannot be removed.
pub async fn tear_down(
    objects: &SetObjects,
    namespace: &str,
    resource: Option<&Value>,
) -> Result<Vec<Removal>, StoredError> {
    teardown::end(objects, namespace, resource, &mut Course::default()).await
}

/// Returns the objects that stay when a resource is deleted, with the reason, or none if all of
/// them go. `resource` is `None` if only its notes are left.
///
/// # Errors
/// The notes cannot be read.
pub async fn staying(
    objects: &SetObjects,
    namespace: &str,
    resource: Option<&Value>,
) -> Result<Option<Staying>, StoredError> {
    let inventory = stored::read(objects, namespace).await?.inventory;
    let Parting { goes, stays } = Parting::of(&*objects.set, inventory, resource);
    Ok(stays.map(|(stays, why)| Staying {
        nothing_goes: goes.objects.is_empty() && goes.made_by_operands.is_empty(),
        objects: stays.objects.into_keys().collect(),
        why,
    }))
}

/// The objects that stay when a resource is deleted.
pub struct Staying {
    /// The identities of the objects.
    pub objects: Vec<ObjectKey>,
    /// Why, and how to be rid of them.
    pub why: String,
    /// True if no other objects go.
    pub nothing_goes: bool,
}

/// The owners, present or gone, that have an inventory in this namespace.
pub async fn inventories(
    cluster: &Cluster,
    domain: &dyn Domain,
    namespace: &str,
) -> Result<Vec<Owner>, Error> {
    let (maps, _) = cluster
        .list_metadata(kinds::CONFIG_MAP, Some(namespace), weft_plan::OWNER_LABEL)
        .await?;
    let prefix = Inventory::config_map_name(domain.resource(), "");
    let names = maps
        .iter()
        .filter_map(|map| Live::of(map).name().strip_prefix(&prefix));
    Ok(names
        .map(|name| Owner {
            kind: domain.resource(),
            name: name.to_owned(),
            uid: None,
            manager: manager(domain),
        })
        .collect())
}

/// Something in a namespace, for people: `ConfigMap settings`.
pub type Content = String;

/// Returns the contents of a namespace, without objects that every namespace has, that are about to
/// go, or that go with their owner.
///
/// # Errors
/// Some kind could not be listed: then it is not known whether the namespace is empty.
pub async fn contents(cluster: &Cluster, namespace: &str) -> Result<Vec<Content>, Error> {
    let discovery = Discovery::new(cluster.client().clone())
        .run_aggregated()
        .await?;
    let listable = discovery
        .groups()
        .flat_map(|group| group.recommended_resources())
        .filter(|(kind, can)| {
            // Events are about the past. Endpoints go with their Service.
            can.scope == Scope::Namespaced
                && can.supports_operation(verbs::LIST)
                && !matches!(kind.kind.as_str(), "Event" | "Endpoints")
        });
    let lists = listable.map(|(kind, _)| list(cluster, namespace, kind));
    let lists: Vec<Vec<Content>> = stream::iter(lists)
        .buffered(IN_FLIGHT)
        .try_collect()
        .await?;
    Ok(lists.concat())
}

async fn list(
    cluster: &Cluster,
    namespace: &str,
    kind: ApiResource,
) -> Result<Vec<Content>, Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client().clone(), namespace, &kind);
    let mut attempts = 0;
    let list = loop {
        match api
            .list_metadata(&ListParams::default())
            .await
            .map_err(Error::from)
        {
            Ok(list) => break list,
            // Its definition has gone since.
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            // "storage is (re)initializing": its definition is just changing or going.
            Err(Error::Api(status)) if status.code == 429 && attempts < ATTEMPTS => {
                attempts += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    };
    let counts = |metadata: &kube::core::ObjectMeta, name: &str| {
        let of_every_namespace = matches!(
            (kind.kind.as_str(), name),
            ("ConfigMap", "kube-root-ca.crt") | ("ServiceAccount", "default")
        );
        let owned = metadata
            .owner_references
            .iter()
            .flatten()
            .any(|owner| owner.controller == Some(true));
        !of_every_namespace && !owned && metadata.deletion_timestamp.is_none()
    };
    let named = list.items.into_iter().filter_map(|item| {
        let name = item.metadata.name.clone().unwrap_or_default();
        counts(&item.metadata, &name).then(|| format!("{} {name}", kind.kind))
    });
    Ok(named.collect())
}
