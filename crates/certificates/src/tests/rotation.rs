//! Clients trust the served certificate at all times, as a real TLS client sees it, while years
//! pass and while another user edits the objects.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    sign::CertifiedKey,
};
use serde_json::{Value, json};
use weft_plan::{Certificate, Lifetime, Lifetimes, Manifest, ObjectKey, Unit, kinds};

const NAMESPACE: &str = "ns";
const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * MINUTE;

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn secret(name: &str) -> ObjectKey {
    ObjectKey::new(kinds::SECRET, NAMESPACE, name)
}

fn webhooks() -> ObjectKey {
    ObjectKey::new(kinds::MUTATING_WEBHOOK_CONFIGURATION, "", "hooks")
}

fn certificate(lifetimes: Lifetimes) -> Certificate {
    Certificate {
        secret: secret("serving"),
        authority: secret("authority"),
        dns_names: Certificate::service_names("server", NAMESPACE),
        trusted_by: vec![webhooks()],
        lifetimes,
    }
}

/// As short as they may be in practice: what an administrator of KubeMacPool has.
fn short() -> Lifetimes {
    let hours = |validity, overlap| Lifetime {
        validity: SignedDuration::from_hours(validity),
        overlap: SignedDuration::from_hours(overlap),
    };
    Lifetimes::new(hours(168, 24), hours(24, 8)).unwrap()
}

/// The objects as a domain leaves them.
fn empty_units() -> Vec<Unit> {
    let secret = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
            "type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": "", "ca.crt": ""}
        })
    };
    let service = json!({"service": {"name": "server", "namespace": NAMESPACE}});
    let hooks = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": "hooks"},
    "webhooks": [
        {"name": "a.example.com", "clientConfig": service},
        {"name": "b.example.com", "clientConfig": service}
    ]});
    let objects = [secret("serving"), secret("authority"), hooks]
        .map(|body| Manifest::new(body).unwrap())
        .to_vec();
    vec![
        Unit {
            name: "other".into(),
            objects: vec![],
        },
        Unit {
            name: "server".into(),
            objects,
        },
    ]
}

/// The objects in a cluster, and the time there.
struct Cluster {
    certificate: Certificate,
    live: BTreeMap<ObjectKey, Value>,
    now: Timestamp,
    next: Timestamp,
}

impl Cluster {
    fn new(lifetimes: Lifetimes) -> Self {
        Self {
            certificate: certificate(lifetimes),
            live: BTreeMap::new(),
            now: start(),
            next: start(),
        }
    }

    fn after(&mut self, seconds: i64) -> &mut Self {
        self.now = self
            .now
            .checked_add(SignedDuration::from_secs(seconds))
            .unwrap();
        self
    }

    /// Reconciles once. Returns true if an object changed.
    fn reconcile(&mut self) -> bool {
        self.reconcile_without(None)
    }

    /// Reconciles once, while the API server refuses to write the object `failing`. Returns true if
    /// another object changed.
    fn reconcile_without(&mut self, failing: Option<&ObjectKey>) -> bool {
        let mut units = empty_units();
        self.next =
            weft_certificates::fill(&self.certificate, &self.live, &mut units, self.now).unwrap();
        assert!(
            self.next > self.now,
            "at {}: it would have to be done again at once",
            self.now
        );
        let mut changed = false;
        for object in units
            .iter()
            .flat_map(|unit| &unit.objects)
            .filter(|object| Some(object.key()) != failing)
        {
            let before = self
                .live
                .insert(object.key().clone(), object.body().clone());
            changed |= before.as_ref() != Some(object.body());
        }
        changed
    }

    fn field(&self, name: &str, field: &str) -> Vec<u8> {
        STANDARD
            .decode(self.live[&secret(name)]["data"][field].as_str().unwrap())
            .unwrap()
    }

    fn set(&mut self, name: &str, field: &str, text: impl AsRef<[u8]>) {
        self.live.get_mut(&secret(name)).unwrap()["data"][field] = STANDARD.encode(text).into();
    }

    fn served(&self) -> Vec<u8> {
        self.field("serving", "tls.crt")
    }

