//! The definition and the admission policy in a real API server.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weft_testenv::{ControlPlane, Lent};

use super::{
    answers::{create, eventually},
    cases::{cases, object},
    table::By,
};

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(path)
}

/// A control plane that serves NetworkConfig and enforces its policy.
async fn control_plane() -> Lent {
    let cluster = ControlPlane::builder().api_only().lend().await.unwrap();
    for file in [
        "crds/networkconfigs.networkoperator.openshift.io.yaml",
        "admission/network-config.yaml",
    ] {
        cluster
            .kubectl(&["apply", "-f", deploy(file).to_str().unwrap()])
            .await
            .unwrap();
    }
    // Both come into force a moment after they were made.
    let cases = cases();
    let refused = cases
        .refused
        .iter()
        .find(|case| case.by == By::Policy)
        .unwrap();
    eventually(
        async || match create(&cluster.client(), &object(&refused.spec)).await {
            Err(error) if error.contains(&refused.message) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    cluster
}

#[tokio::test]
async fn the_server_agrees_with_the_table() {
    let cluster = control_plane().await;
    let cases = cases();
    for case in &cases.accepted {
        let result = create(&cluster.client(), &object(&case.spec)).await;
        assert!(result.is_ok(), "{}: {result:?}", case.name);
    }
    let page = std::fs::read_to_string(deploy("../docs/cluster-network.md")).unwrap();
    let examples: Vec<_> = page
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(
        examples.len() >= 7,
        "only {} examples were found: is this test still reading the page?",
        examples.len()
    );
    for example in examples {
        let object: Value = serde_saphyr::from_str(example).unwrap();
        let result = create(&cluster.client(), &object).await;
        assert!(result.is_ok(), "{example}: {result:?}");
    }
    for case in &cases.refused {
        let error = create(&cluster.client(), &object(&case.spec))
            .await
            .unwrap_err();
        case.was_told(&error);
    }
}

#[tokio::test]
async fn unknown_fields_are_refused_fields_explained_and_columns_shown() {
    let cluster = control_plane().await;
    let minimal = object(&cases().accepted[0].spec);
    for (path, field) in [
        ("/spec/defaultNetwork", "MTU"),
        ("/spec", "disableMultiNetwork"),
        ("/spec/clusterNetworks/0", "CIDR"),
    ] {
        let mut misspelt = minimal.clone();
        misspelt.pointer_mut(path).unwrap()[field] = json!("x");
        let error = create(&cluster.client(), &misspelt).await.unwrap_err();
        assert!(
            error.contains("unknown field") && error.contains(field),
            "{error}"
        );
    }
    let explained = eventually(async || {
        cluster
            .kubectl(&[
                "explain",
                "networkconfig.spec.clusterNetworks.hostSubnetLength",
            ])
            .await
    })
    .await;
    assert!(
        explained.contains("How many bits of an address"),
        "{explained}"
    );

    cluster
        .kubectl_with_input(&["create", "-f", "-"], &minimal.to_string())
        .await
        .unwrap();
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "lastHeartbeatTime": "2026-01-02T03:04:05Z",
            "lastTransitionTime": "2026-01-02T03:04:05Z"
        })
    };
    let status = json!({"status": {
        "effectiveConfiguration": {"defaultNetwork": {"type": "OpenShiftSDN"}},
        "conditions": [
            condition("Available", "True"), condition("Progressing", "False"),
            condition("Degraded", "False"),
            {
                "type": "Ready", "status": "True", "message": "all is well",
                "lastTransitionTime": "2026-01-02T03:04:05Z"
            }
        ],
    }});
    let patch = [
        "patch",
        "networkconfig",
        "default",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status.to_string(),
    ];
    cluster.kubectl(&patch).await.unwrap();
    let table = cluster.kubectl(&["get", "networkconfig"]).await.unwrap();
    let words: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        words[0],
        [
            "NAME",
            "TYPE",
            "AVAILABLE",
            "PROGRESSING",
            "DEGRADED",
            "REASON",
            "AGE"
        ]
    );
    assert_eq!(
        words[1][..5],
        ["default", "OpenShiftSDN", "True", "False", "False"]
    );
    let wide = cluster
        .kubectl(&["get", "networkconfig", "-o", "wide"])
        .await
        .unwrap();
    assert!(
        wide.contains("MESSAGE") && wide.contains("all is well"),
        "{wide}"
    );
}

/// The API server accepts an unchanged specification, whatever it contains: a client can always
/// remove a finalizer.
#[tokio::test]
async fn an_old_object_can_still_be_labelled() {
    let cluster = ControlPlane::builder().api_only().lend().await.unwrap();
    let definition = deploy("crds/networkconfigs.networkoperator.openshift.io.yaml");
    cluster
        .kubectl(&["apply", "-f", definition.to_str().unwrap()])
        .await
        .unwrap();
    let mut old = object(&cases().accepted[0].spec);
    old["spec"]["serviceNetwork"] = json!("garbage");
    let text = old.to_string();
    eventually(async || {
        let made = cluster
            .kubectl_with_input(&["apply", "-f", "-"], &text)
            .await;
        made.map_err(|error| error.to_string())
    })
    .await;
    cluster
        .kubectl(&[
            "apply",
            "-f",
            deploy("admission/network-config.yaml").to_str().unwrap(),
        ])
        .await
        .unwrap();
    let change = [
        "patch",
        "networkconfig",
        "default",
        "--dry-run=server",
        "--type=merge",
        "-p",
        r#"{"spec": {"deployKubeProxy": false}}"#,
    ];
    eventually(async || match cluster.kubectl(&change).await {
        Err(error)
            if error
                .to_string()
                .contains("spec.serviceNetwork must be a block") =>
        {
            Ok(())
        }
        other => Err(format!("{other:?}")),
    })
    .await;
    cluster
        .kubectl(&["label", "networkconfig", "default", "a=b"])
        .await
        .unwrap();
}
