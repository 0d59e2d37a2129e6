//! Registration by this operator itself: the user before the pods that log in as it, service and endpoints once they answer, and all of it gone at the
//! end.
//!
//! Keystone tells nobody of its changes, and is not asked again and again. What has been done is in `status.hash`: as long as that is what is wanted,
//! nothing is asked. The annotation [`RETRY`] has it looked at again.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use weft_api::placement::PlacementApi;
use weft_operands::problems::given;

use super::{
    End, Pending, Walk, keystone,
    secrets::{self, BUNDLE},
};
use crate::{
    Config, KeystoneEndpoints,
    conditions::{State, Step, Steps},
    objects::digest,
    registration::{Access, Errand, Part, Progress, Wanted},
    validate::Registration,
    world::{World, secret},
};

/// Another value of this annotation has everything looked at again.
pub const RETRY: &str = "weft.network/retry";
/// How long a deletion waits for Keystone.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// Names in `status.hash`.
const ACCOUNT: &str = "keystoneservice";
const CATALOGUE: &str = "keystoneendpoint";

/// What registration needs of Secrets.
#[derive(Clone)]
pub struct Credentials {
    user: String,
    password: String,
    bundle: Option<Vec<u8>>,
    /// The password of the service's user.
    service: String,
    /// Which version of its Secret that is.
    version: String,
}

/// Whether this operator registers the service.
pub fn is_direct(config: &Config) -> bool {
    config.authenticates() && config.registration == Registration::Direct
}

/// The names of the Secrets that are needed beside those of the pods.
pub fn secrets(config: &Config) -> impl Iterator<Item = &str> {
    let admin = config.spec().keystone.as_ref().and_then(|keystone| keystone.admin_secret.as_ref());
    admin.map(|admin| admin.name.as_str()).into_iter().filter(|_| is_direct(config))
}

/// Reads them; nothing where somebody else registers the service.
///
/// # Errors
/// One is missing, lacks a key, or has a value under it that cannot be used.
pub fn read(config: &Config, world: &dyn World) -> Result<Option<Credentials>, Pending> {
    let Some(admin) = config.spec().keystone.as_ref().and_then(|keystone| keystone.admin_secret.as_ref()).filter(|_| is_direct(config))
    else {
        return Ok(None);
    };
    let find = |name: &str| secrets::find(config, world, name, State::error);
    let fails = |error| Pending::from(Step::Input.fails(error));
    let keys = find(&admin.name)?;
    let service = find(given(&config.spec().secret).unwrap_or_default())?;
    let bundle = config.keystone_ca_bundle().or_else(|| config.ca_bundle()).map(|name| find(name)?.bytes(BUNDLE).map_err(fails));
    Ok(Some(Credentials {
        user: keys.text(given(&admin.user_key).unwrap_or("username")).map_err(fails)?,
        password: keys.text(given(&admin.password_key).unwrap_or("password")).map_err(fails)?,
        bundle: bundle.transpose()?,
        service: service.text(config.password_key()).map_err(fails)?,
        version: service.version(),
    }))
}

/// All that a registration needs.
pub struct Direct {
    /// from Secrets
    pub credentials: Credentials,
    /// where Keystone is
    pub keystone: KeystoneEndpoints,
}

fn errand(part: Part, config: &Config, credentials: &Credentials, keystone: &KeystoneEndpoints) -> Errand {
    let Credentials { user, password, bundle, service, version: _ } = credentials.clone();
    let access = Access { auth_url: keystone.internal.clone(), bundle, user, password };
    Errand { part, access, wanted: Wanted::of(config, &service, keystone.region.as_deref()) }
}

