//! The switch from cluster-network-addons-operator: `weft plan` says beforehand what then happens, object by object, and which pods restart.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use weft_plan::{Kind, kinds};

use crate::{harness::*, user::*};

const CONFIGURATION: &str = "networkaddonsoperator.network.kubevirt.io/v1";
/// Workloads of the original that differ from Weft's in a template field, and one that does not.
const CHANGED: [&str; 2] = ["bridge-marker", "kubemacpool-cert-manager"];
const EQUAL: &str = "multus";

/// The objects of the original's components as it writes them, by `update`, with its labels and owner.
fn originals(uid: &Value) -> Vec<Value> {
    let mut objects = render("network-addons-config.yaml");
    objects.retain(|object| object["kind"] != "Namespace" && object["kind"] != "CustomResourceDefinition");
    for object in &mut objects {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("ownerReferences");
        let labels = metadata.entry("labels").or_insert(json!({})).as_object_mut().unwrap();
        labels.retain(|label, _| !label.starts_with("weft.network/"));
        labels.insert("networkaddonsoperator.network.kubevirt.io/version".into(), "0.102.0".into());
        metadata.insert(
            "ownerReferences".into(),
            json!([{"apiVersion": CONFIGURATION, "kind": "NetworkAddonsConfig", "name": "cluster", "uid": uid, "controller": true, "blockOwnerDeletion": true}]),
        );
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if CHANGED.contains(&&*name) && object["spec"]["template"].is_object() {
            let container = &mut object["spec"]["template"]["spec"]["containers"][0];
            container["image"] = "registry.example/old:1".into();
            container["env"].as_array_mut().into_iter().for_each(|variables| variables.push(json!({"name": "OLD", "value": "1"})));
            object["spec"]["template"]["metadata"]["annotations"]["old"] = "1".into();
        }
        if object["kind"] == "ConfigMap" && object["data"].is_object() {
            object["data"]["old"] = "1".into();
        }
    }
    objects
}

/// The fields of an object that users see change, by path. Lists count as one value, but for those that [`plan`] names by their elements.
fn fields(object: &Value) -> BTreeMap<String, String> {
    fn walk(path: &str, value: &Value, found: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                for (key, value) in map {
                    let at = if key.contains(['.', '/']) { format!("{path}[{key}]") } else { format!("{path}.{key}") };
                    walk(at.trim_start_matches('.'), value, found);
                }
            }
            Value::Array(items)
                if items.iter().all(|item| item["name"].is_string()) && !items.is_empty() && path != "metadata.ownerReferences" =>
            {
                for item in items {
                    walk(&format!("{path}[name={}]", item["name"].as_str().unwrap()), item, found);
                }
            }
            value => drop(found.insert(path.to_owned(), value.to_string())),
        }
    }
    let mut found = BTreeMap::new();
    for (field, value) in object.as_object().unwrap() {
        match &**field {
            "status" => {}
            "metadata" => {
                for field in ["labels", "annotations", "ownerReferences", "finalizers"] {
                    walk(&format!("metadata.{field}"), &value[field], &mut found);
                }
            }
            _ => walk(field, value, &mut found),
        }
    }
    // Controllers count revisions.
    found.retain(|path, value| {
        value != "null"
            && !path.starts_with("metadata.annotations[deployment.kubernetes.io")
            && !path.starts_with("metadata.annotations[deprecated.")
    });
    found
}

/// The paths at which two states of an object differ.
fn changed(before: &Value, after: &Value) -> BTreeSet<String> {
    let (before, after) = (fields(before), fields(after));
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    paths.into_iter().filter(|path| before.get(*path) != after.get(*path)).cloned().collect()
}

async fn state(cluster: &Cluster, objects: &[(Kind, String, String)]) -> Vec<Option<Value>> {
    let mut state = Vec::new();
    for (kind, namespace, name) in objects {
        state.push(cluster.get(*kind, namespace, name).await);
    }
    state
}

