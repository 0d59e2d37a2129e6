//! The Secrets that a PlacementAPI names.

use std::collections::BTreeMap;

use serde_json::json;
use weft_operands::problems::given;

use super::{Pending, credentials, object};
use crate::{
    Config, Credentials, Database,
    certificate::problem,
    conditions::{State, Step},
    objects::digest,
    world::{Secret, SecretError, World, secret},
};

/// The key of a bundle of certificates.
pub const BUNDLE: &str = "tls-ca-bundle.pem";

/// The Secrets that the assessment has read.
pub struct Secrets {
    /// Placement's user in Keystone. `None` with `auth.strategy: noauth2`. As the original does, a
    /// wrong value in the Secret of an application credential is reported when the files are
    /// written (`ServiceConfigReady`), not among the inputs.
    pub credentials: Result<Option<Credentials>, State>,
    /// The database that `spec.database` names.
    pub database: Option<Database>,
}

/// Asks for all of them, so that the answers come together.
pub fn ask_for_all(config: &Config, world: &dyn World) {
    let certificates = config.certificates().into_iter().flatten();
    let others = [
        given(&config.spec().secret),
        application_credential(config),
        config.ca_bundle(),
        config.keystone_ca_bundle(),
    ];
    for name in others
        .into_iter()
        .chain(of_database(config))
        .flatten()
        .chain(certificates)
        .chain(credentials::secrets(config))
    {
        // Only to have it asked for.
        let _ = world.object(&secret(&config.namespace, name));
    }
}

/// The Secrets of the service itself that must be there, in the order in which they are read. A user
/// whom this operator registers needs the password only.
pub fn inputs(config: &Config) -> impl Iterator<Item = &str> {
    let credential = application_credential(config).filter(|_| !credentials::is_direct(config));
    let user = credential
        .or_else(|| given(&config.spec().secret))
        .filter(|_| config.authenticates());
    std::iter::once(user).chain(of_database(config)).flatten()
}

/// The Secrets that `spec.database` names.
fn of_database(config: &Config) -> [Option<&str>; 2] {
    let database = config.spec().database.as_ref();
    let url = database.and_then(|database| database.url_secret.as_ref());
    let user = database.and_then(|database| database.credentials_secret.as_ref());
    [
        url.map(|secret| secret.name.as_str()),
        user.map(|secret| secret.name.as_str()),
    ]
}

/// The Secret of the application credential by which Placement asks Keystone.
fn application_credential(config: &Config) -> Option<&str> {
    given(&config.spec().auth.as_ref()?.application_credential_secret)
}

/// Reads what Placement needs to know.
///
/// # Errors
/// One is missing, lacks a key, or has a value under it that cannot be used.
pub fn read(config: &Config, world: &dyn World) -> Result<Secrets, Pending> {
    let credentials = if config.authenticates() {
        credentials(config, world)?.map(Some)
    } else {
        Ok(None)
    };
    Ok(Secrets {
        credentials,
        database: database(config, world)?,
    })
}

fn credentials(config: &Config, world: &dyn World) -> Result<Result<Credentials, State>, Pending> {
    if let Some(name) = application_credential(config) {
        // Somebody is about to make it: for that the user must be there, so a user whom this
        // operator registers goes on by password until then.
        let goes_on = credentials::is_direct(config)
            && object(Step::Input, world, &secret(&config.namespace, name))?.is_none();
        if goes_on {
            return by_password(config, world).map(Ok);
        }
        let secret = find(config, world, name, State::requested)?;
        let values = secret
            .word("AC_ID")
            .and_then(|id| Ok((id, secret.text("AC_SECRET")?)));
        return Ok(values
            .map(|(id, secret)| Credentials::Application { id, secret })
            .map_err(|error| Step::ServiceConfig.fails(error)));
    }
    by_password(config, world).map(Ok)
}

