//! The database: one that another user runs, or one of mariadb-operator's.

use std::sync::Arc;

use serde_json::Value;
use weft_operands::problems::given;
use weft_plan::{Kind, ObjectKey, kinds};

use super::{End, Pending, Walk, Whose, object, secrets::Secrets, told};
use crate::{
    Config, Database,
    conditions::{State, Step},
    peers::{FINALIZER, database},
    world,
};

/// A database that is ready to be used.
pub struct Found {
    /// How it is reached.
    pub database: Database,
    /// True if the connection is encrypted.
    pub tls: bool,
    /// The host name in its status.
    pub host: Option<String>,
}

/// Reports whether the database is one of mariadb-operator's, where something has to be released
/// once the PlacementAPI goes.
pub fn is_operated(config: &Config) -> bool {
    given(&config.spec().database_instance).is_some()
}

impl Walk<'_> {
    /// The database, and the account by which the service connects.
    pub(super) fn database(&mut self, secrets: &Secrets) -> Result<Found, End> {
        if let Some(database) = &secrets.database {
            self.assessment.steps.set(
                Step::Db,
                State::ready("The database is given by spec.database"),
            );
            return Ok(own(self.config, database));
        }
        self.assessment.steps.expect(Step::MariaDbAccount);
        let (account, secret) = self.account()?;
        self.done(Step::MariaDbAccount);

        let database = self.schema()?;
        let services = self.ask(Step::Db, kinds::SERVICE, &database::services(self.config))?;
        let found = database::host(self.config, &services)
            .and_then(|host| database::ready(self.config, host, &database, &account, &secret));
        let database::Ready {
            database,
            host,
            tls,
        } = self.take(Step::Db, found.map_err(Pending::from))?;
        self.done(Step::Db);
        Ok(Found {
            database,
            tls,
            host: Some(host),
        })
    }

    /// The account and its Secret. Those that others have made are used as they are.
    fn account(&mut self) -> Result<(Arc<Value>, Arc<Value>), End> {
        let step = Step::MariaDbAccount;
        let (config, random) = (self.config, self.random);
        self.is_served(step, kinds::MARIADB_ACCOUNT)?;
        let key = ObjectKey::new(
            kinds::MARIADB_ACCOUNT,
            &config.namespace,
            database::account_name(config),
        );
        let whose = self.whose(step, &key)?;
        if let Whose::Theirs(account) = whose {
            self.claim(
                &key,
                &account,
                FINALIZER,
                &[(database::OF_DATABASE, database::NAME)],
            )?;
            let name = database::secret_name(config, Some(&account));
            let secret = self.take(
                step,
                object(step, self.world, &world::secret(&config.namespace, &name)),
            )?;
            self.take(
                step,
                database::complete(&account, secret.as_deref()).map_err(Pending::from),
            )?;
            return self.take(
                step,
                secret
                    .map(|secret| (account, secret))
                    .ok_or(Pending::Unmade),
            );
        }
        let known = whose.known();
        // Before the account: who makes it later finds the password there.
        let secret_key = world::secret(
            &config.namespace,
            &database::secret_name(config, known.as_deref()),
        );
        let secret = match self.whose(step, &secret_key)? {
            Whose::Theirs(secret) => secret,
            ours => {
                let secret =
                    database::secret(config, known.as_deref(), ours.known().as_deref(), random);
                let secret = self.take(step, secret.map_err(|error| step.fails(error).into()))?;
                self.make(step, secret)?
            }
        };
        let account = database::account(config, known.as_deref(), random)
            .map_err(|error| step.fails(error).into());
        let account = self.take(step, account)?;
        let account = self.make(step, account)?;
        self.take(
            step,
            database::complete(&account, Some(&secret)).map_err(Pending::from),
        )?;
        Ok((account, secret))
    }

    /// The database on the server.
    fn schema(&mut self) -> Result<Arc<Value>, End> {
        self.is_served(Step::Db, kinds::MARIADB_DATABASE)?;
        let config = self.config;
        let key = ObjectKey::new(kinds::MARIADB_DATABASE, &config.namespace, database::NAME);
        match self.whose(Step::Db, &key)? {
            Whose::Theirs(live) => {
                self.claim(
                    &key,
                    &live,
                    FINALIZER,
                    &[(database::OF_INSTANCE, database::instance(config))],
                )?;
                Ok(live)
            }
            ours => {
                let wanted = database::database(config, ours.known().as_deref())
                    .map_err(|error| Step::Db.fails(error).into());
                let wanted = self.take(Step::Db, wanted)?;
                // Until it is made, that is what it is about.
                self.assessment
                    .steps
                    .set(Step::Db, State::requested(database::RUNNING));
                self.make(Step::Db, wanted)
            }
        }
    }

    fn is_served(&mut self, step: Step, kind: Kind) -> Result<(), End> {
        if self.world.serves(kind) {
            return Ok(());
        }
        let way_out =
            "install mariadb-operator, or give spec.database instead of spec.databaseInstance";
        let waits = State {
            message: step
                .fails(format!("the cluster has no kind {}: {way_out}", kind.kind))
                .message,
            ..State::requested("")
        };
        self.take(step, Err(waits.into()))
    }

    /// The objects of a kind that a label selector chooses.
    pub(super) fn ask(
        &mut self,
        step: Step,
        kind: Kind,
        labels: &str,
    ) -> Result<Vec<Arc<Value>>, End> {
        let found = told(step, self.world.selected(kind, labels)).map(Option::unwrap_or_default);
        self.take(step, found)
    }
}

/// One that another user runs.
fn own(config: &Config, database: &Database) -> Found {
    let host = match database {
        Database::Parts { host, .. } => Some(host.clone()),
        Database::Url(_) => database.host(),
    };
    Found {
        database: database.clone(),
        tls: config
            .spec()
            .database
            .as_ref()
            .and_then(|database| database.tls)
            == Some(true),
        host,
    }
}
