//! Passwords and keys, none of which is in a fixture. There, the data of Secrets is plain text with
//! a word in angle brackets in the place of each secret.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use weft_plan::{Certificate, Lifetimes, Manifest, ObjectKey, Unit};
use weft_testenv::StoredKind;

/// The purposes of all passwords of a populated cluster.
const PASSWORDS: [&str; 2] = ["service", "database"];

/// Stands for a certificate, a key or whom to trust.
const CERTIFICATE: &str = "<certificate>";

/// A password for this purpose, the same each time. So pods keep their configuration, which has
/// digests of passwords, in each cluster that begins with a fixture.
pub fn password(purpose: &str) -> String {
    let digest = Sha256::digest(format!("a password of no cluster: {purpose}"));
    digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn placeholder(purpose: &str) -> String {
    format!("<password of the {purpose}>")
}

/// Takes all secrets out of these objects. Fails if one may have remained.
pub fn take_out(kinds: &mut [StoredKind]) {
    for object in kinds.iter_mut().flat_map(|kind| &mut kind.objects) {
        let title = format!("{} {}", object["kind"], object["metadata"]["name"]);
        if object["kind"] == "Secret" {
            for (key, value) in fields(&mut object["data"]) {
                let text = decoded(value);
                let masked = masked(&text);
                let names_a_secret = ["password", "key", "token"]
                    .iter()
                    .any(|word| key.to_lowercase().ends_with(word));
                assert!(
                    !names_a_secret || text.is_empty() || masked.starts_with('<'),
                    "{title}: add the secret of {key} to PASSWORDS, so that it stays out of the fixture"
                );
                *value = masked.into();
            }
        }
        for webhook in object["webhooks"].as_array_mut().into_iter().flatten() {
            let bundle = &mut webhook["clientConfig"]["caBundle"];
            if bundle.is_string() {
                *bundle = CERTIFICATE.into();
            }
        }
    }
}

fn masked(text: &str) -> String {
    if text.contains("-----BEGIN ") {
        return CERTIFICATE.to_owned();
    }
    PASSWORDS.iter().fold(text.to_owned(), |text, purpose| {
        text.replace(&password(purpose), &placeholder(purpose))
    })
}

/// Puts passwords, and new keys and certificates, in the place of those that were taken out.
pub fn fill(kinds: &mut [StoredKind]) {
    for object in kinds.iter_mut().flat_map(|kind| &mut kind.objects) {
        if object["kind"] == "Secret" {
            for (_, value) in fields(&mut object["data"]) {
                let text = value.as_str().unwrap().to_owned();
                let filled = PASSWORDS.iter().fold(text, |text, purpose| {
                    text.replace(&placeholder(purpose), &password(purpose))
                });
                *value = STANDARD.encode(filled).into();
            }
        }
    }
    certify(kinds);
}

/// Makes certificates for each webhook of Weft's: by an authority that is in the Secret whose
/// `tls.crt` it is, in another Secret next to it.
fn certify(kinds: &mut [StoredKind]) {
    let all: Vec<_> = kinds
        .iter()
        .flat_map(|kind| &kind.objects)
        .filter(|object| needs_certificate(object))
        .map(|object| Manifest::new(object.clone()).unwrap())
        .collect();
    let keys = |is_authority: bool| {
        let is = move |object: &&Manifest| {
            let key = object.key();
            key.kind.kind == "Secret" && key.name.ends_with("-ca") == is_authority
        };
        all.iter().filter(is).map(|object| object.key().clone())
    };
    let (authority, secret) = (
        keys(true).collect::<Vec<_>>(),
        keys(false).collect::<Vec<_>>(),
    );
    let trusted_by: Vec<_> = all
        .iter()
        .map(|object| object.key().clone())
        .filter(|key| key.kind.kind != "Secret")
        .collect();
    let ([authority], [secret]) = (&*authority, &*secret) else {
        panic!("only one pair of certificates is known: {authority:?} {secret:?}")
    };
    let service = all
        .iter()
        .find_map(|object| {
            let service = &object.body()["webhooks"][0]["clientConfig"]["service"];
            Some((service["name"].as_str()?, service["namespace"].as_str()?))
        })
        .expect("a webhook with a Service");
    let certificate = Certificate {
        secret: secret.clone(),
        authority: authority.clone(),
        dns_names: Certificate::service_names(service.0, service.1),
        trusted_by,
        lifetimes: Lifetimes::default(),
    };
    let mut units = [Unit {
        name: String::new(),
        objects: all.clone(),
    }];
    weft_certificates::fill(&certificate, &BTreeMap::new(), &mut units, Timestamp::now()).unwrap();
    for made in &units[0].objects {
        let place = kinds
            .iter_mut()
            .flat_map(|kind| &mut kind.objects)
            .find(|object| ObjectKey::of(object).as_ref() == Some(made.key()))
            .unwrap();
        *place = made.body().clone();
    }
}

fn needs_certificate(object: &Value) -> bool {
    let secret = object["data"]["tls.crt"] == STANDARD.encode(CERTIFICATE).as_str();
    let mut webhooks = object["webhooks"].as_array().into_iter().flatten();
    secret || webhooks.any(|webhook| webhook["clientConfig"]["caBundle"] == CERTIFICATE)
}

fn fields(data: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    data.as_object_mut().into_iter().flat_map(Map::iter_mut)
}

fn decoded(value: &Value) -> String {
    String::from_utf8(STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap()
}
