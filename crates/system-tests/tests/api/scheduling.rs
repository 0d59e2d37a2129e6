//! Where pods may run: what the definitions accept and refuse on a real API server, and whether that
//! is what Kubernetes takes in a pod.

#[path = "../../../api/src/tests/scheduling/cases.rs"]
#[allow(dead_code, reason = "each user of the table uses a part")]
mod cases;

use std::path::Path;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use weft_testenv::ControlPlane;

use super::answers::{create, eventually};
use cases::{By, addons, cases};

/// An NMState with these fields, each under both of its names.
fn installation(scheduling: &Value) -> Value {
    let mut spec = scheduling.clone();
    for (name, infra) in [
        ("nodeSelector", "infraNodeSelector"),
        ("affinity", "infraAffinity"),
        ("tolerations", "infraTolerations"),
    ] {
        if !scheduling[name].is_null() {
            spec[infra] = scheduling[name].clone();
        }
    }
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NMState", "metadata": {"name": "nmstate"},
        "spec": spec
    })
}

#[tokio::test]
async fn the_server_agrees_with_the_table_about_each_api() {
    let cluster = ControlPlane::builder().api_only().lend().await.unwrap();
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    cluster
        .kubectl(&["apply", "-f", definitions.to_str().unwrap()])
        .await
        .unwrap();
    for (object, path) in [
        (
            addons as fn(&Value) -> Value,
            &["spec.placementConfiguration.workloads."][..],
        ),
        (installation, &["spec.", "spec.infra"]),
    ] {
        eventually(async || create(&cluster.client(), &object(&json!({}))).await).await;
        for case in cases().accepted {
            let result = create(&cluster.client(), &object(&case.spec)).await;
            assert!(result.is_ok(), "{}: {result:?}", case.name);
        }
        for case in cases().refused.iter().filter(|case| case.by != By::Check) {
            let spec = object(&case.spec());
            let error = create(&cluster.client(), &spec)
                .await
                .expect_err("it is refused");
            for path in path {
                // The keys of maps and the empty list of a required field are named by what holds
                // them.
                let field = if *path == "spec.infra" {
                    capitalised(&case.field())
                } else {
                    case.field()
                };
                let field = format!("{path}{field}");
                let field = if case.by == By::Schema {
                    field.split("[a]").next().unwrap()
                } else {
                    &field
                };
                let said = error
                    .lines()
                    .any(|line| line.starts_with(field) && line.contains(&case.message));
                assert!(said, "{field}, {}: {spec}\n{error}", case.message);
            }
        }
    }
}

fn capitalised(text: &str) -> String {
    text[..1].to_uppercase() + &text[1..]
}

/// Neither more nor less is refused than what no pod could have.
#[tokio::test]
async fn the_server_agrees_with_the_table_about_a_daemon_set() {
    let cluster = ControlPlane::builder().api_only().lend().await.unwrap();
    let daemon_sets: Api<DaemonSet> = Api::namespaced(cluster.client(), "default");
    let create = async |scheduling: &Value| {
        let mut pod = scheduling.clone();
        pod["containers"] = json!([{"name": "a", "image": "a"}]);
        let labels = json!({"a": "b"});
        let template = json!({"metadata": {"labels": labels}, "spec": pod});
        let set = json!({
            "metadata": {"name": "a"},
            "spec": {"selector": {"matchLabels": labels}, "template": template}
        });
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        daemon_sets
            .create(&dry_run, &serde_json::from_value(set).unwrap())
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    };
    for case in cases().accepted {
        let result = create(&case.spec).await;
        assert_eq!(result.is_ok(), !case.gated, "{}: {result:?}", case.name);
    }
    for case in cases().refused {
        let result = create(&case.spec()).await;
        assert_eq!(result.is_ok(), case.stricter, "{}", case.spec());
    }
}
