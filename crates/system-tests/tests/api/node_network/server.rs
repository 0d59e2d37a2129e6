//! The definitions and the policy about policies in a real API server.

use serde_json::{Value, json};
use weft_testenv::Lent;

use super::{
    answers::eventually,
    cases::{NAMES, cases, object},
    cluster::{ADMISSION, apply, create, deploy, refused_in_time, with_definitions},
    table::By,
};

/// A control plane where the policy about policies is in force.
async fn control_plane() -> Lent {
    let cluster = with_definitions().await;
    apply(&cluster, &deploy(ADMISSION)).await;
    let cases = cases();
    let refused = cases
        .refused
        .iter()
        .find(|case| case.by == By::Policy)
        .unwrap();
    refused_in_time(
        async || create(&cluster, &object(&refused.kind, &refused.spec)).await,
        &refused.message,
    )
    .await;
    cluster
}

#[tokio::test]
async fn the_server_agrees_with_the_table_in_both_versions() {
    let cluster = control_plane().await;
    let cases = cases();
    for version in ["nmstate.io/v1", "nmstate.io/v1beta1"] {
        let object = |kind: &str, spec: &Value| {
            let mut object = object(kind, spec);
            object["apiVersion"] = json!(version);
            object
        };
        for case in &cases.accepted {
            let result = create(&cluster, &object(&case.kind, &case.spec)).await;
            assert!(result.is_ok(), "{version} {}: {result:?}", case.name);
        }
        for case in &cases.refused {
            let Err(error) = create(&cluster, &object(&case.kind, &case.spec)).await else {
                panic!("{version}: accepted: {}", case.spec)
            };
            case.was_told(&error);
        }
    }
    for (kind, length) in NAMES {
        let named = |length: usize| {
            let mut object = object(kind, &json!({}));
            object["metadata"]["name"] = json!("a".repeat(length));
            object
        };
        create(&cluster, &named(length)).await.unwrap();
        let error = create(&cluster, &named(length + 1)).await.unwrap_err();
        assert!(
            error.contains("metadata.name")
                && error.contains(&format!("no more than {length} characters")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn unknown_fields_are_refused_fields_explained_and_columns_shown() {
    let cluster = control_plane().await;
    for (kind, path, field) in [
        ("NodeNetworkConfigurationPolicy", "/spec", "nodeselector"),
        (
            "NodeNetworkConfigurationPolicy",
            "/spec/match/interfaces",
            "macAddress",
        ),
        ("NodeNetworkState", "/spec", "desired"),
        ("NMState", "/spec", "placement"),
    ] {
        let mut misspelt = object(
            kind,
            &json!({
                "match": {"interfaces": {"name": "eth1"}}, "desiredState": {"interfaces": [{}]}
            }),
        );
        if kind != "NodeNetworkConfigurationPolicy" {
            misspelt["spec"] = json!({});
        }
        misspelt.pointer_mut(path).unwrap()[field] = json!("x");
        let error = create(&cluster, &misspelt).await.unwrap_err();
        assert!(
            error.contains("unknown field") && error.contains(field),
            "{error}"
        );
    }
    for (field, text) in [
        (
            "nncp.spec.maxUnavailable",
            "How many nodes may be changed at the same time",
        ),
        ("nncp.spec.probes.dns.server", "name server that is asked"),
        ("nns.spec.managed", "changes nothing there"),
        ("nnce.spec.wanted.decision", "Granted: the node applies it"),
        ("nmstate.spec.interfaceFilter", "Which interfaces"),
    ] {
        let explained = eventually(async || cluster.kubectl(&["explain", field]).await).await;
        let words: Vec<_> = explained.split_whitespace().collect();
        assert!(words.join(" ").contains(text), "{explained}");
    }

    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": format!("it is {kind}"),
            "lastHeartbeatTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z",
        })
    };
    let conditions = json!([
        condition("Progressing", "False", "ConfigurationProgressing"),
        condition("Available", "True", "SuccessfullyConfigured"),
        condition("Degraded", "Unknown", ""),
    ]);
    for (kind, resource, headers) in [
        (
            "NodeNetworkConfigurationPolicy",
            "nncp",
            vec!["NAME", "STATUS", "REASON"],
        ),
        (
            "NodeNetworkConfigurationEnactment",
            "nnce",
            vec!["NAME", "STATUS", "STATUS", "AGE", "REASON"],
        ),
        ("NMState", "nmstate", vec!["NAME", "STATUS", "REASON"]),
        (
            "NodeNetworkState",
            "nns",
            vec!["NAME", "AGE", "STATUS", "REASON"],
        ),
    ] {
        let version = if kind.ends_with("Enactment") {
            "nmstate.io/v1beta1"
        } else {
            "nmstate.io/v1"
        };
        let mut one = object(kind, &json!({}));
        one["apiVersion"] = json!(version);
        cluster
            .kubectl_with_input(&["create", "-f", "-"], &one.to_string())
            .await
            .unwrap();
        let status = json!({"status": {"conditions": conditions}}).to_string();
        cluster
            .kubectl(&[
                "patch",
                resource,
                "one",
                "--subresource=status",
                "--type=merge",
                "-p",
                &status,
            ])
            .await
            .unwrap();
        let table = cluster.kubectl(&["get", resource]).await.unwrap();
        let words: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(words[0], headers, "{table}");
        assert!(words[1].contains(&"Available"), "{table}");
        let wide = cluster
            .kubectl(&["get", resource, "-o", "wide"])
            .await
            .unwrap();
        assert!(
            wide.contains("MESSAGE") && wide.contains("it is Available"),
            "{wide}"
        );
        assert_eq!(
            *words[1].last().unwrap(),
            "SuccessfullyConfigured",
            "{table}"
        );
    }
}

/// The API server accepts an unchanged specification, whatever it contains: a client can always
/// remove a finalizer.
#[tokio::test]
async fn an_old_policy_can_still_be_labelled() {
    let cluster = with_definitions().await;
    let old = json!({
        "match": {"interfaces": {"name": "eth1"}},
        "desiredState": {"interfaces": [{"name": "eth1"}]}
    });
    cluster
        .kubectl_with_input(
            &["create", "-f", "-"],
            &object("NodeNetworkConfigurationPolicy", &old).to_string(),
        )
        .await
        .unwrap();
    apply(&cluster, &deploy(ADMISSION)).await;
    let words = "interfaces of spec.desiredState have no name";
    let change = [
        "patch",
        "nncp",
        "one",
        "--dry-run=server",
        "--type=merge",
        "-p",
        r#"{"spec":{"priority":1}}"#,
    ];
    refused_in_time(async || cluster.kubectl(&change).await, words).await;
    cluster
        .kubectl(&["label", "nncp", "one", "a=b"])
        .await
        .unwrap();
    let status = r#"{"status":{"observedGeneration":1}}"#;
    cluster
        .kubectl(&[
            "patch",
            "nncp",
            "one",
            "--subresource=status",
            "--type=merge",
            "-p",
            status,
        ])
        .await
        .unwrap();
    let mended = r#"{"spec":{"desiredState":{"interfaces":[{"mtu":9000}]}}}"#;
    cluster
        .kubectl(&["patch", "nncp", "one", "--type=merge", "-p", mended])
        .await
        .unwrap();
}
