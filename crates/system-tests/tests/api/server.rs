//! The definition and the hints in a real API server.

use std::path::{Path, PathBuf};

use super::addons_cases::{ACCEPTED, REFUSED_BY_RULE, REFUSED_BY_SCHEMA, Refused, object};
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy,
};
use kube::core::{ApiResource, GroupVersionKind, Status};
use serde_json::{Value, json};
use weft_api::addons::{
    self, ComponentStatus, Container, NetworkAddonsConfig, NetworkAddonsConfigStatus,
};
use weft_api::{Condition, DriftedField, DriftedObject};
use weft_testenv::{ControlPlane, Lent, wait::wait_until};

const VERSIONS: [&str; 2] = ["v1", "v1alpha1"];

async fn control_plane() -> Lent {
    ControlPlane::builder().api_only().lend().await.unwrap()
}

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(path)
}

/// Asks until there is an answer. The API server follows its own watches: a definition, a policy or
/// the discovery of a resource comes into force a moment after it was made.
async fn eventually<T, E: std::fmt::Display>(ask: impl AsyncFn() -> Result<T, E>) -> T {
    wait_until("there is an answer", async || {
        ask().await.map_err(|error| error.to_string())
    })
    .await
}

/// Applies files with kubectl, as users do, and waits until the definition is served.
async fn apply(cluster: &ControlPlane, files: &Path) {
    cluster
        .kubectl(&["apply", "-f", files.to_str().unwrap()])
        .await
        .unwrap();
    // kubectl gives up on a definition that has no conditions yet.
    eventually(async || {
        cluster
            .kubectl(&[
                "wait",
                "--for=condition=Established",
                "--timeout=60s",
                "crd",
                "--all",
            ])
            .await
    })
    .await;
    // Established does not mean served.
    eventually(async || {
        objects(cluster, "v1alpha1")
            .list(&ListParams::default())
            .await
    })
    .await;
}

async fn fixture(cluster: &ControlPlane, name: &str) {
    apply(
        cluster,
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/api/fixtures")
            .join(name),
    )
    .await;
}

fn objects(cluster: &ControlPlane, version: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(addons::GROUP, version, addons::KIND);
    Api::all_with(
        cluster.client(),
        &ApiResource::from_gvk_with_plural(&kind, addons::PLURAL),
    )
}

fn dynamic(object: Value) -> DynamicObject {
    serde_json::from_value(object).unwrap()
}

fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

/// Why the API server refused something.
fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Box<Status> {
    match result.unwrap_err() {
        kube::Error::Api(status) => status,
        error => panic!("{error}"),
    }
}

/// The fields that an error of the API server is about, with their messages.
fn causes(status: &Status) -> Vec<(String, String)> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .map(|cause| (cause.field.clone(), cause.message.clone()))
        .collect()
}

fn says(causes: &[(String, String)], case: &Refused) -> bool {
    causes
        .iter()
        .any(|(field, message)| field == case.field && message.contains(case.message))
}

#[tokio::test]
async fn the_server_agrees_with_the_table() {
    let cluster = control_plane().await;
    apply(&cluster, &deploy("crds")).await;
    for version in VERSIONS {
        let api = objects(&cluster, version);
        for case in ACCEPTED {
            let result = api
                .create(&dry_run(), &dynamic(object(version, case.spec)))
                .await;
            assert!(result.is_ok(), "{version}, {}: {result:?}", case.name);
        }
        for case in REFUSED_BY_RULE.iter().chain(REFUSED_BY_SCHEMA) {
            let causes = causes(&refusal(
                api.create(&dry_run(), &dynamic(object(version, case.spec)))
                    .await,
            ));
            assert!(says(&causes, case), "{version}, {}: {causes:#?}", case.spec);
        }
        let mut other = object(version, "{}");
        other["metadata"]["name"] = json!("other");
        let causes = causes(&refusal(api.create(&dry_run(), &dynamic(other)).await));
        assert_eq!(causes.len(), 1, "{causes:#?}");
        assert!(
            causes[0].1.contains("set metadata.name to cluster"),
            "{causes:#?}"
        );
    }
}

