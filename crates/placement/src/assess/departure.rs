//! The end of a PlacementAPI: what it holds of others' is released, each thing for itself. Owner
//! references remove the objects that were made for it.

use std::sync::Arc;

use serde_json::Value;
use weft_api::placement::PlacementApi;
use weft_plan::{Kind, Live, ObjectKey, kinds};

use crate::{
    peers::{Disclaim, FINALIZER, credential, database, keystone, topology},
    world::{Seen, World},
};

/// The work before a PlacementAPI may go.
#[derive(Clone, Debug, Default)]
pub struct Departure {
    /// Objects to release.
    pub disclaims: Vec<Disclaim>,
    /// True if the list is complete, because no answer is under way.
    pub settled: bool,
}

/// Looks for everything that carries a finalizer of this PlacementAPI's. An object that is gone,
/// has an unserved kind, or may not be read holds up nothing.
pub fn departure(resource: &PlacementApi, world: &dyn World) -> Departure {
    let namespace = resource.metadata.namespace.clone().unwrap_or_default();
    let status = resource.status.as_ref();
    let mut look = Look {
        world,
        namespace: &namespace,
        departure: Departure {
            disclaims: Vec::new(),
            settled: true,
        },
    };

    let finalizer = topology::finalizer(resource.metadata.name.as_deref().unwrap_or_default());
    look.selected(kinds::TOPOLOGY, "", &finalizer, None);
    // As they were made, backwards.
    look.object(kinds::KEYSTONE_ENDPOINT, keystone::NAME, FINALIZER, None);
    look.object(kinds::KEYSTONE_SERVICE, keystone::NAME, FINALIZER, None);
    look.selected(
        kinds::MARIADB_ACCOUNT,
        &database::accounts(),
        FINALIZER,
        None,
    );
    look.object(kinds::MARIADB_DATABASE, database::NAME, FINALIZER, None);

    let applied = status.and_then(|status| status.application_credential_secret.as_deref());
    let named = resource
        .spec
        .auth
        .as_ref()
        .and_then(|auth| auth.application_credential_secret.as_deref());
    look.selected(
        kinds::SECRET,
        &credential::held(),
        credential::FINALIZER,
        Some(credential::LABEL.0),
    );
    // One of nova-operator's has no label.
    for name in [applied, named].into_iter().flatten() {
        look.object(
            kinds::SECRET,
            name,
            credential::FINALIZER,
            Some(credential::LABEL.0),
        );
    }
    look.departure
}

struct Look<'a> {
    world: &'a dyn World,
    namespace: &'a str,
    departure: Departure,
}

impl Look<'_> {
    fn object(&mut self, kind: Kind, name: &str, finalizer: &str, label: Option<&str>) {
        if name.is_empty() {
            return;
        }
        let found = self.told(
            self.world
                .object(&ObjectKey::new(kind, self.namespace, name)),
        );
        self.disclaim(kind, found.flatten().into_iter(), finalizer, label);
    }

    fn selected(&mut self, kind: Kind, labels: &str, finalizer: &str, label: Option<&str>) {
        let found = self.told(self.world.selected(kind, labels));
        self.disclaim(kind, found.into_iter().flatten(), finalizer, label);
    }

    fn told<T>(&mut self, seen: Seen<T>) -> Option<T> {
        match seen {
            Seen::Known(found) => Some(found),
            Seen::NotServed | Seen::Refused(_) => None,
            Seen::Unknown => {
                self.departure.settled = false;
                None
            }
        }
    }

    fn disclaim(
        &mut self,
        kind: Kind,
        found: impl Iterator<Item = Arc<Value>>,
        finalizer: &str,
        label: Option<&str>,
    ) {
        for object in found {
            let key = ObjectKey::new(kind, self.namespace, Live::of(&object).name());
            let disclaim = Disclaim::of(&key, &object, finalizer, label);
            self.departure.disclaims.extend(disclaim.filter(|_| {
                self.departure
                    .disclaims
                    .iter()
                    .all(|known| known.key != key)
            }));
        }
    }
}