    /// The bundle, which all webhooks have.
    fn bundle(&self) -> Vec<u8> {
        let hooks = self.live[&webhooks()]["webhooks"].as_array().unwrap();
        let bundles: Vec<_> = hooks
            .iter()
            .map(|hook| hook["clientConfig"]["caBundle"].as_str().unwrap())
            .collect();
        assert_eq!(bundles[0], bundles[1]);
        STANDARD.decode(bundles[0]).unwrap()
    }

    #[track_caller]
    fn assert_whole(&self) {
        accept(&self.bundle(), &self.served(), self.now);
        let key = PrivateKeyDer::from_pem_slice(&self.field("serving", "tls.key")).unwrap();
        let chain = CertificateDer::pem_slice_iter(&self.served())
            .collect::<Result<Vec<_>, _>>()
            .unwrap();
        let pair = CertifiedKey::from_der(chain, key, &ring::default_provider()).unwrap();
        pair.keys_match().unwrap();
        assert_eq!(self.field("serving", "ca.crt"), self.bundle());
    }
}

fn count(bundle: &[u8]) -> usize {
    CertificateDer::pem_slice_iter(bundle).count()
}

/// A TLS client that trusts `bundle` is shown `served` at this time, and asks for the server as the
/// API server does.
#[track_caller]
fn accept(bundle: &[u8], served: &[u8], now: Timestamp) {
    for name in ["server.ns.svc", "server.ns.svc.cluster.local"] {
        verify(bundle, served, name, now).unwrap_or_else(|error| panic!("at {now}: {error}"));
    }
}

fn verify(bundle: &[u8], served: &[u8], name: &str, now: Timestamp) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle) {
        roots.add(authority.unwrap()).unwrap();
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(
        Arc::new(roots),
        Arc::new(ring::default_provider()),
    )
    .build()
    .expect("there are roots");
    let chain: Vec<_> = CertificateDer::pem_slice_iter(served)
        .collect::<Result<_, _>>()
        .unwrap();
    let time = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().unsigned_abs()));
    verifier
        .verify_server_cert(
            &chain[0],
            &chain[1..],
            &ServerName::try_from(name).unwrap(),
            &[],
            time,
        )
        .map(drop)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, failure_persistence: None, ..ProptestConfig::default() })]

    /// The pace does not matter, and some writes fail. A client with the bundle of this step or of
    /// the one before accepts the certificate that servers use now. A client with this bundle
    /// accepts the earlier certificate, which servers may still have in memory.
    #[test]
    fn no_client_is_ever_turned_away(
        short_lived: bool,
        steps in prop::collection::vec((5 * MINUTE..2 * 60 * MINUTE, 0..10u8), 1..40),
    ) {
        let (lifetimes, days, factor) = if short_lived { (short(), 40, 1) } else { (Lifetimes::default(), 600, 24) };
        let mut cluster = Cluster::new(lifetimes);
        cluster.reconcile();
        cluster.assert_whole();
        let (mut bundles, mut authorities, mut failed) = (1, 0, false);
        for (step, luck) in steps.iter().cycle() {
            if cluster.now.duration_since(start()).as_secs() > days * DAY {
                break;
            }
            let (bundle, served, authority) = (cluster.bundle(), cluster.served(), cluster.field("authority", "tls.crt"));
            // One failure after the other would be an outage.
            let failing = match luck {
                0 if !failed => Some(webhooks()),
                1 if !failed => Some(secret("serving")),
                _ => None,
            };
            failed = failing.is_some();
            cluster.after(step * factor).reconcile_without(failing.as_ref());
            for bundle in [&bundle, &cluster.bundle()] {
                for served in [&served, &cluster.served()] {
                    verify(bundle, served, "server.ns.svc", cluster.now).unwrap_or_else(|error| panic!("at {}: {error}", cluster.now));
                }
            }
            bundles = bundles.max(count(&cluster.bundle()));
            authorities += usize::from(authority != cluster.field("authority", "tls.crt"));
        }
        prop_assert_eq!(bundles, 2, "old and new overlap, and the old one goes");
        prop_assert!(authorities >= 2, "there were {} new authorities", authorities);
    }
}

