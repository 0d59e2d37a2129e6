//! The database that mariadb-operator runs: a MariaDBDatabase, an account on it, and the Secret
//! with its password.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use weft_operands::problems::given;
use weft_plan::{Live, Manifest, ManifestError, kinds, text};

use super::{FINALIZER, is_outdated, name};
use crate::{
    Config, Database,
    conditions::{State, Step},
    world::{Secret, SecretError},
};

/// The name of the MariaDBDatabase, and of the database in it.
pub const NAME: &str = "placement";
/// The key of an account's Secret.
pub const PASSWORD_KEY: &str = "DatabasePassword";
/// By which mariadb-operator finds the database of an account.
pub const OF_DATABASE: &str = "mariaDBDatabaseName";
/// By which it finds the Galera of a database.
pub const OF_INSTANCE: &str = "dbName";

/// `DBReady` while nothing is wrong.
pub const RUNNING: &str = "DB create job still running";

/// Random bytes for a new account.
#[derive(Clone, Copy)]
pub struct RandomBytes {
    /// Makes the user's name one of its own.
    pub user: [u8; 2],
    /// The password.
    pub password: [u8; 16],
}

/// A database that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Ready {
    /// Where it is, and who connects.
    pub database: Database,
    /// Its host, as status shows it.
    pub host: String,
    /// True if the database speaks TLS.
    pub tls: bool,
}

/// The label selector of the Services of `spec.databaseInstance`.
pub fn services(config: &Config) -> String {
    format!("app=mariadb,cr=mariadb-{}", instance(config))
}

/// The label selector of the accounts on our database.
pub fn accounts() -> String {
    format!("{OF_DATABASE}={NAME}")
}

/// The name of the account by which the service connects.
pub fn account_name(config: &Config) -> &str {
    given(&config.spec().database_account).unwrap_or(NAME)
}

/// The Secret of an account.
pub fn secret_name(config: &Config, account: Option<&Value>) -> String {
    let named = account
        .map(|account| text(&account["spec"], "secret"))
        .filter(|name| !name.is_empty());
    named.map_or_else(
        || format!("{}-db-secret", account_name(config)),
        str::to_owned,
    )
}

/// The MariaDBDatabase. The specification of an existing object stays: the name of a database does
/// not change.
///
/// # Errors
/// A defect of Weft.
pub fn database(config: &Config, live: Option<&Value>) -> Result<Manifest, ManifestError> {
    let labels = [(OF_INSTANCE, instance(config))];
    // As the definition sets them by default: what is written out once needs no second apply.
    let new =
        json!({"name": NAME, "defaultCharacterSet": "utf8", "defaultCollation": "utf8_general_ci"});
    object(
        config,
        kinds::MARIADB_DATABASE,
        NAME,
        &labels,
        kept(live, new),
    )
}

/// The account, with a new user if it is not there. One that is there stays as it is, whoever has
/// made it. By its label mariadb-operator finds the database, which has to be there first.
///
/// # Errors
/// A defect of Weft.
pub fn account(
    config: &Config,
    live: Option<&Value>,
    random: RandomBytes,
) -> Result<Manifest, ManifestError> {
    let user = format!("{NAME}_{}", hex(&random.user));
    let new = json!({
        "userName": user, "secret": secret_name(config, None), "requireTLS": false,
        "accountType": "User"
    });
    object(
        config,
        kinds::MARIADB_ACCOUNT,
        account_name(config),
        &[(OF_DATABASE, NAME)],
        kept(live, new),
    )
}

/// The Secret of the account, which nobody may change from now on: another password is another
/// account.
///
/// # Errors
/// A defect of Weft.
pub fn secret(
    config: &Config,
    account: Option<&Value>,
    live: Option<&Value>,
    random: RandomBytes,
) -> Result<Manifest, ManifestError> {
    let new = json!({PASSWORD_KEY: STANDARD.encode(hex(&random.password))});
    let of = |field: &str| {
        live.map(|live| live[field].clone())
            .filter(|value| !value.is_null())
    };
    Manifest::new(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_name(config, account), "namespace": config.namespace},
        "type": of("type").unwrap_or_else(|| "Opaque".into()),
        "immutable": true,
        "data": of("data").unwrap_or(new),
    }))
}

