//! A defect in a domain becomes a condition of its resource, not the end of the operator.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weft_plan::{
    Decision, Domain, Input, Kind, Manifest, ObjectKey, ObjectSet, Refusal, Unit, kinds,
};
use weft_runtime::{
    api_server::cluster::Cluster,
    metrics::Metrics,
    reconcile::controller::{Config, Controller},
    store::watch::Shared,
};
use weft_testenv::ControlPlane;

const PATIENCE: Duration = Duration::from_secs(60);

/// A domain with a defect: it panics at `spec.ovs`. It writes the rest of the specification into a
/// ConfigMap.
struct Fragile;

impl Domain for Fragile {
    fn name(&self) -> &'static str {
        "fragile"
    }

    fn resource(&self) -> Kind {
        kinds::NETWORK_ADDONS_CONFIG
    }

    fn resource_name(&self) -> Option<&'static str> {
        None
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::CONFIG_MAP]
    }

    fn namespace(&self) -> Option<&str> {
        Some("default")
    }

    fn pod_selector(&self) -> &'static str {
        "fragile"
    }

    fn decide(&self, input: Input<'_>) -> Result<Decision, Refusal> {
        let (spec, name) = (&input.resource["spec"], &input.resource["metadata"]["name"]);
        assert!(spec["ovs"].is_null(), "the bottom has fallen out");
        let policy = spec["imagePullPolicy"].clone();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": format!("made-for-{}", name.as_str().unwrap()), "namespace": "default"
        },
            "data": {"policy": policy}});
        let unit = Unit {
            name: "map".into(),
            objects: vec![Manifest::new(map).unwrap()],
        };
        Ok(Decision::of(vec![unit], spec.clone()))
    }

    fn made_by_original(&self, _: &Value) -> bool {
        false
    }

    fn is_original_operator(&self, _: &Value) -> bool {
        false
    }

    fn operators(&self) -> &'static [(Kind, &'static str)] {
        &[(kinds::DEPLOYMENT, "fragile")]
    }
}

impl ObjectSet for Fragile {}

async fn wait_condition(cluster: &Cluster, name: &str, kind: &str, reason: &str) -> Value {
    let key = ObjectKey::new(kinds::NETWORK_ADDONS_CONFIG, "", name);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let resource = cluster.get(&key).await.unwrap().unwrap();
        let condition = resource["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == kind);
        if let Some(condition) = condition
            && condition["status"] == "True"
            && condition["reason"].as_str().unwrap_or_default() == reason
            && condition["observedGeneration"] == resource["metadata"]["generation"]
        {
            return condition.clone();
        }
        assert!(
            Instant::now() < deadline,
            "{name} is not {kind}: {:#}",
            resource["status"]
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn without_rules(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove("x-kubernetes-validations");
            map.values_mut().for_each(without_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(without_rules),
        _ => {}
    }
}

#[tokio::test]
async fn a_panic_in_a_pass_becomes_a_condition() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let cluster = Cluster::new(control_plane.client());
    // Without the rule that there is one resource and its name is `cluster`: this domain has two.
    let mut definition = serde_json::to_value(weft_api::addons::crd()).unwrap();
    without_rules(&mut definition);
    control_plane
        .kubectl_with_input(
            &["apply", "--server-side", "-f", "-"],
            &definition.to_string(),
        )
        .await
        .unwrap();

    let (_leading, is_leading) = watch::channel(true);
    let (metrics, shared, stop) = (
        Metrics::default(),
        Shared::default(),
        CancellationToken::new(),
    );
    let config = Config {
        namespace: "default".into(),
        instance: "test".into(),
    };
    let controller = Controller::new(
        Arc::new(Fragile),
        cluster.clone(),
        shared,
        metrics.clone(),
        config,
    );
    let running = tokio::spawn(controller.run(is_leading, stop.clone()));

    let resource = |name: &str, spec: Value| {
        json!({
            "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
            "kind": "NetworkAddonsConfig", "metadata": {"name": name}, "spec": spec
        })
        .to_string()
    };
    let apply = async |name: &str, spec: Value| {
        let deadline = Instant::now() + PATIENCE;
        // Served a moment after it is established.
        while let Err(error) = control_plane
            .kubectl_with_input(&["apply", "-f", "-"], &resource(name, spec.clone()))
            .await
        {
            assert!(Instant::now() < deadline, "{error}");
        }
    };
    apply("broken", json!({"ovs": {}})).await;
    let condition = wait_condition(&cluster, "broken", "Degraded", "InternalError").await;
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains("a defect of Weft, please report it")
            && message.contains("the bottom has fallen out"),
        "{message}"
    );
    // The other resource, and later this one, are served as if nothing had been.
    apply("whole", json!({"imagePullPolicy": "Always"})).await;
    wait_condition(&cluster, "whole", "Available", "").await;
    apply("broken", json!({"imagePullPolicy": "Never"})).await;
    wait_condition(&cluster, "broken", "Available", "").await;
    for (name, policy) in [("whole", "Always"), ("broken", "Never")] {
        let map = cluster
            .get(&ObjectKey::new(
                kinds::CONFIG_MAP,
                "default",
                &format!("made-for-{name}"),
            ))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(map["data"]["policy"], policy);
    }
    assert!(
        metrics
            .text()
            .lines()
            .any(|line| line.starts_with("weft_passes_total") && line.contains("panic")),
        "{}",
        metrics.text()
    );
    assert!(!running.is_finished());
    stop.cancel();
    running.await.unwrap();
}
