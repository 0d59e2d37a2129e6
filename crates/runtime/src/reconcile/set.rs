//! The objects of one resource, with the rules of the domain that they are a set of.

use std::{ops::Deref, sync::Arc};

use weft_plan::{Freeze, ObjectSet};

use crate::reconcile::{objects::Objects, retry::Retries};

/// [`Objects`] of a resource with an inventory, and the rules about their record and lifetime.
#[derive(Clone)]
pub struct SetObjects {
    objects: Objects,
    pub(crate) set: Arc<dyn ObjectSet>,
}

impl SetObjects {
    /// Returns these objects under the rules of `set`, which is their domain.
    pub fn new(objects: Objects, set: Arc<dyn ObjectSet>) -> Self {
        Self { objects, set }
    }

    /// Returns these objects with the failures of earlier reconciles.
    #[must_use]
    pub(crate) fn with_retries(self, retries: Arc<Retries>) -> Self {
        Self {
            objects: self.objects.with_retries(retries),
            ..self
        }
    }

    /// Returns these objects with steps that the operator must not carry out.
    #[must_use]
    pub(crate) fn with_freeze(self, freeze: Freeze) -> Self {
        Self {
            objects: self.objects.with_freeze(freeze),
            ..self
        }
    }
}

impl Deref for SetObjects {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}
