//! Objects that others may have made, or that only others make: whose they are, what is claimed of them and what is released.

use std::sync::Arc;

use serde_json::Value;
use weft_plan::{ObjectKey, kinds};

use super::{End, Walk, database::is_operated, object};
use crate::{
    conditions::Step,
    peers::{self, Claim, FINALIZER, Release, credential, database, topology},
    world,
};

/// Who answers for an object.
pub enum Whose {
    /// Weft: it is made for this PlacementAPI, or by placement-operator, or not there yet.
    Ours(Option<Arc<Value>>),
    /// Somebody else.
    Theirs(Arc<Value>),
}

impl Whose {
    /// The object, if it is there.
    pub fn known(&self) -> Option<Arc<Value>> {
        match self {
            Whose::Ours(known) => known.clone(),
            Whose::Theirs(live) => Some(Arc::clone(live)),
        }
    }
}

impl Walk<'_> {
    pub(super) fn whose(&mut self, step: Step, key: &ObjectKey) -> Result<Whose, End> {
        if let Some(own) = self.world.own(key) {
            return Ok(Whose::Ours(Some(own)));
        }
        let found = self.take(step, object(step, self.world, key))?;
        Ok(match found {
            Some(live) if !peers::is_of_placement(&live) => Whose::Theirs(live),
            found => Whose::Ours(found),
        })
    }

    /// Sees to it that an object of somebody else's stays, before anything relies on it.
    pub(super) fn claim(&mut self, key: &ObjectKey, live: &Value, finalizer: &str, labels: &[(&str, &str)]) -> Result<(), End> {
        match Claim::of(key, live, finalizer, labels) {
            Some(claim) => {
                self.assessment.claims.push(claim);
                Err(End)
            }
            None => Ok(()),
        }
    }

    /// Sees to it that the application credential stays while pods have it.
    pub(super) fn claim_credential(&mut self) -> Result<(), End> {
        let Some(name) = credential::wanted(self.config).filter(|_| self.config.authenticates()) else { return Ok(()) };
        let key = world::secret(&self.config.namespace, name);
        let secret = self.take(Step::Input, object(Step::Input, self.world, &key))?;
        match secret {
            Some(secret) => self.claim(&key, &secret, credential::FINALIZER, &[credential::LABEL]),
            None => Ok(()),
        }
    }

    /// Lets go of the Topology of before, once the Deployment has another one.
    pub(super) fn release_topology(&mut self) -> Result<(), End> {
        let wanted = topology::wanted(self.config).map(str::to_owned);
        let before = self.before.last_applied_topology.as_ref();
        if let Some(left) = topology::left_behind(before, wanted.as_deref()) {
            let key = ObjectKey::new(kinds::TOPOLOGY, &self.config.namespace, left);
            let live = self.take(Step::Topology, object(Step::Topology, self.world, &key))?;
            self.release(&key, live.as_deref(), &topology::finalizer(&self.config.name), None);
        }
        let namespace = Some(self.config.namespace.clone());
        self.assessment.found.topology = Some(wanted.map(|name| weft_api::placement::AppliedTopology { name: Some(name), namespace }));
        Ok(())
    }

    /// Lets go of the accounts and credentials of before. Only at the end, when all pods run with the new ones.
    pub(super) fn release_unused(&mut self) -> Result<(), End> {
        if is_operated(self.config) {
            let accounts = self.ask(Step::MariaDbAccount, kinds::MARIADB_ACCOUNT, &database::accounts())?;
            for account in database::unused(&accounts, Some(database::account_name(self.config))) {
                self.release(&key_of(kinds::MARIADB_ACCOUNT, account), Some(account), FINALIZER, None);
            }
        }
        let wanted = credential::wanted(self.config).filter(|_| self.config.authenticates());
        let known = self.before.application_credential_secret.as_deref();
        if wanted.is_none() && known.is_none() {
            return Ok(());
        }
        let mut held = self.ask(Step::Input, kinds::SECRET, &credential::held())?;
        // One of nova-operator's has no label.
        if let Some(known) = known.filter(|known| Some(*known) != wanted) {
            let key = world::secret(&self.config.namespace, known);
            held.extend(self.take(Step::Input, object(Step::Input, self.world, &key))?);
            held.dedup_by(|one, other| one["metadata"]["uid"] == other["metadata"]["uid"]);
        }
        for secret in credential::unused(held.iter().map(|secret| &**secret), wanted) {
            self.release(&key_of(kinds::SECRET, secret), Some(secret), credential::FINALIZER, Some(credential::LABEL.0));
        }
        self.assessment.found.credential = Some(wanted.map(str::to_owned));
        Ok(())
    }

    fn release(&mut self, key: &ObjectKey, live: Option<&Value>, finalizer: &str, label: Option<&str>) {
        let release = live.and_then(|live| Release::of(key, live, finalizer, label));
        let is_new = |release: &Release| self.assessment.releases.iter().all(|known| known.key != release.key);
        let release = release.filter(is_new);
        self.assessment.releases.extend(release);
    }
}

fn key_of(kind: weft_plan::Kind, object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    ObjectKey::new(kind, text("namespace"), text("name"))
}
