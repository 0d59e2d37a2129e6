//! Registration by this operator itself: the user before the pods that log in as it, service and
//! endpoints once they answer, and all of it gone at the end.
//!
//! Weft sends a value there only with permission, see [`permitted`]: in the Secrets themselves, or
//! by the administrator of the operator. Weft asks for permission only if it has something to send,
//! so that a registered service continues to work.
//!
//! Keystone notifies nobody of its changes, and Weft does not poll it. `status.hash` records
//! finished work. While it matches the wanted state, Weft sends no request to Keystone. A new value
//! of the annotation [`RETRY`] makes Weft look at Keystone again.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use weft_api::placement::PlacementApi;
use weft_operands::problems::given;

use super::{
    End, Pending, Walk,
    credentials::{self, Credentials, Direct, is_direct},
    keystone,
    secrets::{self, BUNDLE},
};
use crate::{
    Config, Settings,
    conditions::{State, Step, Steps},
    config::PASSWORD_KEY,
    objects::digest,
    registration::{
        Access, Address, AddressError, Ask, NotPermitted, Part, Permission, Progress, Task, Wanted,
        permitted,
    },
    world::{World, secret},
};

/// Another value of this annotation has everything looked at again.
pub const RETRY: &str = "weft.network/retry";
/// How long a deletion waits for Keystone.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// Names in `status.hash`.
const ACCOUNT: &str = "keystoneservice";
const CATALOGUE: &str = "keystoneendpoint";

/// The keys of the administrator's Secret, unless others are named.
const ADMIN_KEYS: [&str; 2] = ["username", "password"];

/// Reads them. Nothing where another user registers the service.
///
/// # Errors
/// One is missing, lacks a key, or has a value under it that cannot be used.
pub fn read(config: &Config, world: &dyn World) -> Result<Option<Credentials>, Pending> {
    let Some(admin) = config
        .spec()
        .keystone
        .as_ref()
        .and_then(|keystone| keystone.admin_secret.as_ref())
        .filter(|_| is_direct(config))
    else {
        return Ok(None);
    };
    let find = |name: &str| secrets::find(config, world, name, State::error);
    let fails = |error| Pending::from(Step::Input.fails(error));
    let values = find(&admin.name)?;
    let keys = [&admin.user_key, &admin.password_key];
    let keys: [&str; 2] = std::array::from_fn(|n| given(keys[n]).unwrap_or(ADMIN_KEYS[n]));
    let service = find(given(&config.spec().secret).unwrap_or_default())?;
    let bundle = config
        .keystone_ca_bundle()
        .or_else(|| config.ca_bundle())
        .map(|name| find(name)?.bytes(BUNDLE).map_err(fails));
    Ok(Some(Credentials {
        user: values.text(keys[0]).map_err(fails)?,
        password: values.text(keys[1]).map_err(fails)?,
        keys: keys.map(str::to_owned),
        admin: Permission::of(&config.namespace, &values),
        called: format!("the user of field '{}' of secret/{}", keys[0], admin.name),
        bundle: bundle.transpose()?,
        service: service.text(config.password_key()).map_err(fails)?,
        of_service: Permission::of(&config.namespace, &service),
        version: service.version(),
    }))
}

