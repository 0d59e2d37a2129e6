//! A domain takes a few dozen lines: the engine applies, repairs, reports and removes its objects.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weft_plan::{
    Decision, Domain, Input, Kind, Manifest, ObjectKey, ObjectSet, Problem, Refusal, Unit, kinds,
};
use weft_runtime::{
    api_server::cluster::Cluster,
    metrics::Metrics,
    reconcile::controller::{Config, Controller},
    store::watch::Shared,
};
use weft_testenv::ControlPlane;

const PATIENCE: Duration = Duration::from_secs(60);

/// The engine serves kinds of the table in `weft_plan::kinds`. Here one of them holds greetings.
const GREETING: Kind = kinds::NETWORK_CONFIG;

/// NetworkConfig `default` leads to a ConfigMap with its text.
struct Greetings;

impl Domain for Greetings {
    fn name(&self) -> &'static str {
        "greetings"
    }

    fn resource(&self) -> Kind {
        GREETING
    }

    fn resource_name(&self) -> Option<&'static str> {
        Some("default")
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::CONFIG_MAP]
    }

    fn namespace(&self) -> Option<&str> {
        Some("default")
    }

    fn pod_selector(&self) -> &'static str {
        "app=greetings"
    }

    fn decide(&self, input: Input<'_>) -> Result<Decision, Refusal> {
        let spec = &input.resource["spec"];
        let Some(text) = spec["text"].as_str().filter(|text| !text.is_empty()) else {
            let problem = Problem {
                field: "spec.text".to_owned(),
                message: "is empty: write the greeting".to_owned(),
            };
            return Err(Refusal::new("FailedToValidate", vec![problem]));
        };
        let map = Manifest::new(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": "greeting"},
            "data": {"text": text},
        }));
        let unit = Unit {
            name: "greeting".to_owned(),
            objects: vec![map.unwrap()],
        };
        Ok(Decision::of(vec![unit], spec.clone()))
    }

    fn made_by_original(&self, _live: &Value) -> bool {
        false
    }

    fn is_original_operator(&self, _workload: &Value) -> bool {
        false
    }

    fn operators(&self) -> &'static [(Kind, &'static str)] {
        &[]
    }
}

impl ObjectSet for Greetings {}

/// Waits until the object satisfies `holds`, and returns it. `Null` stands for no object.
pub async fn wait(cluster: &Cluster, key: &ObjectKey, holds: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let live = cluster.get(key).await.unwrap().unwrap_or_default();
        if holds(&live) {
            return live;
        }
        assert!(Instant::now() < deadline, "{}: {live:#}", key.human());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Reports whether the resource has the condition for its current generation.
pub fn has(resource: &Value, kind: &str) -> bool {
    let conditions = resource["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == kind
            && condition["status"] == "True"
            && condition["observedGeneration"] == resource["metadata"]["generation"]
    })
}

/// Applies an object. The API server serves a kind a moment after it has accepted the definition.
pub async fn apply(control_plane: &ControlPlane, object: Value) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = control_plane
        .kubectl_with_input(&["apply", "-f", "-"], &object.to_string())
        .await
    {
        assert!(Instant::now() < deadline, "{error}");
    }
}

/// A definition of a kind without namespaces whose objects may have any field.
pub fn definition(kind: Kind) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.definition()},
        "spec": {
            "group": kind.group, "scope": "Cluster",
            "names": {"kind": kind.kind, "plural": kind.plural},
            "versions": [{
                "name": kind.version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
            }],
        },
    })
}

#[tokio::test]
async fn the_engine_serves_a_domain_of_a_few_dozen_lines() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let cluster = Cluster::new(control_plane.client());
    let apply = async |object: Value| apply(&control_plane, object).await;
    apply(definition(GREETING)).await;
    let (_leading, is_leading) = watch::channel(true);
    let stop = CancellationToken::new();
    let config = Config {
        namespace: "default".to_owned(),
        instance: "test".to_owned(),
    };
    let (shared, metrics) = (Shared::default(), Metrics::default());
    let controller = Controller::new(
        Arc::new(Greetings),
        cluster.clone(),
        shared,
        metrics,
        config,
    );
    let running = tokio::spawn(controller.run(is_leading, stop.clone()));

    let greeting = |text: &str| {
        json!({
            "apiVersion": GREETING.api_version(), "kind": GREETING.kind,
            "metadata": {"name": "default"}, "spec": {"text": text},
        })
    };
    let resource = ObjectKey::new(GREETING, "", "default");
    let map = ObjectKey::new(kinds::CONFIG_MAP, "default", "greeting");
    apply(greeting("hello")).await;
    wait(&cluster, &resource, |live| has(live, "Available")).await;
    wait(&cluster, &map, |live| live["data"]["text"] == "hello").await;

    // Drift.
    control_plane
        .kubectl(&["delete", "configmap", "greeting"])
        .await
        .unwrap();
    wait(&cluster, &map, |live| live["data"]["text"] == "hello").await;

    // A refusal keeps the last good configuration.
    apply(greeting("")).await;
    let refused = wait(&cluster, &resource, |live| has(live, "Degraded")).await;
    assert!(
        refused["status"]
            .to_string()
            .contains("spec.text: is empty: write the greeting"),
        "{refused:#}"
    );
    wait(&cluster, &map, |live| live["data"]["text"] == "hello").await;

    apply(greeting("good evening")).await;
    wait(&cluster, &map, |live| {
        live["data"]["text"] == "good evening"
    })
    .await;
    control_plane
        .kubectl(&["delete", GREETING.plural, "default"])
        .await
        .unwrap();
    wait(&cluster, &map, Value::is_null).await;
    stop.cancel();
    running.await.unwrap();
}