/// The host: that of the one Service of the database.
///
/// # Errors
/// There is none yet, or more than one.
pub fn host(config: &Config, services: &[Arc<Value>]) -> Result<String, State> {
    match services {
        [] => Err(State::requested(RUNNING)),
        [service] => Ok(format!("{}.{}.svc", name(service), config.namespace)),
        several => {
            let mut names: Vec<_> = several.iter().map(|service| name(service)).collect();
            names.sort_unstable();
            let (labels, names) = (self::services(config), names.join(", "));
            Err(Step::Db.fails(format!(
                "more than one Service has the labels {labels}: {names}; there must be one"
            )))
        }
    }
}

/// The condition `MariaDBAccountReady`: an account and its Secret are complete. The user may not
/// exist yet.
///
/// # Errors
/// They have not.
pub fn complete(account: &Value, secret: Option<&Value>) -> Result<(), State> {
    let named = |field: &str| !text(&account["spec"], field).is_empty();
    let lacks = match secret {
        _ if !named("userName") => format!("no UserName field in account {}", name(account)),
        _ if !named("secret") => format!("no secret field in account {}", name(account)),
        None => format!(
            "error loading secret {} for account {}",
            text(&account["spec"], "secret"),
            name(account)
        ),
        Some(secret) => match password(secret) {
            Ok(_) => return Ok(()),
            Err(SecretError::NoKey { .. }) => {
                format!("field {PASSWORD_KEY} not found in Secret {}", name(secret))
            }
            Err(error) => error.to_string(),
        },
    };
    Err(Step::MariaDbAccount.fails(lacks))
}

/// The condition `DBReady`: database and user exist.
///
/// # Errors
/// They have not.
pub fn ready(
    config: &Config,
    host: String,
    database: &Value,
    account: &Value,
    secret: &Value,
) -> Result<Ready, State> {
    for (object, kind) in [(database, "MariaDBDatabase"), (account, "MariaDBAccount")] {
        let said = Live::of(object).condition(&format!("{kind}Ready"));
        let status = said.map(|said| text(said, "status")).unwrap_or_default();
        if let Some(said) = said.filter(|said| status == "False" && said["severity"] == "Error") {
            return Err(Step::Db.fails(format!(
                "{kind} {}: {}",
                name(object),
                text(said, "message")
            )));
        }
        if status != "True" || is_outdated(object) {
            return Err(State::requested(RUNNING));
        }
    }
    let password = password(secret).map_err(|error| Step::Db.fails(error))?;
    Ok(Ready {
        database: Database::Parts {
            host: host.clone(),
            port: None,
            name: text(&database["spec"], "name").to_owned(),
            user: text(&account["spec"], "userName").to_owned(),
            password,
        },
        host,
        tls: database["status"]["tlsSupport"] == true && config.ca_bundle().is_some(),
    })
}

/// The accounts that the service has used before and pods need no longer, once all of them run with
/// the one that is named now: their finalizers go, and mariadb-operator may drop their users. At
/// the end, when `keep` is nothing, these are all.
pub fn unused<'a>(accounts: &'a [Arc<Value>], keep: Option<&str>) -> Vec<&'a Value> {
    let is_ours = |account: &&Value| {
        Live::of(account).label(OF_DATABASE) == Some(NAME)
            && Live::of(account).has_finalizer(FINALIZER)
    };
    accounts
        .iter()
        .map(|account| &**account)
        .filter(is_ours)
        .filter(|account| Some(name(account)) != keep)
        .collect()
}

/// The name of the Galera or MariaDB.
pub fn instance(config: &Config) -> &str {
    given(&config.spec().database_instance).unwrap_or_default()
}

/// The specification of an object that is there, or the one that a new object has.
fn kept(live: Option<&Value>, new: Value) -> Value {
    live.and_then(|live| live["spec"].as_object())
        .filter(|spec| !spec.is_empty())
        .map_or(new, |spec| Value::Object(spec.clone()))
}

