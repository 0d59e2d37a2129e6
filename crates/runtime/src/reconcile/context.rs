//! The parts that every step of a reconcile uses.

use std::sync::Arc;

use serde_json::Value;
use weft_plan::{
    Domain, Live, ObjectKey, ObjectSet, Owner, kinds,
    report::{FailureClass, Removal},
};

use crate::{
    api_server::cluster::Cluster,
    metrics::Metrics,
    reconcile::{
        admission::Admission, events::EventRecorder, objects::Objects, reach::Reach,
        set::SetObjects,
    },
    store::{cache::Source, watch::Shared},
};

/// The namespace and the name of an operator.
#[derive(Clone, Debug)]
pub struct Config {
    /// The operator's own namespace, which holds inventory, record and Lease.
    pub namespace: String,
    /// The name of this replica, as events show it.
    pub instance: String,
}

/// A domain with the client, the store and the reporters of its controller.
pub(crate) struct Context {
    pub domain: Arc<dyn ObjectSet>,
    pub cluster: Cluster,
    pub shared: Shared,
    pub metrics: Metrics,
    pub config: Config,
    pub recorder: EventRecorder,
    pub reach: Reach,
    pub admission: Admission,
}

impl Context {
    /// Returns the objects of one resource.
    pub fn objects(&self, owner: Owner) -> SetObjects {
        let objects = Objects::new(
            self.cluster.clone(),
            Some(self.shared.clone()),
            Arc::clone(&self.domain) as Arc<dyn Domain>,
            owner,
            self.metrics.clone(),
        )
        .with_admission(self.admission.clone());
        SetObjects::new(objects, Arc::clone(&self.domain))
    }

    /// Reports whether a watch shows the end of an object that is being deleted.
    pub(crate) fn sees_end_of(&self, object: &ObjectKey) -> bool {
        let cache = self.shared.lock();
        if object.kind == kinds::POD {
            cache.refusal(&Source::Pods).is_none()
        } else {
            cache.going(object).is_some()
        }
    }

    /// Returns how the operator looks for the ends of these objects, as far as no watch shows them.
    /// Objects of other users may stay for long.
    pub(crate) fn asks_for(&self, removals: &[Removal]) -> Option<FailureClass> {
        let is_of_others = |object: &ObjectKey| {
            let mut dependents = self.domain.dependents().iter();
            dependents.any(|one| one.kind == object.kind)
        };
        removals
            .iter()
            .map(|removal| &removal.object)
            .filter(|object| !self.sees_end_of(object))
            .map(|object| match is_of_others(object) {
                true => FailureClass::Refused,
                false => FailureClass::Transient,
            })
            .max()
    }

    /// Returns the resource with the operator's own writes of this reconcile.
    pub fn latest(&self, resource: &Value) -> Arc<Value> {
        let latest = self
            .shared
            .lock()
            .resources()
            .into_iter()
            .find(|known| Live::of(known).uid() == Live::of(resource).uid());
        latest.unwrap_or_else(|| Arc::new(resource.clone()))
    }
}
