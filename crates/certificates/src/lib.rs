//! Serving certificates of webhooks from a certificate authority of Weft: what to store, whom to
//! trust, and when to look again.
//!
//! Pure but for one thing: keys are drawn at random by the crypto library itself, which takes no
//! other source. The time is an argument.

// The tests below `tests` name the crate as its users do.
#[cfg(test)]
extern crate self as weft_certificates;

mod rotation;
#[cfg(test)]
mod tests;
mod x509;

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value};
use weft_plan::{Manifest, ManifestError, ObjectKey, Unit};

use rotation::{Found, rotate};
pub use x509::SelfSigned;
use x509::{Certificate, Pair};

/// Keys of a Secret of the type `kubernetes.io/tls`, and next to them, as cert-manager has it, whom
/// to trust.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const TRUSTED: &str = "ca.crt";

/// Why no certificate can be made. None of these is the cluster's fault.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key or a certificate cannot be made.
    #[error("a certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
    /// A generated certificate cannot be read.
    #[error("a certificate was made that cannot be read")]
    Unreadable,
    /// A date that no certificate can bear.
    #[error("{0} cannot be written into a certificate")]
    Date(Timestamp),
    /// An object that is to be filled in is not among the units, or is not of the right form.
    #[error("{0} is to be filled in, and no unit has it")]
    NoObject(String),
    /// The same, with what is wrong with it.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// Fills in one certificate: the data of its Secrets and the `caBundle` of the webhooks that trust
/// it, in `units`.
///
/// `live` are these objects as they are in the cluster. One that is not there, or is not Weft's, is
/// left out. The objects keep their content as long as it is usable and not due. Returns when that
/// changes by time alone, and this has to be done again.
///
/// # Errors
/// The units are not what the certificate says, or the crypto library refuses. The units are then
/// as they were, or in part filled in.
pub fn fill(
    certificate: &weft_plan::Certificate,
    live: &BTreeMap<ObjectKey, Value>,
    units: &mut [Unit],
    now: Timestamp,
) -> Result<Timestamp, Error> {
    let name = format!("weft {}", certificate.authority.name);
    let found = found(certificate, live);
    let wanted = rotate(
        found,
        &name,
        &certificate.dns_names,
        &certificate.lifetimes,
        now,
    )?;
    let bundle: String = wanted.trusted.iter().map(Certificate::pem).collect();
    for (key, pair) in [
        (&certificate.authority, &wanted.authority),
        (&certificate.secret, &wanted.serving),
    ] {
        let data = [
            (CERTIFICATE, pair.certificate.pem()),
            (KEY, pair.key_pem()),
            (TRUSTED, bundle.clone()),
        ];
        object(units, key)?.edit("/data", |fields: &mut Map<String, Value>| {
            fields
                .extend(data.map(|(field, text)| (field.to_owned(), STANDARD.encode(text).into())));
            Ok::<_, String>(())
        })?;
    }
    for key in &certificate.trusted_by {
        object(units, key)?.edit("/webhooks", |webhooks: &mut Vec<Value>| {
            webhooks.iter_mut().for_each(|webhook| {
                webhook["clientConfig"]["caBundle"] = STANDARD.encode(&bundle).into()
            });
            Ok::<_, String>(())
        })?;
    }
    Ok(wanted.next)
}

fn object<'a>(units: &'a mut [Unit], key: &ObjectKey) -> Result<&'a mut Manifest, Error> {
    let mut objects = units.iter_mut().flat_map(|unit| &mut unit.objects);
    objects
        .find(|object| object.key() == key)
        .ok_or_else(|| Error::NoObject(key.human()))
}

/// Reads the certificate's objects in the cluster.
fn found(certificate: &weft_plan::Certificate, live: &BTreeMap<ObjectKey, Value>) -> Found {
    let data = |key: &ObjectKey, field: &str| {
        live.get(key)
            .map(|secret| decoded(&secret["data"][field]))
            .unwrap_or_default()
    };
    let pair = |key: &ObjectKey| Pair::read(&data(key, CERTIFICATE), &data(key, KEY));
    let webhooks = certificate
        .trusted_by
        .iter()
        .filter_map(|key| live.get(key)?["webhooks"].as_array())
        .flatten();
    let trusted: Vec<_> = webhooks
        .map(|webhook| Certificate::all(&decoded(&webhook["clientConfig"]["caBundle"])))
        .collect();
    let (authority, serving) = (pair(&certificate.authority), pair(&certificate.secret));
    let earlier = match (&authority, &serving) {
        (Some(_), _) => Certificate::all(&data(&certificate.authority, TRUSTED)),
        // The authority is lost, or was deleted so that there be a new one. The server goes on with
        // its certificate for a while, and its clients go on trusting the one who has signed it.
        (None, Some(serving)) => trusted
            .iter()
            .flatten()
            .filter(|authority| serving.certificate.is_signed_by(authority))
            .cloned()
            .collect(),
        (None, None) => Vec::new(),
    };
    Found {
        authority,
        earlier,
        serving,
        trusted,
    }
}

/// Nothing, if it is not base64.
fn decoded(value: &Value) -> Vec<u8> {
    STANDARD
        .decode(value.as_str().unwrap_or_default())
        .unwrap_or_default()
}
