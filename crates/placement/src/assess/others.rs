//! Objects that others may have made, or that only others make: whose they are, what is claimed of
//! them and what is released.

use std::sync::Arc;

use serde_json::Value;
use weft_plan::{Live, ObjectKey, kinds};

use super::{End, Walk, database::is_operated, keystone, object};
use crate::{
    Credentials,
    conditions::Step,
    peers::{self, Claim, Disclaim, FINALIZER, credential, database, topology},
    world,
};

/// The owner of an object.
pub enum Whose {
    /// Weft: it is made for this PlacementAPI, or by placement-operator, or not there yet.
    Ours(Option<Arc<Value>>),
    /// Another owner.
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

    /// Sees to it that an object of another user's stays, before anything relies on it.
    pub(super) fn claim(
        &mut self,
        key: &ObjectKey,
        live: &Value,
        finalizer: &str,
        labels: &[(&str, &str)],
    ) -> Result<(), End> {
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
        let Some(name) = credential::wanted(self.config).filter(|_| self.config.authenticates())
        else {
            return Ok(());
        };
        let key = world::secret(&self.config.namespace, name);
        let secret = self.take(Step::Input, object(Step::Input, self.world, &key))?;
        match secret {
            Some(secret) => self.claim(&key, &secret, credential::FINALIZER, &[credential::LABEL]),
            None => Ok(()),
        }
    }

    /// Releases the previous Topologies, once the Deployment has another one.
    pub(super) fn disclaim_topologies(&mut self) -> Result<(), End> {
        let wanted = topology::wanted(self.config).map(str::to_owned);
        if self.bound || wanted.is_some() {
            let finalizer = topology::finalizer(&self.config.name);
            let all = self.ask(Step::Topology, kinds::TOPOLOGY, "")?;
            for topology in topology::unused(
                all.iter().map(|topology| &**topology),
                &finalizer,
                wanted.as_deref(),
            ) {
                self.disclaim(Disclaim::of(
                    &key_of(kinds::TOPOLOGY, topology),
                    topology,
                    &finalizer,
                    None,
                ));
            }
        }
        let namespace = Some(self.config.namespace.clone());
        self.assessment.found.topology =
            Some(wanted.map(|name| weft_api::placement::AppliedTopology {
                name: Some(name),
                namespace,
            }));
        Ok(())
    }

    /// Releases the objects that pods used before. Call this only at the end, when all pods run
    /// with the wanted objects.
    pub(super) fn disclaim_unused(&mut self, credentials: Option<&Credentials>) -> Result<(), End> {
        if is_operated(self.config) {
            let accounts = self.ask(
                Step::MariaDbAccount,
                kinds::MARIADB_ACCOUNT,
                &database::accounts(),
            )?;
            for account in database::unused(&accounts, Some(database::account_name(self.config))) {
                self.disclaim(Disclaim::of(
                    &key_of(kinds::MARIADB_ACCOUNT, account),
                    account,
                    FINALIZER,
                    None,
                ));
            }
        } else if self.bound {
            self.leave_database()?;
        }
        if self.bound && !keystone::is_operated(self.config) {
            self.leave_registration()?;
        }
        self.disclaim_credentials(credentials)
    }

    /// Leaves the database and its accounts to mariadb-operator, and to whoever uses them now:
    /// deleted, they would take the data along.
    fn leave_database(&mut self) -> Result<(), End> {
        for account in self.ask(Step::Db, kinds::MARIADB_ACCOUNT, &database::accounts())? {
            // Before the account, by which it is known.
            let secret = world::secret(
                &self.config.namespace,
                account["spec"]["secret"].as_str().unwrap_or_default(),
            );
            if let Whose::Ours(Some(live)) = self.whose(Step::Db, &secret)? {
                self.leave(&secret, &live);
            }
            self.leave(&key_of(kinds::MARIADB_ACCOUNT, &account), &account);
        }
        let key = ObjectKey::new(
            kinds::MARIADB_DATABASE,
            &self.config.namespace,
            database::NAME,
        );
        if let Some(live) = self.take(Step::Db, object(Step::Db, self.world, &key))? {
            self.leave(&key, &live);
        }
        Ok(())
    }

    fn leave(&mut self, key: &ObjectKey, live: &Value) {
        self.disclaim(
            Disclaim::leaving(key, live, FINALIZER).map(|disclaim| disclaim.with_its_fields(live)),
        );
    }

    /// Leaves the registration to keystone-operator: deleted, it would take user, service and
    /// endpoints along. The entries stay Weft's, so that Weft finds them again if keystone-operator
    /// takes over later.
    fn leave_registration(&mut self) -> Result<(), End> {
        for (step, kind) in [
            (Step::KeystoneEndpoint, kinds::KEYSTONE_ENDPOINT),
            (Step::KeystoneService, kinds::KEYSTONE_SERVICE),
        ] {
            let key = ObjectKey::new(kind, &self.config.namespace, peers::keystone::NAME);
            if let Some(live) = self.take(step, object(step, self.world, &key))? {
                self.disclaim(Disclaim::leaving(&key, &live, FINALIZER));
            }
        }
        Ok(())
    }

    /// Releases the previous application credentials.
    fn disclaim_credentials(&mut self, credentials: Option<&Credentials>) -> Result<(), End> {
        let wanted = credential::wanted(self.config).filter(|_| self.config.authenticates());
        let known = self.before.application_credential_secret.as_deref();
        if wanted.is_none() && known.is_none() && !self.bound {
            return Ok(());
        }
        let mut held = self.ask(Step::Input, kinds::SECRET, &credential::held())?;
        // One of nova-operator's has no label.
        if let Some(known) = known.filter(|known| Some(*known) != wanted) {
            let key = world::secret(&self.config.namespace, known);
            held.extend(self.take(Step::Input, object(Step::Input, self.world, &key))?);
        }
        for secret in credential::unused(held.iter().map(|secret| &**secret), wanted) {
            self.disclaim(Disclaim::of(
                &key_of(kinds::SECRET, secret),
                secret,
                credential::FINALIZER,
                Some(credential::LABEL.0),
            ));
        }
        // One that is not there yet is not what pods run with.
        let is_used = matches!(credentials, Some(Credentials::Application { .. }));
        self.assessment.found.credential = Some(wanted.filter(|_| is_used).map(str::to_owned));
        Ok(())
    }

    fn disclaim(&mut self, disclaim: Option<Disclaim>) {
        let is_new = |disclaim: &Disclaim| {
            self.assessment
                .disclaims
                .iter()
                .all(|known| known.key != disclaim.key)
        };
        let disclaim = disclaim.filter(is_new);
        self.assessment.disclaims.extend(disclaim);
    }
}

fn key_of(kind: weft_plan::Kind, object: &Value) -> ObjectKey {
    let object = Live::of(object);
    ObjectKey::new(kind, object.namespace(), object.name())
}