#[test]
fn a_rotation_changes_something_exactly_at_the_times_that_it_names() {
    for lifetimes in [short(), Lifetimes::default()] {
        let mut cluster = Cluster::new(lifetimes);
        cluster.reconcile();
        let mut reconciles = 0;
        while cluster.now.duration_since(start()).as_secs() < 800 * DAY && reconciles < 200 {
            let next = cluster.next;
            cluster.now = next.checked_sub(SignedDuration::from_secs(1)).unwrap();
            assert!(!cluster.reconcile(), "at {}, before {next}", cluster.now);
            cluster.after(1);
            assert!(cluster.reconcile(), "at {}", cluster.now);
            cluster.assert_whole();
            reconciles += 1;
        }
        assert!(
            cluster.now.duration_since(start()).as_secs() > 60 * DAY,
            "{reconciles} reconciles took until {}",
            cluster.now
        );
    }
}

#[test]
fn trust_in_authorities_covers_all_certificates_that_servers_use() {
    let mut cluster = Cluster::new(short());
    cluster.reconcile();
    // Near the end of the authority, 24 of 168 hours.
    while count(&cluster.bundle()) == 1 {
        cluster.now = cluster.next;
        cluster.reconcile();
    }
    assert_eq!(
        cluster.now,
        start()
            .checked_add(SignedDuration::from_hours(144))
            .unwrap()
    );
    let (both, by_the_old) = (cluster.bundle(), cluster.served());
    // The webhooks are not up to date, however long it takes.
    let hooks = cluster.live[&webhooks()].clone();
    let one: String = String::from_utf8(both.clone())
        .unwrap()
        .split_inclusive("-----END CERTIFICATE-----\n")
        .nth(1)
        .unwrap()
        .to_owned();
    for hook in cluster.live.get_mut(&webhooks()).unwrap()["webhooks"]
        .as_array_mut()
        .unwrap()
    {
        hook["clientConfig"]["caBundle"] = STANDARD.encode(&one).into();
    }
    cluster
        .after(60 * MINUTE)
        .reconcile_without(Some(&webhooks()));
    assert_eq!(cluster.served(), by_the_old);
    cluster.live.insert(webhooks(), hooks);
    cluster.reconcile();
    assert_ne!(cluster.served(), by_the_old);
    assert_eq!(cluster.bundle(), both);
    // Servers have got the new one.
    cluster.after(31 * MINUTE).reconcile();
    assert_eq!(count(&cluster.bundle()), 1);
    assert!(verify(&cluster.bundle(), &by_the_old, "server.ns.svc", cluster.now).is_err());
    cluster.assert_whole();
}

#[test]
fn lost_and_unusable_certificates_are_recreated_at_once() {
    let other = |name: &str| {
        let mut other = Cluster::new(short());
        other.certificate.dns_names = Certificate::service_names(name, NAMESPACE);
        other.reconcile();
        other
    };
    type Harm = fn(&mut Cluster, &Cluster);
    let harms: [(&str, &str, Harm); 10] = [
        ("the Secret is gone", "serving", |cluster, _| {
            drop(cluster.live.remove(&secret("serving")))
        }),
        ("the Secret is empty", "serving", |cluster, _| {
            cluster.live.get_mut(&secret("serving")).unwrap()["data"] = Value::Null
        }),
        ("no certificate", "serving", |cluster, _| {
            cluster.set("serving", "tls.crt", "garbage")
        }),
        ("no key", "serving", |cluster, _| {
            cluster.set("serving", "tls.key", [0xff, 0xfe])
        }),
        ("not base64", "serving", |cluster, _| {
            cluster.live.get_mut(&secret("serving")).unwrap()["data"]["tls.crt"] = "%".into();
        }),
        ("another key", "serving", |cluster, other| {
            cluster.set("serving", "tls.key", other.field("serving", "tls.key"))
        }),
        ("another authority's", "serving", |cluster, other| {
            cluster
                .live
                .insert(secret("serving"), other.live[&secret("serving")].clone());
        }),
        ("the authority's own", "serving", |cluster, _| {
            cluster.live.insert(
                secret("serving"),
                cluster.live[&secret("authority")].clone(),
            );
        }),
        ("expired", "serving", |cluster, _| {
            cluster.now = cluster
                .now
                .checked_add(SignedDuration::from_hours(24))
                .unwrap()
        }),
        ("not valid yet", "authority", |cluster, _| {
            cluster.now = cluster
                .now
                .checked_sub(SignedDuration::from_hours(25))
                .unwrap()
        }),
    ];
    for (what, name, harm) in harms {
        let mut cluster = Cluster::new(short());
        cluster.reconcile();
        let (before, authority) = (cluster.served(), cluster.field("authority", "tls.crt"));
        harm(&mut cluster, &other("server"));
        assert!(cluster.reconcile(), "{what}");
        cluster.assert_whole();
        assert_ne!(cluster.served(), before, "{what}");
        assert_eq!(
            cluster.field("authority", "tls.crt") == authority,
            name != "authority",
            "{what}"
        );
        assert!(!cluster.reconcile(), "{what}: once is enough");
    }
    // Other names than it should have, although it is the authority's.
    let mut cluster = other("elsewhere");
    cluster.certificate = certificate(short());
    cluster.reconcile();
    cluster.assert_whole();
}

