//! The switch from cluster-network-addons-operator: `weft plan` says beforehand what then happens,
//! object by object, and which pods restart.

use serde_json::{Value, json};
use weft_plan::{ObjectKey, kinds};

use crate::commands::{harness::*, user::*};

const CONFIGURATION: &str = "networkaddonsoperator.network.kubevirt.io/v1";
/// Workloads of the original that differ from Weft's in a template field, and one that does not.
const CHANGED: [&str; 2] = ["bridge-marker", "kubemacpool-cert-manager"];
const EQUAL: &str = "multus";

/// The objects of the original's components as it writes them, by `update`, with its labels and
/// owner.
fn originals(uid: &Value) -> Vec<Value> {
    let mut objects = render("network-addons-config.yaml");
    objects.retain(|object| {
        object["kind"] != "Namespace" && object["kind"] != "CustomResourceDefinition"
    });
    for object in &mut objects {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("ownerReferences");
        let labels = metadata
            .entry("labels")
            .or_insert(json!({}))
            .as_object_mut()
            .unwrap();
        labels.retain(|label, _| !label.starts_with("weft.network/"));
        labels.insert(
            "networkaddonsoperator.network.kubevirt.io/version".into(),
            "0.102.0".into(),
        );
        metadata.insert(
            "ownerReferences".into(),
            json!([
                {
                    "apiVersion": CONFIGURATION, "kind": "NetworkAddonsConfig", "name": "cluster",
                    "uid": uid, "controller": true, "blockOwnerDeletion": true
                }
            ]),
        );
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if CHANGED.contains(&&*name) && object["spec"]["template"].is_object() {
            let container = &mut object["spec"]["template"]["spec"]["containers"][0];
            container["image"] = "registry.example/old:1".into();
            container["env"]
                .as_array_mut()
                .into_iter()
                .for_each(|variables| variables.push(json!({"name": "OLD", "value": "1"})));
            object["spec"]["template"]["metadata"]["annotations"]["old"] = "1".into();
        }
        if object["kind"] == "ConfigMap" && object["data"].is_object() {
            object["data"]["old"] = "1".into();
        }
    }
    objects
}

#[tokio::test]
async fn plan_and_switch_change_the_same_fields_and_restart_the_same_pods() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "deployment", OPERATOR, "--wait"])
        .await;
    let resource = example("network-addons-config.yaml");
    cluster.apply(&resource).await;
    let uid = cluster.resource().await.unwrap()["metadata"]["uid"].clone();
    let originals = originals(&uid);
    for object in &originals {
        cluster
            .control_plane
            .kubectl_with_input(
                &["create", "--field-manager=manager", "-f", "-"],
                &object.to_string(),
            )
            .await
            .unwrap();
    }
    let planned = Planned::of(
        &cluster,
        &resource,
        &[],
        originals
            .iter()
            .map(|object| ObjectKey::of(object).unwrap()),
    )
    .await;

    let _operator = Operator::start_default(&cluster).await;
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "create",
            "secret",
            "generic",
            "kubemacpool-service",
        ])
        .await;
    wait_until("Weft has taken over", async || {
        match cluster.get(kinds::DAEMON_SET, NAMESPACE, EQUAL).await {
            Some(live) if !live["metadata"]["labels"]["weft.network/owner"].is_null() => Ok(()),
            live => Err(format!("{live:?}")),
        }
    })
    .await;
    cluster.wait_available().await;
    let restarted = planned.assert_happened(&cluster).await;
    assert_eq!(planned.restarts(), restarted);
    assert_eq!(restarted, CHANGED.map(str::to_owned).into());
    let again = weft_reading(&cluster, &["plan", "-f", "-"], &resource)
        .await
        .ended(0);
    assert!(
        again.stdout.contains("nothing would change"),
        "{}",
        again.stdout
    );
}