#[tokio::test]
async fn people_see_columns_texts_and_hints() {
    let cluster = control_plane().await;
    apply(&cluster, &deploy("crds")).await;
    apply(&cluster, &deploy("admission")).await;

    let explained = eventually(async || {
        cluster
            .kubectl(&["explain", "nac.spec.kubeMacPool.rangeStart"])
            .await
    })
    .await;
    assert!(
        explained.contains("The first MAC address of the range"),
        "{explained}"
    );

    let typed: Api<NetworkAddonsConfig> = Api::all(cluster.client());
    typed
        .create(
            &PostParams::default(),
            &NetworkAddonsConfig::new("cluster", Default::default()),
        )
        .await
        .unwrap();
    let status = status();
    let patch = json!({"status": status});
    let stored = typed
        .patch_status("cluster", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    assert_eq!(
        stored.status.as_ref(),
        Some(&status),
        "the schema knows all of the status"
    );
    let table = cluster.kubectl(&["get", "nac"]).await.unwrap();
    let words: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        words[0],
        [
            "NAME",
            "AVAILABLE",
            "PROGRESSING",
            "DEGRADED",
            "REASON",
            "VERSION",
            "AGE"
        ]
    );
    assert_eq!(
        words[1][..6],
        ["cluster", "True", "False", "False", "Reason", "1.2.3"]
    );
    let wide = cluster
        .kubectl(&["get", "nac", "-o", "wide"])
        .await
        .unwrap();
    assert!(
        wide.contains("MESSAGE") && wide.contains("a message"),
        "{wide}"
    );

    let hints = async |spec: &str| {
        // --warnings-as-errors puts the warnings into the error.
        let args = [
            "apply",
            "--dry-run=server",
            "--warnings-as-errors",
            "-f",
            "-",
        ];
        let result = cluster
            .kubectl_with_input(&args, &object("v1alpha1", spec).to_string())
            .await;
        result.map_or_else(|error| error.to_string(), |_| String::new())
    };
    let capitals = "{kubeSecondaryDNS: {DOMAIN: example.com, NAME_SERVER_IP: 192.0.2.53}}";
    eventually(async || {
        let hints = hints(capitals).await;
        if hints.contains("please write domain") {
            Ok(())
        } else {
            Err(format!("no hint at DOMAIN: {hints}"))
        }
    })
    .await;
    let capitals = hints(capitals).await;
    assert!(capitals.contains("please write nameServerIP"), "{capitals}");
    let quiet =
        hints("{kubeSecondaryDNS: {domain: example.com, nameServerIP: 192.0.2.53}, multus: {}}")
            .await;
    assert!(!quiet.contains("hints"), "{quiet}");

    // An unchanged specification causes no refusal.
    cluster
        .kubectl_with_input(
            &["replace", "-f", "-"],
            &object("v1", "{kubeSecondaryDNS: {DOMAIN: example.com}}").to_string(),
        )
        .await
        .unwrap();
    cluster
        .kubectl(&["label", "--warnings-as-errors", "nac", "cluster", "a=b"])
        .await
        .unwrap();
}

fn status() -> NetworkAddonsConfigStatus {
    let condition = |type_: &str, status: &str| Condition {
        type_: type_.into(),
        status: status.into(),
        reason: Some("Reason".into()),
        message: Some("a message".into()),
        last_transition_time: Some(serde_json::from_value(json!("2026-01-02T03:04:05Z")).unwrap()),
        last_heartbeat_time: None,
        observed_generation: Some(1),
    };
    let container = |name: &str| Container {
        parent_kind: "DaemonSet".into(),
        parent_name: "multus".into(),
        name: name.into(),
        image: "example.com/multus:v4".into(),
    };
    NetworkAddonsConfigStatus {
        observed_generation: Some(1),
        operator_version: Some("1.2.3".into()),
        target_version: Some("1.2.3".into()),
        observed_version: Some("1.2.3".into()),
        conditions: vec![
            condition("Available", "True"),
            condition("Progressing", "False"),
            condition("Degraded", "False"),
            condition("Ready", "True"),
        ],
        effective_configuration: Some(json!({
            "multus": {}, "kubeMacPool": {"rangeStart": "02:00:00:00:00:00"},
            "unknown": {"to": ["the schema"]}
        })),
        components: vec![ComponentStatus {
            name: "multus".into(),
            state: "Available".into(),
            message: Some("all is well".into()),
        }],
        drift: vec![DriftedObject {
            kind: "DaemonSet".into(),
            namespace: Some("cluster-network-addons".into()),
            name: "multus".into(),
            state: "Changed".into(),
            fields: vec![DriftedField {
                path: "spec.x".into(),
                desired: Some("1".into()),
                actual: Some("2".into()),
                added_by: Some("kubectl-edit".into()),
            }],
        }],
        containers: vec![container("install-multus"), container("kube-multus")],
    }
}

