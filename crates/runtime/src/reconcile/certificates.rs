//! Certificates of a reconcile: reads the existing ones, lets `weft-certificates` decide, and puts
//! the result into the units.

use std::collections::{BTreeMap, HashMap};

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::Value;
use weft_plan::{
    Certificate, ObjectKey, Step, Unit, kinds,
    report::{Failure, FailureClass},
};

use crate::{api_server::cluster::Error, reconcile::objects::Objects};

/// The result for the certificates of a reconcile.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    /// Failures by unit. Such a unit is not applied, because its Secrets would be empty and its
    /// webhooks would trust nobody.
    pub failures: HashMap<String, Vec<Failure>>,
    /// When the next one is to be renewed.
    pub next: Option<Timestamp>,
}

/// The objects of a certificate as they are in the cluster, or why they cannot be read.
type Live = BTreeMap<ObjectKey, Result<Option<Value>, Error>>;

/// Reads what there is of these certificates: from the cache where it is Weft's.
pub async fn read(objects: &Objects, certificates: &[Certificate]) -> Live {
    let keys = certificates.iter().flat_map(keys);
    let look = async |key: &ObjectKey| {
        (
            key.clone(),
            objects
                .live(key)
                .await
                .map(|live| live.map(|live| Value::clone(&live))),
        )
    };
    join_all(keys.map(look)).await.into_iter().collect()
}

fn keys(certificate: &Certificate) -> impl Iterator<Item = &ObjectKey> {
    [&certificate.authority, &certificate.secret]
        .into_iter()
        .chain(&certificate.trusted_by)
}

/// Puts keys, certificates and CA bundles into `units`, and renews those that are due.
///
/// The order inside a unit lets no client call a server that it does not trust. Secrets come before
/// webhooks, and an authority that an existing webhook does not trust yet signs nothing.
pub fn fill(
    objects: &Objects,
    certificates: &[Certificate],
    live: &Live,
    units: &mut [Unit],
    now: Timestamp,
) -> Filled {
    let mut filled = Filled::default();
    for certificate in certificates {
        match fill_one(objects, certificate, live, units, now) {
            Ok(next) => filled.next = filled.next.into_iter().chain([next]).min(),
            Err(failure) => {
                let of_it = |unit: &&Unit| {
                    unit.objects
                        .iter()
                        .any(|object| keys(certificate).any(|key| key == object.key()))
                };
                for unit in units.iter().filter(of_it) {
                    filled
                        .failures
                        .entry(unit.name.clone())
                        .or_default()
                        .push(Failure::clone(&failure));
                }
            }
        }
    }
    filled
}

fn fill_one(
    objects: &Objects,
    certificate: &Certificate,
    live: &Live,
    units: &mut [Unit],
    now: Timestamp,
) -> Result<Timestamp, Box<Failure>> {
    let mut ours = BTreeMap::new();
    for key in keys(certificate) {
        let failed = |class, message| {
            Box::new(Failure {
                object: key.clone(),
                class,
                message,
            })
        };
        let found = match live.get(key) {
            Some(Ok(Some(found))) => found,
            Some(Ok(None)) | None => continue,
            Some(Err(error)) => return Err(failed(error.class(), error.of_operator())),
        };
        let manifest = units
            .iter()
            .flat_map(|unit| &unit.objects)
            .find(|object| object.key() == key);
        match manifest.map(|manifest| objects.step(manifest, Some(found))) {
            // Another owner's Secret would never become ours, and each reconcile would make a new
            // authority for nothing.
            Some(Step::Foreign { why }) if key.kind == kinds::SECRET => {
                return Err(failed(FailureClass::Foreign, why));
            }
            Some(Step::Foreign { .. }) => continue,
            _ => ours.insert(key.clone(), found.clone()),
        };
    }
    weft_certificates::fill(certificate, &ours, units, now).map_err(|error| {
        let message = format!("{error}; this is a defect of Weft, please report it");
        Box::new(Failure {
            object: certificate.secret.clone(),
            class: FailureClass::Bug,
            message,
        })
    })
}
