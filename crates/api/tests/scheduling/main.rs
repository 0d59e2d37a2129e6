//! Where pods may run: what the definitions accept and refuse, in-process and on a real API server,
//! and whether that is what Kubernetes takes in a pod.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cases;
#[path = "../table/mod.rs"]
mod table;

use std::path::Path;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use weft_api::addons;
use weft_testenv::ControlPlane;

use crate::cases::{By, cases};

/// A NetworkAddonsConfig with these fields.
fn addons(scheduling: &Value) -> Value {
    json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
        "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"},
        "spec": {"placementConfiguration": {"workloads": scheduling}},
    })
}

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

#[test]
fn rules_accept_and_refuse_what_the_table_says() {
    let crd = addons::crd();
    let schema = serde_json::to_value(
        crd.spec.versions[0]
            .schema
            .as_ref()
            .unwrap()
            .open_api_v3_schema
            .as_ref()
            .unwrap(),
    )
    .unwrap();
    for case in cases().accepted {
        let errors = table::errors(&schema, &addons(&case.spec));
        assert!(errors.is_empty(), "{}: {errors:#?}", case.name);
    }
    let dotted = |path: &str| path.replace('[', ".").replace(']', "");
    for case in cases().refused.iter().filter(|case| case.by == By::Rule) {
        let errors = table::errors(&schema, &addons(&case.spec()));
        let field = dotted(&format!(
            "spec.placementConfiguration.workloads.{}",
            case.field()
        ));
        let is_it =
            |path: &str, message: &str| dotted(path) == field && message.contains(&case.message);
        assert!(
            errors
                .iter()
                .any(|error| is_it(&error.field_path, &error.message)),
            "{}: {errors:#?}",
            case.spec()
        );
    }
}

#[test]
fn each_rule_has_a_case_against_it() {
    let crd = addons::crd();
    let schema = serde_json::to_value(
        crd.spec.versions[0]
            .schema
            .as_ref()
            .unwrap()
            .open_api_v3_schema
            .as_ref()
            .unwrap(),
    )
    .unwrap();
    let mut messages: Vec<_> = table::rules(&schema)
        .into_iter()
        .filter(|(path, _)| path.contains("placementConfiguration."))
        .map(|(_, message)| message)
        .collect();
    messages.sort();
    messages.dedup();
    assert!(messages.len() > 10, "{messages:#?}");
    messages.retain(|message| {
        !cases()
            .refused
            .iter()
            .any(|case| case.by == By::Rule && message.contains(&case.message))
    });
    assert!(messages.is_empty(), "{messages:#?}");
}

#[tokio::test]
async fn the_server_agrees_with_the_table_about_each_api() {
    let cluster = ControlPlane::builder().api_only().start().await.unwrap();
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
        table::eventually(async || table::create(&cluster.client(), &object(&json!({}))).await)
            .await;
        for case in cases().accepted {
            let result = table::create(&cluster.client(), &object(&case.spec)).await;
            assert!(result.is_ok(), "{}: {result:?}", case.name);
        }
        for case in cases().refused.iter().filter(|case| case.by != By::Check) {
            let spec = object(&case.spec());
            let error = table::create(&cluster.client(), &spec)
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
    let cluster = ControlPlane::builder().api_only().start().await.unwrap();
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