fn object(
    config: &Config,
    kind: weft_plan::Kind,
    name: &str,
    labels: &[(&str, &str)],
    spec: Value,
) -> Result<Manifest, ManifestError> {
    let labels: Map<String, Value> = labels
        .iter()
        .map(|(label, value)| ((*label).to_owned(), (*value).into()))
        .collect();
    Manifest::new(json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {
            "name": name, "namespace": config.namespace, "labels": labels, "finalizers": [FINALIZER]
        },
        "spec": spec,
    }))
}

fn password(secret: &Value) -> Result<String, SecretError> {
    Secret::new(Arc::new(secret.clone())).text(PASSWORD_KEY)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::objects::tests::config;

    const DICE: RandomBytes = RandomBytes {
        user: [0x1a, 0x2b],
        password: [0xff; 16],
    };

    fn said(spec: Value, condition: Value) -> Value {
        json!({
            "metadata": {
                "name": "placement", "generation": 2, "labels": {"mariaDBDatabaseName": "placement"}
            },
            "spec": spec, "status": {"conditions": [condition]}
        })
    }

    fn with_password(password: &str) -> Value {
        json!({
            "metadata": {"name": "placement-db-secret"},
            "data": {"DatabasePassword": STANDARD.encode(password)}
        })
    }

    fn made() -> (Value, Value, Value) {
        let database = said(
            json!({"name": "placement"}),
            json!({"type": "MariaDBDatabaseReady", "status": "True"}),
        );
        let account = said(
            json!({"userName": "placement_1a2b", "secret": "placement-db-secret"}),
            json!({"type": "MariaDBAccountReady", "status": "True"}),
        );
        (database, account, with_password("a@b"))
    }

    #[test]
    fn new_objects_are_those_of_placement_operator() {
        let config = config(&json!({"databaseAccount": "cell-account"}));
        let database = database(&config, None).unwrap();
        let meta = |labels: Value, name: &str| {
            json!({
                "name": name, "namespace": "cloud", "labels": labels,
                "finalizers": ["openstack.org/placementapi"]
            })
        };
        assert_eq!(
            database.body()["metadata"],
            meta(json!({"dbName": "openstack"}), "placement")
        );
        assert_eq!(
            database.body()["spec"],
            json!({
                "name": "placement", "defaultCharacterSet": "utf8",
                "defaultCollation": "utf8_general_ci"
            })
        );
        let account = account(&config, None, DICE).unwrap();
        assert_eq!(
            account.body()["metadata"],
            meta(json!({"mariaDBDatabaseName": "placement"}), "cell-account")
        );
        assert_eq!(
            account.body()["spec"],
            json!({
                "userName": "placement_1a2b", "secret": "cell-account-db-secret",
                "requireTLS": false, "accountType": "User"
            })
        );
        let secret = secret(&config, Some(account.body()), None, DICE).unwrap();
        assert_eq!(
            (&secret.key().name[..], &secret.body()["immutable"]),
            ("cell-account-db-secret", &json!(true))
        );
        assert_eq!(password(secret.body()).unwrap(), "ff".repeat(16));
    }

    #[test]
    fn an_existing_database_stays_as_it_is() {
        let config = config(&json!({}));
        let spec = json!({"userName": "u", "secret": "mine", "requireTLS": true, "later": 1});
        let live = json!({"spec": spec});
        assert_eq!(
            account(&config, Some(&live), DICE).unwrap().body()["spec"],
            spec
        );
        let theirs = json!({
            "type": "kubernetes.io/basic-auth",
            "data": {"DatabasePassword": "YQ==", "other": "Yg=="}
        });
        let secret = secret(&config, Some(&live), Some(&theirs), DICE).unwrap();
        assert_eq!(
            (
                &secret.key().name[..],
                &secret.body()["data"],
                &secret.body()["type"]
            ),
            ("mine", &theirs["data"], &theirs["type"])
        );
        let database = database(
            &config,
            Some(&json!({"spec": {"name": "old", "defaultCollation": "utf8mb4_bin"}})),
        )
        .unwrap();
        assert_eq!(
            database.body()["spec"],
            json!({"name": "old", "defaultCollation": "utf8mb4_bin"})
        );
    }

    #[test]
    fn the_host_is_the_one_service() {
        let config = config(&json!({}));
        let service =
            |name: &str| Arc::new(json!({"metadata": {"name": name, "namespace": "cloud"}}));
        assert_eq!(services(&config), "app=mariadb,cr=mariadb-openstack");
        assert_eq!(host(&config, &[]), Err(State::requested(RUNNING)));
        assert_eq!(
            host(&config, &[service("openstack")]),
            Ok("openstack.cloud.svc".into())
        );
        let state = host(&config, &[service("b"), service("a")]).unwrap_err();
        assert!(
            state.message.starts_with("DB create job error occurred ")
                && state.message.contains(": a, b;"),
            "{state:?}"
        );
    }

    #[test]
    fn a_database_is_ready_when_both_say_so() {
        let config = config(&json!({"tls": {"caBundleSecretName": "bundle"}}));
        let (mut database, mut account, secret) = made();
        let read = |database: &Value, account: &Value| {
            ready(
                &config,
                "openstack.cloud.svc".into(),
                database,
                account,
                &secret,
            )
        };
        let waiting = Err(State::requested("DB create job still running"));
        let parts = Database::Parts {
            host: "openstack.cloud.svc".into(),
            port: None,
            name: "placement".into(),
            user: "placement_1a2b".into(),
            password: "a@b".into(),
        };
        let expected = |tls| {
            Ok(Ready {
                database: parts.clone(),
                host: "openstack.cloud.svc".into(),
                tls,
            })
        };
        assert_eq!(read(&database, &account), expected(false));
        assert_eq!(
            read(&json!({"spec": {"name": "placement"}}), &account),
            waiting
        );
        database["status"]["tlsSupport"] = true.into();
        assert_eq!(read(&database, &account), expected(true));
        database["status"]["observedGeneration"] = 1.into();
        assert_eq!(
            read(&database, &account),
            waiting,
            "it is about another specification"
        );
        database["status"]["observedGeneration"] = 2.into();
        account["status"]["conditions"][0] = json!({
            "type": "MariaDBAccountReady", "status": "False", "severity": "Info", "message": "soon"
        });
        assert_eq!(read(&database, &account), waiting);
        account["status"]["conditions"][0]["severity"] = "Error".into();
        assert_eq!(
            read(&database, &account),
            Err(State::error(
                "DB create job error occurred MariaDBAccount placement: soon"
            ))
        );
    }

    #[test]
    fn an_account_is_complete_with_its_secret() {
        let (_, account, secret) = made();
        assert_eq!(complete(&account, Some(&secret)), Ok(()));
        let says = |account: &Value, secret: Option<&Value>| {
            complete(account, secret).unwrap_err().message
        };
        assert_eq!(
            says(&account, None),
            "MariaDBAccount is not present: error loading secret placement-db-secret for account placement"
        );
        assert_eq!(
            says(
                &account,
                Some(&json!({"metadata": {"name": "s"}, "data": {"password": "YQ=="}}))
            ),
            "MariaDBAccount is not present: field DatabasePassword not found in Secret s"
        );
        assert_eq!(
            says(&account, Some(&with_password(""))),
            "MariaDBAccount is not present: field 'DatabasePassword' of secret/placement-db-secret is empty, and a value is needed there: write it into the Secret"
        );
        assert!(says(&account, Some(&with_password("a\n"))).contains("printf instead of echo"));
        assert_eq!(
            says(
                &json!({"metadata": {"name": "a"}, "spec": {"secret": "s"}}),
                None
            ),
            "MariaDBAccount is not present: no UserName field in account a"
        );
    }

    #[test]
    fn accounts_of_before_are_released_and_those_of_others_are_not() {
        let account = |name: &str, database: &str, finalizer: &str| {
            Arc::new(json!({
                "metadata": {
                    "name": name, "labels": {"mariaDBDatabaseName": database},
                    "finalizers": [finalizer]
                }
            }))
        };
        let all = [
            account("new", "placement", FINALIZER),
            account("old", "placement", FINALIZER),
            account("released", "placement", "openstack.org/mariadbaccount"),
            account("of-nova", "nova_api", FINALIZER),
        ];
        let names = |keep| unused(&all, keep).into_iter().map(name).collect::<Vec<_>>();
        assert_eq!(names(Some("new")), ["old"]);
        assert_eq!(names(None), ["new", "old"]);
    }
}
