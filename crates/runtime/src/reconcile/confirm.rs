//! The confirmation that objects exist, before status says that all is well.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::Value;
use weft_plan::{Kind, Live, Manifest, Mode, OWNER_LABEL, ObjectKey, Owner};

use crate::{
    api_server::cluster::{Cluster, Error},
    store::watch::Shared,
};

/// The objects that are not as the store has them, although status was to say that all is well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// True if an object is gone. It has left the store, so that the next reconcile restores it.
    pub is_one_gone: bool,
    /// True if an object is being deleted. The store has its deletion by now.
    pub is_one_going: bool,
}

/// Finds out by requests which of these objects of the owner exist *now*, since watches may be late.
/// Only objects that Weft keeps in order count ([`Mode::Managed`]).
///
/// # Errors
/// The objects cannot be listed.
pub async fn missing(
    cluster: &Cluster,
    shared: &Shared,
    owner: &Owner,
    objects: impl IntoIterator<Item = &Manifest>,
) -> Result<Missing, Error> {
    let mut groups: BTreeMap<(Kind, Option<String>), Vec<ObjectKey>> = BTreeMap::new();
    let managed = objects.into_iter();
    for object in managed.filter(|object| object.mode() == Mode::Managed) {
        let key = object.key();
        groups
            .entry((key.kind, key.namespace.clone()))
            .or_default()
            .push(key.clone());
    }
    let selector = format!("{OWNER_LABEL}={}", owner.label());
    let lists =
        join_all(groups.keys().map(|(kind, namespace)| {
            cluster.list_metadata(*kind, namespace.as_deref(), &selector)
        }))
        .await;
    let (mut missing, mut going) = (Missing::default(), Vec::new());
    for (keys, list) in groups.values().zip(lists) {
        let (items, version) = list?;
        let is_going = |object: &&Value| Live::of(object).is_being_deleted();
        going.extend(
            items
                .iter()
                .filter(is_going)
                .filter_map(ObjectKey::of)
                .filter(|key| keys.contains(key)),
        );
        let there: BTreeMap<_, _> = items
            .into_iter()
            .filter_map(|object| {
                Some((ObjectKey::of(&object)?, Live::of(&object).uid().to_owned()))
            })
            .collect();
        let mut cache = shared.lock();
        for key in keys {
            let known = cache.owned(key);
            let uid = known
                .as_ref()
                .map(|known| Live::of(known).uid())
                .unwrap_or_default();
            let is_there = there
                .get(key)
                .is_some_and(|found| known.is_none() || found == uid);
            // A watch may have shown a new object of that name since the list was taken.
            let is_newer = known
                .as_ref()
                .is_some_and(|known| Live::of(known).resource_version() > version);
            if !is_there && !is_newer {
                tracing::info!(object = %key.human(), "gone, though it was there a moment ago");
                cache.gone(key, uid);
                missing.is_one_gone = true;
            }
        }
    }
    missing.is_one_going = !going.is_empty();
    for key in &going {
        if let Some(live) = cluster.get(key).await? {
            shared.lock().wrote(&live);
        }
    }
    Ok(missing)
}
