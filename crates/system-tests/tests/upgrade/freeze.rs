//! Keeps a cluster of this version as text. With `WEFT_FREEZE`, a folder for that, the result stays:
//! it is the fixture of a release (`make freeze`).

use std::path::PathBuf;

use serde_json::Value;
use weft_testenv::{ControlPlane, StoredKind};

use crate::upgrade::{
    fixture::{Layout, Release, title},
    harness::*,
    populated::*,
};

#[tokio::test]
async fn a_cluster_of_this_version_can_be_kept_as_text() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("WEFT_FREEZE")
        .map_or_else(|| temporary.path().join("this"), PathBuf::from);
    let release = Release::at(&folder);
    for layout in Layout::ALL {
        let printed = printed(&weft_binary(), layout, env!("CARGO_PKG_VERSION"));
        release.write_manifests(layout, &printed);
    }
    let control_plane = ControlPlane::builder()
        .nodes(NODES.len())
        .audit(true)
        .start()
        .await
        .unwrap();
    let empty = control_plane.stored().await.unwrap();
    let manifests = release.manifests(Layout::OneOperator);
    let cluster = Cluster::install_on(control_plane, &manifests, &options()).await;
    let operator = Operator::start_default(&cluster).await;
    populate(&cluster).await;
    operator.terminate().await;
    release.write_state(users(cluster.control_plane.stored().await.unwrap(), &empty));
    let secrets = release.stored();
    let account = secrets
        .iter()
        .flat_map(|kind| &kind.objects)
        .find(|object| object["metadata"]["name"] == "test-osp-secret");
    assert!(account.is_some(), "what was written can be read");
}

/// Without the objects that a cluster has by itself.
fn users(mut kinds: Vec<StoredKind>, empty: &[StoredKind]) -> Vec<StoredKind> {
    let there: Vec<_> = empty
        .iter()
        .flat_map(|kind| kind.objects.iter().map(|object| title(kind, object)))
        .collect();
    for kind in &mut kinds {
        let of_kind = StoredKind {
            objects: Vec::new(),
            ..kind.clone()
        };
        kind.objects.retain(|object| {
            let is_there = there.contains(&title(&of_kind, object));
            object["kind"] == "Node" || !is_there && !is_of_cluster(object)
        });
    }
    kinds
}

/// Reports whether the cluster's own programs make this object in each namespace or for themselves.
fn is_of_cluster(object: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = text(&object["metadata"]["namespace"]);
    match (&*text(&object["kind"]), &*text(&object["metadata"]["name"])) {
        ("ConfigMap", "kube-root-ca.crt") | ("ServiceAccount", "default") => true,
        ("APIService" | "ClusterTrustBundle", _) => true,
        ("Lease", _) => namespace.starts_with("kube-"),
        _ => false,
    }
}
