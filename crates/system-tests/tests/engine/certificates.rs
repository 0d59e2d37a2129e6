//! A certificate is renewed when it is time, though nothing else happens.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weft_plan::{
    Certificate, Decision, Domain, Input, Kind, Lifetimes, Manifest, ObjectKey, ObjectSet, Owner,
    Refusal, Unit, kinds, owned,
};
use weft_runtime::{
    api_server::cluster::Cluster,
    metrics::Metrics,
    reconcile::controller::{Config, Controller},
    store::watch::Shared,
};
use weft_testenv::ControlPlane;

const PATIENCE: Duration = Duration::from_secs(60);
/// From the start of the test until the certificate is due.
const LEFT: SignedDuration = SignedDuration::from_secs(10);
const NAMESPACE: &str = "default";

fn secret(name: &str) -> ObjectKey {
    ObjectKey::new(kinds::SECRET, NAMESPACE, name)
}

fn webhooks() -> ObjectKey {
    ObjectKey::new(kinds::VALIDATING_WEBHOOK_CONFIGURATION, "", "hooks")
}

/// A domain with a webhook and nothing else.
struct Hooks;

fn units() -> Vec<Unit> {
    let secret = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE},
            "type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": "", "ca.crt": ""}
        })
    };
    let hook = json!({"name": "a.example.com", "clientConfig": {
        "service": {"name": "server", "namespace": NAMESPACE}
    }, "failurePolicy": "Ignore",
        "sideEffects": "None", "admissionReviewVersions": ["v1"]});
    let hooks = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hooks"}, "webhooks": [hook]
    });
    vec![Unit {
        name: "hooks".into(),
        objects: [secret("serving"), secret("authority"), hooks]
            .map(|body| Manifest::new(body).unwrap())
            .to_vec(),
    }]
}

fn certificate() -> Certificate {
    Certificate {
        secret: secret("serving"),
        authority: secret("authority"),
        dns_names: Certificate::service_names("server", NAMESPACE),
        trusted_by: vec![webhooks()],
        lifetimes: Lifetimes::default(),
    }
}

impl Domain for Hooks {
    fn name(&self) -> &'static str {
        "hooks"
    }

    fn resource(&self) -> Kind {
        kinds::NETWORK_ADDONS_CONFIG
    }

    fn resource_name(&self) -> Option<&'static str> {
        Some("cluster")
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::SECRET, kinds::VALIDATING_WEBHOOK_CONFIGURATION]
    }

    fn namespace(&self) -> Option<&str> {
        Some(NAMESPACE)
    }

    fn pod_selector(&self) -> &'static str {
        "hooks"
    }

    fn decide(&self, input: Input<'_>) -> Result<Decision, Refusal> {
        let decided = input.resource["spec"].clone();
        Ok(Decision {
            certificates: vec![certificate()],
            ..Decision::of(units(), decided)
        })
    }

    fn made_by_original(&self, _: &Value) -> bool {
        false
    }

    fn is_original_operator(&self, _: &Value) -> bool {
        false
    }

    fn operators(&self) -> &'static [(Kind, &'static str)] {
        &[(kinds::DEPLOYMENT, "hooks")]
    }
}

impl ObjectSet for Hooks {}

async fn wait<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_certificate_is_renewed_when_it_is_time() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let cluster = Cluster::new(control_plane.client());
    let definition = serde_json::to_string(&weft_api::addons::crd()).unwrap();
    control_plane
        .kubectl_with_input(&["apply", "--server-side", "-f", "-"], &definition)
        .await
        .unwrap();
    let resource = json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}
    })
    .to_string();
    wait("the resource is made", async || {
        control_plane
            .kubectl_with_input(&["apply", "-f", "-"], &resource)
            .await
            .ok()
    })
    .await;

    // The objects that a reconcile left 60 days ago, less a moment.
    let mut before = units();
    let age = SignedDuration::from_hours(60 * 24) - LEFT;
    let due = weft_certificates::fill(
        &certificate(),
        &BTreeMap::new(),
        &mut before,
        Timestamp::now() - age,
    )
    .unwrap();
    let key = ObjectKey::new(kinds::NETWORK_ADDONS_CONFIG, "", "cluster");
    let owner = Owner::of(&Hooks, &cluster.get(&key).await.unwrap().unwrap());
    for object in owned(before, &owner, |_| false)
        .iter()
        .flat_map(|unit| &unit.objects)
    {
        cluster
            .apply_new(object.key(), object.body(), &owner.manager)
            .await
            .unwrap();
    }
    let get = async |key: ObjectKey| cluster.get(&key).await.unwrap().unwrap();
    let (serving, authority) = (get(secret("serving")).await, get(secret("authority")).await);

    let (_leading, is_leading) = watch::channel(true);
    let stop = CancellationToken::new();
    let config = Config {
        namespace: NAMESPACE.into(),
        instance: "test".into(),
    };
    let controller = Controller::new(
        Arc::new(Hooks),
        cluster.clone(),
        Shared::default(),
        Metrics::default(),
        config,
    );
    let running = tokio::spawn(controller.run(is_leading, stop.clone()));
    wait("it is Available", async || {
        let resource = get(key.clone()).await;
        let mut conditions = resource["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        conditions
            .any(|condition| condition["type"] == "Available" && condition["status"] == "True")
            .then_some(())
    })
    .await;
    let early = get(secret("serving")).await;
    assert!(
        early == serving || Timestamp::now() >= due,
        "renewed before it was time"
    );

    let renewed = wait("it is renewed", async || {
        Some(get(secret("serving")).await).filter(|now| now["data"] != serving["data"])
    })
    .await;
    assert!(Timestamp::now() >= due);
    assert_ne!(renewed["data"]["tls.key"], serving["data"]["tls.key"]);
    assert_eq!(renewed["data"]["ca.crt"], serving["data"]["ca.crt"]);
    assert_eq!(get(secret("authority")).await["data"], authority["data"]);
    stop.cancel();
    running.await.unwrap();
}
