//! The output of `kubectl get` is a file like any other.

use crate::commands::{harness::*, user::*};

/// One resource of each API, and the kinds that the agents of nodes work with.
const FILES: [&str; 6] = [
    "network-addons-config.yaml",
    "network-config-flannel.yaml",
    "node-network/nmstate.yaml",
    "node-network/linux-bridge.yaml",
    "node-network/early/state-desired.yaml",
    "placement/standalone.yaml",
];

#[tokio::test]
async fn objects_are_taken_as_kubectl_prints_them_with_all_their_fields() {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    let definitions = weft(&cluster, &["crds"]).await.ended(0).stdout;
    cluster.apply(&definitions).await;
    cluster.control_plane.wait_served().await;
    cluster.kubectl(&["create", "namespace", "openstack"]).await;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for file in FILES {
        cluster
            .kubectl(&["apply", "-f", folder.join(file).to_str().unwrap()])
            .await;
    }
    let kinds = "nac,networkconfigs,nmstates,nncp,nns,placementapis";
    let all = cluster
        .kubectl(&["get", kinds, "-A", "-o", "yaml", "--show-managed-fields"])
        .await;
    assert!(
        all.contains("kind: List")
            && all.contains("managedFields:")
            && all.contains("resourceVersion:"),
        "{all}"
    );

    let checked = weft_reading(&cluster, &["validate", "-f", "-", "-o", "json"], &all)
        .await
        .ended(0)
        .json();
    let valid = |part: &str| {
        checked[part]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["valid"] == true)
            .count()
    };
    assert_eq!(
        valid("resources") + valid("others"),
        FILES.len(),
        "{checked:#}"
    );

    // Nothing is different from what is there, so there is nothing to be changed in the resources
    // themselves.
    let one = cluster
        .kubectl(&[
            "get",
            "nac",
            "cluster",
            "-o",
            "yaml",
            "--show-managed-fields",
        ])
        .await;
    let planned = weft_reading(&cluster, &["plan", "-f", "-", "-o", "json"], &one)
        .await
        .json();
    assert_eq!(planned["resources"][0]["effect"], "none", "{planned:#}");

    // The report about a mistake in an item has the item's line.
    let line = all
        .lines()
        .position(|line| line.trim() == "type: linux-bridge")
        .unwrap();
    let wrong = all.replacen("type: linux-bridge", "type: linux-brigde", 1);
    let told = weft_reading(&cluster, &["validate", "-f", "-"], &wrong)
        .await
        .ended(1)
        .stdout;
    assert!(
        told.starts_with(&format!("stdin:{}:", line + 1)) && told.contains("linux-brigde"),
        "{told}"
    );
}