impl Walk<'_> {
    /// The service's user, with the password that the pods are about to get.
    pub(super) fn registered_user(&mut self, direct: Option<&Direct>) -> Result<(), End> {
        let Some(Direct { credentials, keystone }) = direct else { return Ok(()) };
        // No digest of the password itself: status is read by many.
        let what = json!([keystone.internal, self.config.service_user(), credentials.version, self.retry]);
        let hash = self.registered(ACCOUNT, &what, errand(Part::Account, self.config, credentials, keystone), Step::KeystoneService)?;
        self.assessment.found.account_hash = Some(hash);
        Ok(())
    }

    /// Service and endpoints.
    pub(super) fn registered_endpoints(&mut self, Direct { credentials, keystone }: &Direct) -> Result<(), End> {
        self.done(Step::KeystoneService);
        let errand = errand(Part::Catalogue, self.config, credentials, keystone);
        let what = json!([keystone.internal, errand.wanted.region, errand.wanted.urls, self.retry]);
        let hash = self.registered(CATALOGUE, &what, errand, Step::KeystoneEndpoint)?;
        self.assessment.found.catalogue_hash = Some(hash);
        self.done(Step::KeystoneEndpoint);
        Ok(())
    }

    /// Has an errand done unless status says that it is.
    fn registered(&mut self, name: &str, what: &serde_json::Value, errand: Errand, step: Step) -> Result<String, End> {
        let hash = digest(what);
        if self.before.hash.as_ref().and_then(|hashes| hashes.get(name)) == Some(&hash) {
            return Ok(hash);
        }
        let came = match self.world.keystone(&errand) {
            Progress::Done => Ok(hash),
            Progress::UnderWay => Err(State::requested(format!("Keystone at {} is asked", errand.access.auth_url)).into()),
            Progress::Failed(why) => Err(step.fails(why).into()),
        };
        self.take(step, came)
    }
}

/// What is still to be done at Keystone before a PlacementAPI may go.
#[derive(Debug)]
pub enum Removal {
    /// Nothing.
    Done,
    /// It is being done, or tried: as these conditions say.
    Waiting(Steps),
    /// It cannot be done: this stays there.
    GivenUp(String),
}

/// Removes what was registered.
pub fn removal(resource: &PlacementApi, world: &dyn World, now: Timestamp) -> Removal {
    let Ok(config) = Config::of(resource) else { return Removal::Done };
    let hashes = resource.status.as_ref().and_then(|status| status.hash.as_ref());
    // Without status there was nothing yet.
    if !is_direct(&config) || resource.status.is_none() {
        return Removal::Done;
    }
    let what = if hashes.is_some_and(|hashes| hashes.contains_key(CATALOGUE)) { "user, service and endpoints" } else { "its user" };
    let left = |why: &str| Removal::GivenUp(format!("{what} of Placement may be left in Keystone, remove them there: {why}"));
    for name in secrets(&config) {
        let _ = world.object(&secret(&config.namespace, name));
    }
    let since = resource.metadata.deletion_timestamp.as_ref().map_or(now, |since| since.0);
    let until = since.checked_add(PATIENCE).unwrap_or(since);
    let state = match read(&config, world).and_then(|credentials| Ok(credentials.zip(keystone::endpoints(&config, world)?))) {
        Ok(None) => return Removal::Done,
        Ok(Some((credentials, keystone))) => match world.keystone(&errand(Part::Removal, &config, &credentials, &keystone)) {
            Progress::Done => return Removal::Done,
            Progress::UnderWay => State::requested(format!("being removed from Keystone at {}", keystone.internal)),
            Progress::Failed(why) if now < until => Step::KeystoneEndpoint.fails(format!(
                "{why}. This is tried until {until}; to leave it in Keystone and go on at once, set spec.keystone.registration to None"
            )),
            Progress::Failed(why) => return left(&why),
        },
        Err(Pending::Unsettled | Pending::Unmade) => State::requested("being removed from Keystone"),
        // With its namespace, the Secrets go before it.
        Err(Pending::At(state)) => return left(&state.message),
    };
    let mut steps = Steps::default();
    steps.set(Step::KeystoneEndpoint, state);
    Removal::Waiting(steps)
}
