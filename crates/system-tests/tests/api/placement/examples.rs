//! The documents under `examples/placement`, applied as users do.

use std::fs;

use serde_json::{Value, json};
use weft_api::placement::PlacementApi;

use super::{
    answers::eventually,
    cluster::{apply, control_plane, root},
};

#[tokio::test]
async fn every_example_is_applied_as_it_is() {
    let cluster = control_plane().await;
    apply(
        &cluster,
        &root()
            .join("crates/system-tests/tests/api/fixtures/network-attachment-definition.crd.yaml"),
    )
    .await;
    eventually(async || {
        cluster
            .kubectl(&["get", "network-attachment-definitions.k8s.cni.cncf.io"])
            .await
    })
    .await;
    cluster
        .kubectl(&["create", "namespace", "openstack"])
        .await
        .unwrap();
    let folder = root().join("examples/placement");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        for document in text
            .split("---\n")
            .filter(|document| document.contains("kind:"))
        {
            let document: Value = serde_saphyr::from_str(document)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let args = ["apply", "--validate=strict", "-n", "openstack", "-f", "-"];
            eventually(async || {
                cluster
                    .kubectl_with_input(&args, &document.to_string())
                    .await
            })
            .await;
            if document["kind"] != "PlacementAPI" {
                continue;
            }
            let name = document["metadata"]["name"].as_str().unwrap();
            let stored: Value = serde_json::from_str(
                &cluster
                    .kubectl(&["get", "placementapi", name, "-n", "openstack", "-o", "json"])
                    .await
                    .unwrap(),
            )
            .unwrap();
            for (field, value) in document["spec"].as_object().unwrap() {
                assert_eq!(stored["spec"][field], *value, "{}: {field}", file.display());
            }
            let typed: PlacementApi = serde_json::from_value(stored.clone()).unwrap();
            assert_eq!(json!(typed.spec), stored["spec"], "{}", file.display());
            cluster
                .kubectl(&["delete", "placementapi", name, "-n", "openstack"])
                .await
                .unwrap();
        }
    }
    // The examples of placement-operator's readme work.
    for file in [
        "placement.yaml",
        "additional-networks.yaml",
        "isolated-network.yaml",
    ] {
        assert!(files.contains(&folder.join(file)), "{file}");
    }
}