fn by_password(config: &Config, world: &dyn World) -> Result<Credentials, Pending> {
    let name = given(&config.spec().secret).unwrap_or_default();
    let secret = find(config, world, name, State::error)?;
    Ok(Credentials::Password(text(&secret, config.password_key())?))
}

fn database(config: &Config, world: &dyn World) -> Result<Option<Database>, Pending> {
    let Some(database) = &config.spec().database else {
        return Ok(None);
    };
    if let Some(url) = &database.url_secret {
        let secret = find(config, world, &url.name, State::error)?;
        return Ok(Some(Database::Url(word(
            &secret,
            given(&url.key).unwrap_or("url"),
        )?)));
    }
    let Some(keys) = &database.credentials_secret else {
        return Ok(None);
    };
    let secret = find(config, world, &keys.name, State::error)?;
    Ok(Some(Database::Parts {
        host: given(&database.host).unwrap_or_default().to_owned(),
        port: database.port.and_then(|port| u16::try_from(port).ok()),
        name: given(&database.name).unwrap_or("placement").to_owned(),
        user: text(&secret, given(&keys.user_key).unwrap_or("username"))?,
        password: text(&secret, given(&keys.password_key).unwrap_or("password"))?,
    }))
}

/// Returns a Secret that must exist. `missing` makes the state that reports a missing one.
///
/// # Errors
/// It is missing.
pub fn find(
    config: &Config,
    world: &dyn World,
    name: &str,
    missing: fn(String) -> State,
) -> Result<Secret, Pending> {
    let found = object(Step::Input, world, &secret(&config.namespace, name))?;
    // The original loses the name. People look for it.
    found
        .map(Secret::new)
        .ok_or_else(|| missing(format!("Input data resources missing: secret/{name}")).into())
}

fn text(secret: &Secret, key: &str) -> Result<String, Pending> {
    secret
        .text(key)
        .map_err(|error| Step::Input.fails(error).into())
}

fn word(secret: &Secret, key: &str) -> Result<String, Pending> {
    secret
        .word(key)
        .map_err(|error| Step::Input.fails(error).into())
}

/// The digests of the certificates and bundles that the pods mount, by the Secret's name.
///
/// # Errors
/// One is missing, lacks a key, or has a value under it that cannot be used.
pub fn certificates(
    config: &Config,
    world: &dyn World,
) -> Result<BTreeMap<String, String>, Pending> {
    let bundles = [config.ca_bundle(), config.keystone_ca_bundle()]
        .into_iter()
        .flatten()
        .map(|name| (name, true));
    let shown = config
        .certificates()
        .into_iter()
        .flatten()
        .map(|name| (name, false));
    let mut mounted = BTreeMap::new();
    for (name, is_bundle) in bundles.chain(shown) {
        let found = object(Step::TlsInput, world, &secret(&config.namespace, name))?;
        let missing = || {
            let message = format!("TLSInput is missing: {name}");
            // A certificate is on its way, from whoever issues it. A bundle is somebody's to make.
            if is_bundle {
                State::error(message)
            } else {
                State::requested(message)
            }
        };
        let secret = Secret::new(found.ok_or_else(missing)?);
        let keys: &[&str] = if is_bundle {
            &[BUNDLE]
        } else {
            &["tls.crt", "tls.key"]
        };
        let values: Result<Vec<_>, SecretError> = keys
            .iter()
            .map(|key| Ok((*key, secret.bytes(key)?)))
            .collect();
        let values = values.map_err(|error| Step::TlsInput.fails(error))?;
        let values: BTreeMap<_, _> = values.into_iter().collect();
        if let Some((certificate, key)) = values.get("tls.crt").zip(values.get("tls.key"))
            && let Some(problem) = problem(certificate, key)
        {
            return Err(Step::TlsInput
                .fails(format!("secret/{name}: {problem}"))
                .into());
        }
        // One Secret may be mounted for both purposes.
        let digest = digest(&json!([mounted.get(name), values]));
        mounted.insert(name.to_owned(), digest);
    }
    Ok(mounted)
}