#[test]
fn a_lost_authority_costs_no_connection() {
    let harms: [fn(&mut Cluster); 4] = [
        |cluster| drop(cluster.live.remove(&secret("authority"))),
        |cluster| cluster.set("authority", "tls.crt", "garbage"),
        |cluster| cluster.set("authority", "tls.key", "garbage"),
        |cluster| cluster.live.get_mut(&secret("authority")).unwrap()["data"] = json!({}),
    ];
    for harm in harms {
        let mut cluster = Cluster::new(Lifetimes::default());
        cluster.reconcile();
        let (old_bundle, old_served) = (cluster.bundle(), cluster.served());
        cluster.after(DAY);
        harm(&mut cluster);
        assert!(cluster.reconcile());
        // Servers go on with what they have, and both are trusted.
        assert_eq!(
            (cluster.served(), count(&cluster.bundle())),
            (old_served.clone(), 2)
        );
        accept(&old_bundle, &cluster.served(), cluster.now);
        cluster.now = cluster.next;
        assert!(cluster.reconcile());
        assert_ne!(cluster.served(), old_served);
        cluster.assert_whole();
        accept(&cluster.bundle(), &old_served, cluster.now);
        cluster.now = cluster.next;
        assert!(cluster.reconcile());
        assert_eq!(count(&cluster.bundle()), 1);
        cluster.assert_whole();
        assert!(!cluster.after(DAY).reconcile());
    }
}

#[test]
fn a_bundle_is_put_right_and_nobody_else_is_trusted() {
    let mut other = Cluster::new(short());
    other.reconcile();
    for harm in [Vec::new(), b"garbage".to_vec(), other.bundle()] {
        let mut cluster = Cluster::new(short());
        cluster.reconcile();
        let (bundle, served) = (cluster.bundle(), cluster.served());
        let edited = [
            harm,
            if count(&other.bundle()) == 1 {
                bundle.clone()
            } else {
                Vec::new()
            },
        ]
        .concat();
        cluster.live.get_mut(&webhooks()).unwrap()["webhooks"][1]["clientConfig"]["caBundle"] =
            STANDARD.encode(&edited).into();
        cluster.reconcile();
        assert_eq!((cluster.bundle(), cluster.served()), (bundle, served));
        // Without the Secrets there is nothing to go on.
        cluster.live.retain(|key, _| *key == webhooks());
        cluster.reconcile();
        assert_eq!(count(&cluster.bundle()), 1);
        cluster.assert_whole();
    }
}

#[test]
fn shorter_lifetimes_hold_for_what_is_there_already() {
    let mut cluster = Cluster::new(Lifetimes::default());
    cluster.reconcile();
    cluster.certificate.lifetimes = short();
    assert!(!cluster.after(60 * MINUTE).reconcile());
    assert_eq!(
        cluster.next,
        start().checked_add(SignedDuration::from_hours(16)).unwrap()
    );
    cluster.now = cluster.next;
    assert!(cluster.reconcile());
    cluster.assert_whole();
}
