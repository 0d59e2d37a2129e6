//! The Topology by which the pods are placed.

use serde_json::Value;
use weft_plan::{ObjectKey, kinds};

use super::{End, Pending, Walk, object};
use crate::{conditions::Step, peers::topology};

impl Walk<'_> {
    /// `spec` of the Topology, if one is referred to.
    pub(super) fn topology(&mut self) -> Result<Option<Value>, End> {
        let Some(name) = topology::wanted(self.config) else {
            return Ok(None);
        };
        let key = ObjectKey::new(kinds::TOPOLOGY, &self.config.namespace, name);
        let found = self.take(Step::Topology, object(Step::Topology, self.world, &key))?;
        let spec = topology::spec(name, self.world.serves(kinds::TOPOLOGY), found.as_deref());
        let spec = self.take(Step::Topology, spec.map_err(Pending::from))?;
        if let Some(live) = found {
            self.claim(&key, &live, &topology::finalizer(&self.config.name), &[])?;
        }
        self.done(Step::Topology);
        Ok(Some(spec))
    }
}
