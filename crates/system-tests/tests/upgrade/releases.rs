//! From a release to this tree and back, on a cluster that the release has left.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use kube::api::PostParams;
use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::{ControlPlane, proxy::Proxy};

use crate::upgrade::{
    fixture::{Layout, Release, objects},
    harness::*,
    objects::Objects,
    populated::*,
    stream,
};

/// The tag of the images of this tree, another one than that of each release.
const TAG: &str = "this";

/// How many renewals of a Lease count as idle.
const RENEWALS: usize = 3;

#[tokio::test]
async fn each_release_is_upgraded_without_a_loss_and_can_come_back() {
    let releases = Release::all();
    if let Some(program) = named_program() {
        let version = version(&program);
        assert!(
            releases.iter().any(|release| release.version == version),
            "WEFT_OLD_BIN is of version {version}, which is no release, so it would not run"
        );
    }
    for release in releases {
        println!("from {}", release.version);
        let mut cluster = restored(&release).await;
        let left = Objects::of(&cluster).await;
        let upgraded = upgrade(&mut cluster, &left).await;
        insta::with_settings!({prepend_module_to_snapshot => false}, {
            insta::assert_snapshot!(
                format!("pod_templates_since_{}", release.version),
                left.template_changes(&upgraded).join("\n")
            );
        });
        back(&mut cluster, &release, &upgraded).await;
    }
}