/// Why nothing is sent to a Keystone.
#[derive(Debug, thiserror::Error)]
enum Unsent {
    /// The address is none. Only that of a KeystoneAPI is not checked before.
    #[error("the address of Keystone {0}")]
    Address(#[from] AddressError),
    /// Nobody permits the request.
    #[error(transparent)]
    Permission(#[from] NotPermitted),
}

/// A task, if all that is sent for it may be sent.
fn task(part: Part, config: &Config, settings: &Settings, direct: &Direct) -> Result<Task, Unsent> {
    let Direct {
        credentials,
        keystone,
    } = direct;
    let Credentials {
        user,
        password,
        keys,
        admin,
        called,
        bundle,
        service,
        of_service,
        version: _,
    } = credentials.clone();
    let to: Address = keystone.internal.parse()?;
    let keys: [(&str, &str); 2] = std::array::from_fn(|n| (keys[n].as_str(), ADMIN_KEYS[n]));
    let service_keys = [(config.password_key(), PASSWORD_KEY)];
    // Services and endpoints are those of Placement, whoever asks. A user may be anybody's.
    let user_of_service = (part != Part::Catalogue).then(|| config.service_user());
    let mut asks = vec![Ask {
        permission: &admin,
        keys: &keys,
        user: user_of_service,
    }];
    if part == Part::Account {
        asks.push(Ask {
            permission: &of_service,
            keys: &service_keys,
            user: None,
        });
    }
    let keystone_permitted = permitted(&to, &settings.keystones.0, &asks)?;
    let access = Access {
        keystone: keystone_permitted,
        bundle,
        user,
        password,
        called,
    };
    Ok(Task {
        part,
        access,
        wanted: Wanted::of(config, &service, keystone.region.as_deref()),
    })
}

/// Returns the values that a new registration would send without permission. The list is empty
/// while some of them are unknown.
pub fn unpermitted(config: &Config, settings: &Settings, world: &dyn World) -> Option<String> {
    let credentials = read(config, world).ok()??;
    let keystone = keystone::endpoints(config, world).ok()??;
    task(
        Part::Account,
        config,
        settings,
        &Direct {
            credentials,
            keystone,
        },
    )
    .err()
    .map(|why| why.to_string())
}

impl Walk<'_> {
    /// The service's user, with the password that the pods are about to get.
    pub(super) fn registered_user(&mut self, direct: Option<&Direct>) -> Result<(), End> {
        let Some(direct) = direct else { return Ok(()) };
        // No digest of the password itself: status is read by many.
        let what = json!([
            direct.keystone.internal,
            self.config.service_user(),
            direct.credentials.version,
            self.retry
        ]);
        let hash = self.registered(ACCOUNT, &what, Part::Account, direct, Step::KeystoneService)?;
        self.assessment.found.account_hash = Some(hash);
        Ok(())
    }

    /// Service and endpoints.
    pub(super) fn registered_endpoints(&mut self, direct: &Direct) -> Result<(), End> {
        self.done(Step::KeystoneService);
        let wanted = Wanted::of(
            self.config,
            &direct.credentials.service,
            direct.keystone.region.as_deref(),
        );
        let what = json!([
            direct.keystone.internal,
            wanted.region,
            wanted.urls,
            self.retry
        ]);
        let hash = self.registered(
            CATALOGUE,
            &what,
            Part::Catalogue,
            direct,
            Step::KeystoneEndpoint,
        )?;
        self.assessment.found.catalogue_hash = Some(hash);
        self.done(Step::KeystoneEndpoint);
        Ok(())
    }

    /// Has a task done unless status says that it is.
    fn registered(
        &mut self,
        name: &str,
        what: &serde_json::Value,
        part: Part,
        direct: &Direct,
        step: Step,
    ) -> Result<String, End> {
        let hash = digest(what);
        if self
            .before
            .hash
            .as_ref()
            .and_then(|hashes| hashes.get(name))
            == Some(&hash)
        {
            return Ok(hash);
        }
        let task = task(part, self.config, self.settings, direct)
            .map_err(|error| step.fails(error).into());
        let task = self.take(step, task)?;
        let came = match self.world.keystone(&task) {
            Progress::Done => Ok(hash),
            Progress::UnderWay => Err(State::requested(format!(
                "Keystone at {} is asked",
                direct.keystone.internal
            ))
            .into()),
            Progress::Failed(why) => Err(step.fails(why).into()),
        };
        self.take(step, came)
    }
}

/// The remaining work at Keystone before a PlacementAPI may go.
#[derive(Debug)]
pub enum Removal {
    /// No work is left.
    Done,
    /// It is being done, or tried: as these conditions say. Nothing else may happen until the time,
    /// if there is one.
    Waiting(Steps, Option<Timestamp>),
    /// It cannot be done: this stays there.
    GivenUp(String),
}

/// Removes what was registered.
pub fn removal(
    resource: &PlacementApi,
    settings: &Settings,
    world: &dyn World,
    now: Timestamp,
) -> Removal {
    let Ok(config) = Config::of(resource) else {
        return Removal::Done;
    };
    let hashes = resource
        .status
        .as_ref()
        .and_then(|status| status.hash.as_ref());
    // Without status there was nothing yet.
    if !is_direct(&config) || resource.status.is_none() {
        return Removal::Done;
    }
    let what = if hashes.is_some_and(|hashes| hashes.contains_key(CATALOGUE)) {
        "user, service and endpoints"
    } else {
        "its user"
    };
    let left = |why: &str| {
        Removal::GivenUp(format!(
            "{what} of Placement may be left in Keystone, remove them there: {why}"
        ))
    };
    for name in credentials::secrets(&config) {
        let _ = world.object(&secret(&config.namespace, name));
    }
    let since = resource
        .metadata
        .deletion_timestamp
        .as_ref()
        .map_or(now, |since| since.0);
    let until = since.checked_add(PATIENCE).unwrap_or(since);
    let tried = |why: &str| {
        Step::KeystoneEndpoint.fails(format!(
            "{why}. This is tried until {until}; to leave it in Keystone and go on at once, set spec.keystone.registration to None"
        ))
    };
    let (state, deadline) = match read(&config, world)
        .and_then(|credentials| Ok(credentials.zip(keystone::endpoints(&config, world)?)))
    {
        Ok(None) => return Removal::Done,
        Ok(Some((credentials, keystone))) => match task(
            Part::Removal,
            &config,
            settings,
            &Direct {
                credentials,
                keystone,
            },
        ) {
            Ok(task) => match world.keystone(&task) {
                Progress::Done => return Removal::Done,
                Progress::UnderWay => (
                    State::requested(format!(
                        "being removed from Keystone at {}",
                        task.access.keystone.to()
                    )),
                    None,
                ),
                Progress::Failed(why) if now < until => (tried(&why), None),
                Progress::Failed(why) => return left(&why),
            },
            // Somebody may permit it yet.
            Err(why) if now < until => (tried(&why.to_string()), Some(until)),
            Err(why) => return left(&why.to_string()),
        },
        Err(Pending::Unsettled | Pending::Unmade) => {
            (State::requested("being removed from Keystone"), None)
        }
        // With its namespace, the Secrets go before it.
        Err(Pending::At(state)) => return left(&state.message),
    };
    let mut steps = Steps::default();
    steps.set(Step::KeystoneEndpoint, state);
    Removal::Waiting(steps, deadline)
}
