//! The definition takes the place of that of placement-operator, and gives it back.

use std::path::{Path, PathBuf};

use serde_json::json;
use weft_testenv::ControlPlane;

use super::{
    answers::eventually,
    cases::object,
    cluster::{apply, definition, read},
};

pub fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/fixtures/placement-operator.crd.yaml")
}

#[tokio::test]
async fn the_definition_of_placement_operator_is_replaced_and_comes_back() {
    let cluster = ControlPlane::builder().api_only().lend().await.unwrap();
    let theirs = fixture();
    apply(&cluster, &theirs).await;
    let spec = json!({
        "containerImage": "quay.io/example/placement-api:v1", "databaseInstance": "openstack", "secret": "osp-secret", "networkAttachments": ["storage"],
        "override": {
            "service": {
                "internal": {
                    "endpointURL": "http://placement.example", "spec": {"type": "LoadBalancer"}
                }
            }
        },
        "resources": {"requests": {"cpu": 1}},
    });
    let text = object(&spec).to_string();
    // Established does not mean served.
    eventually(async || {
        cluster
            .kubectl_with_input(&["apply", "--server-side", "-f", "-"], &text)
            .await
    })
    .await;
    let status = json!({"status": {
        "conditions": [
            {
                "type": "Ready", "status": "True", "reason": "Ready", "message": "Setup complete",
                "lastTransitionTime": "2026-01-02T03:04:05Z"
            }
        ],
        "hash": {
            "dbsync": "n5b", "input": "n6c"
        }, "readyCount": 1, "databaseHostname": "openstack.default.svc", "observedGeneration": 1,
        "lastAppliedTopology": {
            "name": "a", "namespace": "default"
        }, "networkAttachments": {"default/storage": ["172.18.0.52"]},
    }});
    let patch = [
        "patch",
        "placementapi",
        "placement",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status.to_string(),
    ];
    cluster.kubectl(&patch).await.unwrap();
    let before = read(&cluster, "placement").await;

    apply(&cluster, &definition()).await;
    let ours = r#"{"spec":{"auth":{"strategy":"keystone"}}}"#;
    eventually(async || {
        cluster
            .kubectl(&[
                "patch",
                "placementapi",
                "placement",
                "--type=merge",
                "-p",
                ours,
            ])
            .await
            .map_err(|error| error.to_string())?;
        match read(&cluster, "placement").await["spec"]["auth"]["strategy"].as_str() {
            Some("keystone") => Ok(()),
            other => Err(format!("{other:?}: their definition is still served")),
        }
    })
    .await;
    let during = read(&cluster, "placement").await;
    assert_eq!(during["status"], before["status"]);

    // Theirs over ours: what they do not know is gone, everything else is as it was.
    apply(&cluster, &theirs).await;
    eventually(async || match &read(&cluster, "placement").await["spec"] {
        spec if spec["auth"].get("strategy").is_none() => Ok(()),
        spec => Err(format!("{spec}")),
    })
    .await;
    let after = read(&cluster, "placement").await;
    let mut spec = after["spec"].clone();
    spec.as_object_mut().unwrap().remove("auth");
    assert_eq!(
        (&spec, &after["status"]),
        (&before["spec"], &before["status"])
    );
}
