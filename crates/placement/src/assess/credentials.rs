//! The input of a direct registration in Keystone: Secrets of the user, and the address of
//! Keystone.

use crate::{Config, KeystoneEndpoints, registration::Permission, validate::Registration};

/// Reports whether this operator registers the service.
pub fn is_direct(config: &Config) -> bool {
    config.authenticates() && config.registration == Registration::Direct
}

/// The names of the Secrets that are needed next to those of the pods.
pub fn secrets(config: &Config) -> impl Iterator<Item = &str> {
    let admin = config
        .spec()
        .keystone
        .as_ref()
        .and_then(|keystone| keystone.admin_secret.as_ref());
    admin
        .map(|admin| admin.name.as_str())
        .into_iter()
        .filter(|_| is_direct(config))
}

/// All that a registration needs.
pub struct Direct {
    /// from Secrets
    pub credentials: Credentials,
    /// where Keystone is
    pub keystone: KeystoneEndpoints,
}

/// The parts of Secrets that a registration needs, and the permissions of these Secrets.
#[derive(Clone)]
pub struct Credentials {
    pub(super) user: String,
    pub(super) password: String,
    /// The keys of both.
    pub(super) keys: [String; 2],
    /// The permission in the administrator's Secret.
    pub(super) admin: Permission,
    /// How the user is called in messages.
    pub(super) called: String,
    pub(super) bundle: Option<Vec<u8>>,
    /// The password of the service's user.
    pub(super) service: String,
    /// The permission in the service user's Secret.
    pub(super) of_service: Permission,
    /// Which version of its Secret that is.
    pub(super) version: String,
}
