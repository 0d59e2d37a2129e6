//! Writes the ledger of addresses.
//!
//! Each write replaces just the version that it was derived from. So two operators, or a late write
//! of an earlier leader, cannot give one address to two nodes.

use std::time::Instant;

use weft_node_network::{
    addresses::ledger::{self, Ledger},
    rollout,
};
use weft_plan::{ObjectKey, kinds};

use super::{Controller, Memory};

impl Controller {
    /// Gives addresses to nodes and takes them back, in the ledger. Decisions about enactments go by
    /// the ledger as it is stored after that. Returns when to try again, if it could not be written.
    pub(super) async fn assign(&self, memory: &mut Memory) -> Option<Instant> {
        let stored = self.caches.ledger.lock().get(ledger::NAME).cloned();
        let known = match &stored {
            None if !self.caches.has_pools() => return None,
            None => Ledger::default(),
            Some(stored) => stored.ledger.clone().ok()?,
        };
        let next = self
            .caches
            .look_at(None, |world| rollout::assign(world, &known).0);
        if next == known {
            memory.ledger = None;
            memory.ledger_backoff.reset();
            return None;
        }
        if let Some(due) = memory.ledger.filter(|due| *due > Instant::now()) {
            return Some(due);
        }
        let key = ObjectKey::new(kinds::CONFIG_MAP, &self.namespace, ledger::NAME);
        let written = match &stored {
            Some(stored) => {
                let patch = stored.patch(&next);
                self.cluster.json_patch(&key, &patch, &self.manager).await
            }
            None => {
                let body = ledger::config_map(&self.namespace, &next);
                self.cluster.create(&key, &body, &self.manager).await
            }
        };
        match written {
            Ok(object) => {
                self.caches.ledger.wrote(&object);
                self.metrics
                    .wrote(self.domain.name(), "apply", kinds::CONFIG_MAP);
                memory.ledger = None;
                memory.ledger_backoff.reset();
                None
            }
            Err(error) => {
                tracing::warn!(%error, ledger = ledger::NAME, "addresses could not be written");
                let due = Instant::now() + memory.ledger_backoff.next_pause();
                memory.ledger = Some(due);
                Some(due)
            }
        }
    }
}
