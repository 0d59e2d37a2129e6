//! The finalizer by which the deletion of a resource waits for Weft.

use serde_json::{Value, json};
use weft_plan::{Live, ObjectKey};

use crate::{api_server::cluster::Error, reconcile::objects::Objects};

/// The finalizer that lets Weft remove a resource's objects in order before the resource goes.
pub const FINALIZER: &str = "weft.network/teardown";

/// Puts our finalizer on the resource. The uid keeps the apply from making a resource that was just
/// deleted.
pub(super) async fn put(objects: &Objects, key: &ObjectKey, resource: &Value) -> Result<(), Error> {
    let body = json!({
        "apiVersion": key.kind.api_version(), "kind": key.kind.kind,
        "metadata": {
            "name": key.name, "uid": Live::of(resource).uid(), "finalizers": [FINALIZER]
        },
    });
    let written = objects
        .cluster
        .apply(key, &body, &objects.owner.manager)
        .await?;
    objects.remember(&written);
    Ok(())
}

/// Takes our finalizer off the resource.
pub(crate) async fn take(
    objects: &Objects,
    key: &ObjectKey,
    resource: &Value,
) -> Result<(), Error> {
    objects
        .cluster
        .take_finalizer(key, resource, FINALIZER, &objects.owner.manager)
        .await
}
