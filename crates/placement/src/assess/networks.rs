//! The additional networks of the pods.

use std::sync::Arc;

use serde_json::Value;
use weft_plan::{ObjectKey, kinds};

use super::{Pending, Walk, object};
use crate::{Config, Network, conditions::Step, networks, world::World};

/// The networks of `spec.networkAttachments`, in that order.
///
/// # Errors
/// One is not there, nothing in the cluster reads them, or two would be the same interface.
pub fn definitions(config: &Config, world: &dyn World) -> Result<Vec<Network>, Pending> {
    networks::distinct(
        config
            .spec()
            .network_attachments
            .as_deref()
            .unwrap_or_default(),
    )?;
    let names = config.spec().network_attachments.iter().flatten();
    if names.clone().next().is_some() && !world.serves(kinds::NETWORK_ATTACHMENT_DEFINITION) {
        let why = "the cluster has no kind NetworkAttachmentDefinition: install Multus, or remove spec.networkAttachments";
        return Err(Step::NetworkAttachments.fails(why).into());
    }
    let find = |name: &String| {
        let key = ObjectKey::new(
            kinds::NETWORK_ATTACHMENT_DEFINITION,
            &config.namespace,
            name,
        );
        let found = object(Step::NetworkAttachments, world, &key)?;
        networks::read(name, found.as_deref()).map_err(Pending::from)
    };
    names.map(find).collect()
}

impl Walk<'_> {
    /// Checks that the pods are attached to the additional networks. Only the registration waits
    /// for that. Other steps of the pods are reported all the same.
    pub(super) fn attachments(&mut self, deployment: &Value, pods: &[Arc<Value>]) {
        let names = self
            .config
            .spec()
            .network_attachments
            .clone()
            .unwrap_or_default();
        let (addresses, state) =
            networks::attached(&self.config.namespace, &names, deployment, pods);
        self.assessment.found.network_attachments = Some(addresses);
        self.assessment.steps.set(Step::NetworkAttachments, state);
    }
}