#[tokio::test]
async fn plan_and_switch_change_the_same_fields_and_restart_the_same_pods() {
    let cluster = Cluster::start(ClusterOptions { nodes: 1, ..Default::default() }).await;
    cluster.kubectl(&["-n", NAMESPACE, "delete", "deployment", OPERATOR, "--wait"]).await;
    cluster.apply(&example("network-addons-config.yaml")).await;
    let uid = cluster.resource().await.unwrap()["metadata"]["uid"].clone();
    let originals = originals(&uid);
    for object in &originals {
        cluster.control_plane.kubectl_with_input(&["create", "--field-manager=manager", "-f", "-"], &object.to_string()).await.unwrap();
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let objects: Vec<_> = originals
        .iter()
        .map(|object| {
            let kind = Kind::find(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap()).unwrap();
            (kind, text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]))
        })
        .collect();

    let before = state(&cluster, &objects).await;
    let plan = weft_reading(&cluster, &["plan", "-f", "-", "-o", "json"], &example("network-addons-config.yaml")).await.ended(1).json();
    let plan = &plan["resources"][0];
    let planned = |(kind, namespace, name): &(Kind, String, String)| -> BTreeSet<String> {
        let mut all = plan["components"].as_array().unwrap().iter().flat_map(|component| component["objects"].as_array().unwrap());
        let is_it =
            |object: &&Value| object["kind"] == kind.kind && object["name"] == name.as_str() && text(&object["namespace"]) == *namespace;
        let found = all.find(is_it).unwrap_or_else(|| panic!("{kind} {name} is not in the plan"));
        let differences = found["differences"].as_array().into_iter().flatten();
        differences.filter(|difference| difference["change"] != "own").map(|difference| text(&difference["path"])).collect()
    };

    let _operator = Operator::start_default(&cluster).await;
    cluster.kubectl(&["-n", NAMESPACE, "create", "secret", "generic", "kubemacpool-service"]).await;
    wait_until("Weft has taken over", async || match cluster.get(kinds::DAEMON_SET, NAMESPACE, EQUAL).await {
        Some(live) if !live["metadata"]["labels"]["weft.network/owner"].is_null() => Ok(()),
        live => Err(format!("{live:?}")),
    })
    .await;
    cluster.wait_available().await;
    let after = state(&cluster, &objects).await;

    let mut restarted = BTreeSet::new();
    for ((object, before), after) in objects.iter().zip(&before).zip(&after) {
        let (before, after) = (before.as_ref().unwrap(), after.as_ref().unwrap_or_else(|| panic!("{object:?} is gone")));
        let (planned, happened) = (planned(object), changed(before, after));
        // A difference names a field or all that is below it.
        let is_below = |path: &String, above: &String| {
            path == above || path.strip_prefix(above.as_str()).is_some_and(|rest| rest.starts_with(['.', '[']))
        };
        let unannounced: Vec<_> = happened.iter().filter(|path| !planned.iter().any(|above| is_below(path, above))).collect();
        let unfulfilled: Vec<_> =
            planned.iter().filter(|above| !happened.iter().any(|path| is_below(path, above) || is_below(above, path))).collect();
        assert!(
            unannounced.is_empty() && unfulfilled.is_empty(),
            "{object:?}: not in the plan: {unannounced:?}; only in the plan: {unfulfilled:?}"
        );
        if before["spec"]["template"] != after["spec"]["template"] {
            restarted.insert(object.2.clone());
        }
    }
    let told: BTreeSet<String> = plan["restarts"].as_array().unwrap().iter().map(|restart| text(&restart["name"])).collect();
    assert_eq!(told, restarted);
    assert_eq!(restarted, CHANGED.map(str::to_owned).into());
    let again = weft_reading(&cluster, &["plan", "-f", "-"], &example("network-addons-config.yaml")).await.ended(0);
    assert!(again.stdout.contains("nothing would change"), "{}", again.stdout);
}