#[tokio::test]
async fn installs_over_the_definition_of_cnao_0_23() {
    let cluster = control_plane().await;
    fixture(&cluster, "cnao-0.23.crd.yaml").await;
    let spec = "{multus: {}, linuxBridge: {}, kubeMacPool: {}, nmstate: {}, ovs: {}, imagePullPolicy: Always, sriov: {}}";
    let old = objects(&cluster, "v1alpha1");
    old.create(&PostParams::default(), &dynamic(object("v1alpha1", spec)))
        .await
        .unwrap();
    let conditions = json!({
        "status": {
            "conditions": [{"type": "Available", "status": "True", "lastTransitionTime": null}]
        }
    });
    old.patch_status(
        "cluster",
        &PatchParams::default(),
        &Patch::Merge(conditions),
    )
    .await
    .unwrap();

    apply(&cluster, &deploy("crds")).await;

    let typed: Api<NetworkAddonsConfig> = Api::all(cluster.client());
    let stored = eventually(async || typed.get("cluster").await).await;
    assert_eq!(stored.spec.image_pull_policy.as_deref(), Some("Always"));
    assert!(stored.spec.nmstate.is_some() && stored.spec.ovs.is_some());
    assert_eq!(stored.status.unwrap().conditions[0].type_, "Available");
    let edit = Patch::Merge(json!({
        "spec": {
            "kubeMacPool": {"rangeStart": "02:00:00:00:00:00", "rangeEnd": "02:00:00:00:00:ff"}
        }
    }));
    old.patch("cluster", &PatchParams::default(), &edit)
        .await
        .unwrap();
    assert_eq!(stored_versions(&cluster).await, "[\"v1alpha1\",\"v1\"]");
}

#[tokio::test]
async fn installs_over_the_definition_of_cnao_0_102() {
    let cluster = control_plane().await;
    fixture(&cluster, "cnao-0.102.crd.yaml").await;
    // Objects that CNAO accepted, some of them by mistake.
    let spec = "
kubeMacPool: {rangeStart: '0a:00:00:00:00:00', rangeEnd: '02:00:00:00:00:ff'}
selfSignConfiguration: {caRotateInterval: 48h, caOverlapInterval: -1h, certRotateInterval: 24h, certOverlapInterval: 12h}
kubeSecondaryDNS: {domain: Example.COM., nameServerIP: somewhere}
tlsSecurityProfile: {}
";
    let api = objects(&cluster, "v1");
    api.create(&PostParams::default(), &dynamic(object("v1", spec)))
        .await
        .unwrap();
    let mut other = object("v1", "{}");
    other["metadata"]["name"] = json!("other");
    other["metadata"]["finalizers"] = json!(["example.com/finalizer"]);
    api.create(&PostParams::default(), &dynamic(other))
        .await
        .unwrap();
    let containers = json!({
        "status": {
            "containers": [
                {
                    "parentKind": "DaemonSet", "parentName": "multus", "name": "kube-multus",
                    "image": "i"
                }
            ]
        }
    });
    api.patch_status(
        "cluster",
        &PatchParams::default(),
        &Patch::Merge(containers),
    )
    .await
    .unwrap();

    apply(&cluster, &deploy("crds")).await;
    eventually(async || {
        let unknown = Patch::Merge(json!({"spec": {"imagePullPolicy": "never"}}));
        match api
            .patch(
                "cluster",
                &PatchParams {
                    dry_run: true,
                    ..PatchParams::default()
                },
                &unknown,
            )
            .await
        {
            Ok(_) => Err("the new schema does not come into force"),
            Err(_) => Ok(()),
        }
    })
    .await;

    // An update elsewhere is not held up by what was taken before.
    let edit = json!({
        "metadata": {"labels": {"a": "b"}}, "spec": {"multus": {}, "imagePullPolicy": "Never"}
    });
    api.patch("cluster", &PatchParams::default(), &Patch::Merge(edit))
        .await
        .unwrap();
    let typed: Api<NetworkAddonsConfig> = Api::all(cluster.client());
    let stored = eventually(async || typed.get("cluster").await).await;
    assert_eq!(
        stored.spec.kube_mac_pool.unwrap().range_start.as_deref(),
        Some("0a:00:00:00:00:00")
    );
    typed
        .patch_status(
            "cluster",
            &PatchParams::default(),
            &Patch::Merge(json!({"status": status()})),
        )
        .await
        .unwrap();
    // But an edit of the thing itself is checked.
    let worse = Patch::Merge(json!({"spec": {"kubeMacPool": {"rangeEnd": "02:00:00:00:00:fe"}}}));
    let causes = causes(&refusal(
        api.patch("cluster", &PatchParams::default(), &worse).await,
    ));
    assert!(
        causes.iter().any(|(field, _)| field == "spec.kubeMacPool"),
        "{causes:#?}"
    );

    // An object of another name can be edited and can go, finalizers and all.
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"ovs": {}}}));
    api.patch("other", &PatchParams::default(), &label)
        .await
        .unwrap();
    let foreground = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    api.delete("other", &foreground).await.unwrap();
    api.patch(
        "other",
        &PatchParams::default(),
        &Patch::Merge(json!({"metadata": {"finalizers": null}})),
    )
    .await
    .unwrap();
    assert!(api.get_opt("other").await.unwrap().is_none());
}

async fn stored_versions(cluster: &ControlPlane) -> String {
    let name = format!("{}.{}", addons::PLURAL, addons::GROUP);
    cluster
        .kubectl(&[
            "get",
            "crd",
            &name,
            "-o",
            "jsonpath={.status.storedVersions}",
        ])
        .await
        .unwrap()
}