/// A cluster that this release has left, with its manifests applied as its user did.
async fn restored(release: &Release) -> Cluster {
    let control_plane = ControlPlane::builder()
        .nodes(0)
        .audit(true)
        .stored(release.stored())
        .start()
        .await
        .unwrap();
    let before = Objects::from(&control_plane.stored().await.unwrap());
    let stored = Objects::from(&release.stored());
    for (title, object) in stored.operands() {
        let kept = |object: &Value| {
            let metadata = &object["metadata"];
            let mut writers = metadata["managedFields"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            // The cluster's own controllers go on with their part.
            writers.retain(|entry| {
                entry["manager"]
                    .as_str()
                    .is_some_and(|name| name.starts_with("weft"))
            });
            (
                metadata["uid"].clone(),
                metadata["generation"].clone(),
                writers,
            )
        };
        assert_eq!(
            kept(before.get(title)),
            kept(object),
            "{title} of the fixture"
        );
    }
    let manifests = release.manifests(Layout::OneOperator);
    Cluster::install_on(control_plane, &manifests, &options()).await
}

/// Applies the manifests of this tree and starts its operator while a user continues to work. Returns
/// the objects afterwards.
async fn upgrade(cluster: &mut Cluster, left: &Objects) -> Objects {
    // The stored inventory alone knows the objects of a component that goes now.
    let gone: Vec<_> = left
        .operands()
        .map(|(title, _)| title.to_owned())
        .filter(|title| title.contains("dynamic-networks"))
        .collect();
    assert!(!gone.is_empty());
    cluster
        .patch_resource(json!({"spec": {"multusDynamicNetworks": null}}))
        .await;
    let begun = cluster.resource().await.unwrap();
    cluster
        .apply(&printed(&weft_binary(), Layout::OneOperator, TAG))
        .await;
    cluster.read_operator().await;
    let cluster = &*cluster;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let leads = AtomicBool::new(false);
    let (asked, operator) = tokio::join!(stream::run(cluster, &leads), async {
        let operator = Operator::start_via(cluster, &proxy).await;
        operator.wait_leading().await;
        leads.store(true, Ordering::Relaxed);
        operator
    });
    asked.wait(cluster).await;
    operator_is_idle(&proxy, "the upgrade", RENEWALS).await;
    let after = Objects::of(cluster).await;
    let mut replaced = left.replaced(&after);
    replaced.retain(|title| !gone.contains(title));
    assert_eq!(
        replaced,
        Vec::<String>::new(),
        "operands that were replaced"
    );
    for title in &gone {
        assert_eq!(after.get(title), &Value::Null, "{title} is not asked for");
    }
    records_are_read(cluster, left, &after, &begun).await;
    operator_is_idle(&proxy, "the upgrade", RENEWALS).await;
    operator.terminate().await;
    Objects::of(cluster).await
}

/// The ConfigMaps in which Weft records its state.
const RECORDS: [&str; 5] = [
    "configmaps openshift-cluster-network-operator/applied-default",
    "configmaps weft-system/cluster-networks-addons-operator-applied-cluster",
    "configmaps weft-system/weft-inventory-networkaddonsconfig-cluster",
    "configmaps weft-system/weft-inventory-networkconfig-default",
    "configmaps weft-system/weft-inventory-nmstate-nmstate",
];

/// The records of the release hold.
async fn records_are_read(cluster: &Cluster, left: &Objects, after: &Objects, begun: &Value) {
    let range = "configmaps cluster-network-addons/kubemacpool-mac-range-config";
    assert!(left.get(range)["data"].is_object());
    assert_eq!(
        left.get(range)["data"],
        after.get(range)["data"],
        "the drawn range"
    );
    for node in NODES {
        let title = format!("nodenetworkconfigurationenactments.nmstate.io {node}.still");
        let generation = |objects: &Objects| objects.get(&title)["metadata"]["generation"].clone();
        assert!(generation(left).is_u64(), "{title}");
        assert_eq!(
            generation(left),
            generation(after),
            "{title} is granted again"
        );
    }
    let certificate = "secrets cluster-network-addons/webhook-server-cert";
    assert_eq!(
        left.get(certificate)["data"],
        after.get(certificate)["data"],
        "a certificate that is not due"
    );
    // The status alone remembers the Job, which the cluster deletes ten minutes after its end.
    let jobs = after.jobs();
    assert!(
        jobs.is_subset(&left.jobs()),
        "the database is prepared again: {jobs:?}"
    );
    for record in RECORDS {
        let uid = |objects: &Objects| objects.get(record)["metadata"]["uid"].clone();
        assert!(uid(left).is_string(), "{record}");
        assert_eq!(uid(left), uid(after), "{record} is kept");
    }
    // The network in force refuses another one.
    let network =
        |cidr: &str| json!({"spec": {"clusterNetworks": [{"cidr": cidr, "hostSubnetLength": 8}]}});
    let patch = async |cidr: &str| {
        cluster
            .patch(kinds::NETWORK_CONFIG, "", "default", network(cidr))
            .await;
    };
    patch("10.64.0.0/16").await;
    wait_until("the change of the network is refused", async || {
        let live = cluster.get(kinds::NETWORK_CONFIG, "", "default").await;
        let status = live.unwrap()["status"].clone();
        if status["refusedChange"].is_object() {
            Ok(())
        } else {
            Err(format!("{status:#}"))
        }
    })
    .await;
    patch("10.244.0.0/16").await;
    // With the definitions of this tree, no field gets lost.
    for (kind, name) in [
        (kinds::NETWORK_CONFIG, "default"),
        (kinds::NMSTATE, "nmstate"),
    ] {
        let live = wait_resource(cluster, kind, "", name).await;
        let ready = condition(&live["status"], "Ready");
        assert_eq!(ready["status"], "True", "{kind}: {ready}");
    }
    // Status follows the new operator.
    let now = cluster.wait_available().await;
    assert!(
        now["metadata"]["generation"].as_u64() > begun["metadata"]["generation"].as_u64(),
        "{now:#}"
    );
}

/// Applies the manifests of the release over this tree, as on the way back.
async fn back(cluster: &mut Cluster, release: &Release, upgraded: &Objects) {
    cluster.apply(&release.manifests(Layout::OneOperator)).await;
    for definition in objects(&release.manifests(Layout::OneOperator)) {
        if definition["kind"] == "CustomResourceDefinition" {
            let name = definition["metadata"]["name"].as_str().unwrap();
            cluster.wait_established(name).await;
        }
    }
    readable(cluster, upgraded).await;
    if let Some(program) = old_program(release) {
        cluster.read_operator().await;
        let before = Objects::of(cluster).await;
        let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
        let options = OperatorOptions {
            proxy: Some(&proxy),
            program: Some(&program),
            ..Default::default()
        };
        let operator = Operator::start(cluster, options).await;
        operator.wait_leading().await;
        // The status is still that of this tree. An older operator that can read nothing would leave
        // it alone, so it has to carry out changes.
        let asked = stream::run(cluster, &AtomicBool::new(true)).await;
        asked.wait(cluster).await;
        operator_is_idle(&proxy, "the way back", RENEWALS).await;
        let after = Objects::of(cluster).await;
        assert_eq!(before.replaced(&after), Vec::<String>::new());
        operator.terminate().await;
    }
}

/// Every resource is there, valid and the same under the definitions of the release.
async fn readable(cluster: &Cluster, upgraded: &Objects) {
    let now = Objects::of(cluster).await;
    let mut seen = 0;
    for (title, object) in upgraded.resources() {
        let live = now.get(title);
        assert_eq!(
            object["metadata"]["uid"], live["metadata"]["uid"],
            "{title}"
        );
        assert_eq!(
            object["spec"], live["spec"],
            "{title} has lost a part of its spec"
        );
        assert_eq!(
            object["status"]["conditions"], live["status"]["conditions"],
            "{title}"
        );
        let key = weft_plan::ObjectKey::of(live).unwrap_or_else(|| panic!("{title}"));
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let api = cluster.api(key.kind, namespace);
        let read = api.get(&key.name).await.unwrap();
        let params = PostParams {
            dry_run: true,
            ..Default::default()
        };
        api.replace(&key.name, &params, &read)
            .await
            .unwrap_or_else(|error| panic!("{title} is not valid any more: {error}"));
        seen += 1;
    }
    assert!(seen >= 13, "{seen} resources of all domains");
}

/// The program of a release: that of `WEFT_OLD_BIN` if it is this release's, or that of this tree
/// if it has the same version.
fn old_program(release: &Release) -> Option<PathBuf> {
    let mut programs = named_program().into_iter().chain([weft_binary()]);
    programs.find(|program| version(program) == release.version)
}

fn named_program() -> Option<PathBuf> {
    std::env::var_os("WEFT_OLD_BIN").map(PathBuf::from)
}

/// The version of a program `weft`.
fn version(program: &Path) -> String {
    let output = Command::new(program).arg("version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().next().unwrap_or_default();
    first.trim_start_matches("weft ").to_owned()
}
