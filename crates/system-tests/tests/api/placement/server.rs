//! The definition and the admission policy in a real API server.

use serde_json::json;

use super::{
    answers::eventually,
    cases::{cases, object},
    cluster::{apply, control_plane, create, definition, policy, read},
};

#[tokio::test]
async fn the_server_agrees_with_the_table() {
    let cluster = control_plane().await;
    let cases = cases();
    for case in &cases.accepted {
        let result = create(&cluster, &object(&case.spec)).await;
        assert!(result.is_ok(), "{}: {result:?}", case.name);
    }
    for case in &cases.refused {
        let error = create(&cluster, &object(&case.spec)).await.unwrap_err();
        // The schema writes a key of a map with a dot, rules in brackets.
        case.was_told(&error.replace(".service.public", ".service[public]"));
    }
}

#[tokio::test]
async fn omitted_fields_get_placement_operators_defaults_and_columns_show() {
    let cluster = control_plane().await;
    let spec = json!({
        "databaseInstance": "openstack", "secret": "osp-secret", "networkAttachments": ["storage"]
    });
    cluster
        .kubectl_with_input(&["create", "-f", "-"], &object(&spec).to_string())
        .await
        .unwrap();
    let stored = read(&cluster, "placement").await;
    assert_eq!(
        stored["spec"],
        json!({
            "apiTimeout": 60, "databaseAccount": "placement", "databaseInstance": "openstack", "networkAttachments": ["storage"],
            "passwordSelectors": {
                "service": "PlacementPassword"
            }, "preserveJobs": false, "replicas": 1, "secret": "osp-secret",
            "serviceUser": "placement",
        })
    );
    let status = json!({"status": {"conditions": [
        {
            "type": "Ready", "status": "False", "severity": "Info", "reason": "Requested",
            "message": "DB create job still running", "lastTransitionTime": "2026-01-02T03:04:05Z"
        },
        {"type": "DBReady", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z"},
    ], "networkAttachments": {
        "default/storage": ["172.18.0.52"]
    }, "hash": {"dbsync": "a"}, "readyCount": 1}});
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
    let mut stored = status["status"].clone();
    stored["observedGeneration"] = (-1).into(); // The default, which the patch leaves as it is.
    assert_eq!(read(&cluster, "placement").await["status"], stored);
    let table = cluster.kubectl(&["get", "placementapis"]).await.unwrap();
    let lines: Vec<_> = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        lines,
        [
            "NAME NETWORKATTACHMENTS STATUS MESSAGE REASON",
            r#"placement ["storage"] False DB create job still running Requested"#
        ]
    );
}

/// Strict or not, kubectl or another client: nobody loses networks silently.
#[tokio::test]
async fn the_misspelt_networks_are_refused_whatever_the_client_checks() {
    let cluster = control_plane().await;
    let spec = json!({
        "databaseInstance": "openstack", "secret": "osp-secret", "networkAttachents": ["storage"]
    });
    for validate in ["--validate=strict", "--validate=ignore"] {
        let args = ["create", "--dry-run=server", validate, "-f", "-"];
        let error = cluster
            .kubectl_with_input(&args, &object(&spec).to_string())
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("spec.networkAttachents: Invalid value")
                && error.contains("the field is networkAttachments"),
            "{error}"
        );
    }
    for (path, field) in [("/spec", "networkattachments"), ("/spec", "databaseUser")] {
        let mut unknown = object(&json!({"databaseInstance": "openstack", "secret": "osp-secret"}));
        unknown.pointer_mut(path).unwrap()[field] = json!("x");
        let error = create(&cluster, &unknown).await.unwrap_err();
        assert!(
            error.contains("unknown field") && error.contains(field),
            "{error}"
        );
    }
}

/// The most that a rule may be asked to look at is looked at, within the budget that the API server
/// gives it when an object is written.
#[tokio::test]
async fn the_largest_object_is_judged_within_the_budget() {
    let cluster = control_plane().await;
    let networks: Vec<_> = (0..32)
        .map(|number| format!("{}{number}", "a".repeat(240)))
        .collect();
    let settings = format!("[DEFAULT]\n{}", "a = b\n c\n# d\n\n".repeat(9_350));
    assert!(
        settings.len() > 130_000 && settings.len() < 131_072,
        "{}",
        settings.len()
    );
    let ranges: Vec<_> = (0..256)
        .map(|number| format!("10.0.{number}.0/24"))
        .collect();
    let service = json!({
        "spec": {"loadBalancerSourceRanges": ranges},
        "endpointURL": format!("http://{}/{}", "a".repeat(1000), "b".repeat(1000))
    });
    let spec = json!({
        "databaseInstance": "openstack", "secret": "osp-secret", "networkAttachments": networks, "customServiceConfig": settings,
        "override": {"service": {"public": service, "internal": service}},
    });
    create(&cluster, &object(&spec)).await.unwrap();
    let mut broken = spec;
    broken["customServiceConfig"] = json!(format!(
        "{}=",
        broken["customServiceConfig"].as_str().unwrap()
    ));
    let error = create(&cluster, &object(&broken)).await.unwrap_err();
    assert!(error.contains("Placement cannot read this"), "{error}");
}

/// The API server accepts an unchanged mistake: a client can always remove a finalizer.
#[tokio::test]
async fn an_old_object_can_still_be_labelled() {
    let cluster = control_plane().await;
    for file in [definition(), policy()] {
        cluster
            .kubectl(&["delete", "-f", file.to_str().unwrap(), "--wait=true"])
            .await
            .unwrap();
    }
    apply(&cluster, &super::replacing::fixture()).await;
    let spec = json!({
        "containerImage": "a", "databaseInstance": "openstack", "secret": "osp-secret", "tls": {
            "api": {"public": {"secretName": "a"}}
        },
        "topologyRef": {"name": "a", "namespace": "elsewhere"}, "customServiceConfig": "foo",
    });
    let text = object(&spec).to_string();
    eventually(async || {
        cluster
            .kubectl_with_input(&["apply", "--server-side", "-f", "-"], &text)
            .await
    })
    .await;
    for file in [definition(), policy()] {
        apply(&cluster, &file).await;
    }
    let change = [
        "patch",
        "placementapi",
        "placement",
        "--dry-run=server",
        "--type=merge",
        "-p",
        r#"{"spec":{"tls":{"api":{"public":{"secretName":"b"}}}}}"#,
    ];
    eventually(async || match cluster.kubectl(&change).await {
        Err(error)
            if error
                .to_string()
                .contains("needs both certificates or none") =>
        {
            Ok(())
        }
        other => Err(format!("{other:?}")),
    })
    .await;
    cluster
        .kubectl(&["label", "placementapi", "placement", "a=b"])
        .await
        .unwrap();
    let finalizer = r#"{"metadata":{"finalizers":["openstack.org/placementapi"]}}"#;
    cluster
        .kubectl(&[
            "patch",
            "placementapi",
            "placement",
            "--type=merge",
            "-p",
            finalizer,
        ])
        .await
        .unwrap();
    let without = r#"{"metadata":{"finalizers":null}}"#;
    cluster
        .kubectl(&[
            "patch",
            "placementapi",
            "placement",
            "--type=merge",
            "-p",
            without,
        ])
        .await
        .unwrap();
}
