//! A unit that waits keeps the objects that it had before, in the operator and in the preview of
//! `weft plan`.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weft_plan::{
    Decision, Domain, Input, Kind, Manifest, ObjectKey, ObjectSet, Owner, Refusal, Unit, Wait,
    kinds, report::FailureClass,
};
use weft_runtime::{
    api_server::cluster::Cluster,
    inspect::preview::{self, Action, Change},
    metrics::Metrics,
    reconcile::{
        controller::{Config, Controller},
        objects::Objects,
        set::SetObjects,
    },
    store::watch::Shared,
};
use weft_testenv::ControlPlane;

use super::new_domain::{apply, definition, has, wait};

const RESOURCE: Kind = kinds::NETWORK_CONFIG;
const NAMESPACE: &str = "default";

/// NetworkConfig `default` leads to a unit with the ConfigMaps that `spec.maps` names. The unit
/// waits while `spec.waits` is true.
struct Maps;

impl Domain for Maps {
    fn name(&self) -> &'static str {
        "maps"
    }

    fn resource(&self) -> Kind {
        RESOURCE
    }

    fn resource_name(&self) -> Option<&'static str> {
        Some("default")
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::CONFIG_MAP]
    }

    fn namespace(&self) -> Option<&str> {
        Some(NAMESPACE)
    }

    fn pod_selector(&self) -> &'static str {
        "app=maps"
    }

    fn decide(&self, input: Input<'_>) -> Result<Decision, Refusal> {
        let spec = &input.resource["spec"];
        let names = spec["maps"].as_array().unwrap().iter();
        let objects = names.map(|name| {
            let metadata = json!({"namespace": NAMESPACE, "name": name});
            Manifest::new(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
                .unwrap()
        });
        let unit = Unit {
            name: "maps".to_owned(),
            objects: objects.collect(),
        };
        let mut decision = Decision::of(vec![unit], spec.clone());
        if spec["waits"] == true {
            decision.waits.push(Wait {
                unit: "maps".to_owned(),
                object: map("first"),
                class: FailureClass::Absent,
                message: "waits for the test".to_owned(),
                problems: Vec::new(),
            });
        }
        Ok(decision)
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

impl ObjectSet for Maps {}

fn map(name: &str) -> ObjectKey {
    ObjectKey::new(kinds::CONFIG_MAP, NAMESPACE, name)
}

fn resource(spec: Value) -> Value {
    json!({
        "apiVersion": RESOURCE.api_version(), "kind": RESOURCE.kind,
        "metadata": {"name": "default"}, "spec": spec,
    })
}

#[tokio::test]
async fn operator_and_plan_keep_the_surplus_of_a_unit_that_waits() {
    let control_plane = ControlPlane::builder().api_only().lend().await.unwrap();
    let cluster = Cluster::new(control_plane.client());
    apply(&control_plane, definition(RESOURCE)).await;
    let (_leading, is_leading) = watch::channel(true);
    let stop = CancellationToken::new();
    let config = Config {
        namespace: NAMESPACE.to_owned(),
        instance: "test".to_owned(),
    };
    let controller = Controller::new(
        Arc::new(Maps),
        cluster.clone(),
        Shared::default(),
        Metrics::default(),
        config,
    );
    let running = tokio::spawn(controller.run(is_leading, stop.clone()));
    let removals = async |wanted: &Value| {
        let (owner, metrics) = (Owner::of(&Maps, wanted), Metrics::default());
        let objects = Objects::new(cluster.clone(), None, Arc::new(Maps), owner, metrics);
        let objects = SetObjects::new(objects, Arc::new(Maps));
        let preview = preview::apply(&objects, wanted, NAMESPACE).await.unwrap();
        preview.removals
    };
    let key = ObjectKey::new(RESOURCE, "", "default");
    apply(
        &control_plane,
        resource(json!({"maps": ["first", "second"]})),
    )
    .await;
    wait(&cluster, &key, |live| has(live, "Available")).await;

    // All objects that are wanted are there already, so nothing of the unit changes.
    let waits = resource(json!({"maps": ["first"], "waits": true}));
    assert_eq!(removals(&waits).await, []);
    apply(&control_plane, waits).await;
    wait(&cluster, &key, |live| has(live, "Degraded")).await;
    assert!(cluster.get(&map("second")).await.unwrap().is_some());

    let goes_on = resource(json!({"maps": ["first"], "waits": false}));
    let deletion = Change {
        object: map("second"),
        action: Action::Delete,
    };
    assert_eq!(removals(&goes_on).await, [deletion]);
    apply(&control_plane, goes_on).await;
    wait(&cluster, &map("second"), Value::is_null).await;
    stop.cancel();
    running.await.unwrap();
}
