//! Writes the condition of nodes that have all policies which are for them, and takes their startup
//! taint.

use weft_node_network::rollout::{Readiness, readiness};
use weft_plan::{Live, ObjectKey, kinds};
use weft_runtime::{
    api_server::{clock, cluster::Error},
    reconcile::events::Note,
};

use super::Controller;

impl Controller {
    /// Reports whether there is an NMState that is not being deleted.
    pub(super) fn is_installed(&self) -> bool {
        let installations = self.shared.lock().resources();
        installations
            .iter()
            .any(|installation| !Live::of(installation).is_being_deleted())
    }

    /// Writes the condition of a node, or removes it.
    pub(super) async fn tell(
        &self,
        name: &str,
        readiness: Option<&Readiness>,
    ) -> Result<(), Error> {
        let Some(node) = self.caches.nodes.lock().get(name).cloned() else {
            return Ok(());
        };
        let now = clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let body = match readiness {
            Some(readiness) => readiness::with_condition(name, &node, readiness, &now),
            None => readiness::without_condition(name, &node.uid),
        };
        let key = ObjectKey::new(kinds::NODE, "", name);
        let written = self
            .cluster
            .apply_status(&key, &body, &self.manager)
            .await?;
        self.caches.nodes.wrote(&written);
        self.metrics
            .wrote(self.domain.name(), "status", kinds::NODE);
        Ok(())
    }

    /// Takes the startup taint from a node, and says so in an event.
    pub(super) async fn untaint(&self, name: &str) -> Result<(), Error> {
        let Some(node) = self.caches.nodes.lock().get(name).cloned() else {
            return Ok(());
        };
        let key = ObjectKey::new(kinds::NODE, "", name);
        let patch = readiness::without_taint(&node);
        let written = self.cluster.json_patch(&key, &patch, &self.manager).await?;
        self.caches.nodes.wrote(&written);
        self.metrics.wrote(self.domain.name(), "apply", kinds::NODE);
        let note = Note {
            warning: false,
            reason: "StartupTaintRemoved".to_owned(),
            message: "all policies that are for this node are applied".to_owned(),
        };
        self.recorder
            .publish(kinds::NODE, (name.to_owned(), node.uid), vec![note]);
        Ok(())
    }
}
