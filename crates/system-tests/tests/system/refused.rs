//! Configurations that are refused: by the API server, and by the operator where they got past it.

use serde_json::{Value, json};
use weft_plan::kinds;

use weft_system_tests::*;

const DEFINITION: &str = "networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io";

#[tokio::test]
async fn a_refused_configuration_leaves_the_last_good_one_in_order() {
    let cluster = Cluster::start_default().await;
    let operator = Operator::start_default(&cluster).await;

    // By the API server.
    for (yaml, why) in [
        ("metadata: {name: another}", "cluster"),
        (
            "metadata: {name: cluster}\nspec: {kubeMacPool: {rangeStart: '02:00:00:00:00:00'}}",
            "rangeEnd",
        ),
        (
            "metadata: {name: cluster}\nspec: {imagePullPolicy: Sometimes}",
            "imagePullPolicy",
        ),
    ] {
        let yaml = format!(
            "apiVersion: networkaddonsoperator.network.kubevirt.io/v1\nkind: NetworkAddonsConfig\n{yaml}\n"
        );
        let refused = cluster
            .control_plane
            .kubectl_with_input(&["apply", "-f", "-"], &yaml)
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(cluster.resource().await, None);

    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    let good = cluster.snapshot().await;
    let effective =
        async || cluster.resource().await.unwrap()["status"]["effectiveConfiguration"].clone();
    let in_force = effective().await;
    assert_eq!(
        in_force["imagePullPolicy"],
        cluster.resource().await.unwrap()["spec"]["imagePullPolicy"]
    );
    assert_eq!(
        in_force["driftPolicy"], "Repair",
        "what is left open is filled in"
    );

    // Stored under a definition without rules, as an older one is.
    without_rules(&cluster).await;
    let backward = json!({
        "spec": {
            "kubeMacPool": {"rangeStart": "02:00:00:FF:FF:FF", "rangeEnd": "02:00:00:00:00:00"},
            "imagePullPolicy": "Sometimes", "ovs": null
        }
    });
    cluster.patch_resource(backward).await;
    let status = cluster
        .wait_condition("Degraded", "True", "FailedToValidate", "spec.kubeMacPool")
        .await;
    let message = condition(&status, "Degraded")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("imagePullPolicy"),
        "everything that is wrong, at once: {message}"
    );
    assert_eq!(condition(&status, "Available")["status"], "False");
    assert_eq!(effective().await, in_force, "the last good one");
    assert_eq!(
        status["observedGeneration"],
        cluster.resource().await.unwrap()["metadata"]["generation"]
    );
    let of_resource =
        |line: &String| line.contains("NetworkAddonsConfig cluster ") || line.contains(DEFINITION);
    let changed: Vec<_> = good
        .diff(&cluster.snapshot().await)
        .into_iter()
        .filter(|line| !of_resource(line))
        .collect();
    assert!(
        changed.is_empty(),
        "nothing of a refused configuration is applied, not even its valid parts: {changed:#?}"
    );

    // The last good configuration is still kept in order: by the one that knew it, and by a new one
    // that reads it from the inventory.
    repairs(&cluster, "ovs-cni-amd64").await;
    operator.kill();
    let _operator = Operator::start_default(&cluster).await;
    repairs(&cluster, "multus").await;
    // Kubernetes' controllers may not have written their part of what is back yet.
    wait_until("all is as it was", async || {
        let changed: Vec<_> = good
            .diff(&cluster.snapshot().await)
            .into_iter()
            .filter(|line| !of_resource(line))
            .collect();
        if changed.is_empty() {
            Ok(())
        } else {
            Err(format!("{changed:#?}"))
        }
    })
    .await;

    cluster
        .patch_resource(json!({
            "spec": {
                "kubeMacPool": {"rangeStart": "02:00:00:00:00:00", "rangeEnd": "02:00:00:FF:FF:FF"},
                "imagePullPolicy": "Always"
            }
        }))
        .await;
    cluster.wait_available().await;
    assert_eq!(
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "ovs-cni-amd64")
            .await,
        None,
        "the valid configuration has no ovs"
    );
    let now = effective().await;
    assert_eq!(
        (&now["kubeMacPool"]["rangeEnd"], &now["ovs"]),
        (&json!("02:00:00:FF:FF:FF"), &Value::Null),
        "{now}"
    );
}

async fn repairs(cluster: &Cluster, daemon_set: &str) {
    let old = cluster
        .get(kinds::DAEMON_SET, NAMESPACE, daemon_set)
        .await
        .unwrap()["metadata"]["uid"]
        .clone();
    cluster
        .delete(kinds::DAEMON_SET, NAMESPACE, daemon_set)
        .await;
    wait_until(&format!("{daemon_set} is back"), async || {
        match cluster.get(kinds::DAEMON_SET, NAMESPACE, daemon_set).await {
            Some(live) if live["metadata"]["uid"] != old => Ok(()),
            _ => Err("it is not".to_owned()),
        }
    })
    .await;
}

/// Makes the API server take anything.
pub async fn without_rules(cluster: &Cluster) {
    let mut definition = cluster
        .get(kinds::CUSTOM_RESOURCE_DEFINITION, "", DEFINITION)
        .await
        .unwrap();
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"] = json!({
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
        });
    }
    let versions: Value = definition["spec"]["versions"].clone();
    cluster
        .patch(
            kinds::CUSTOM_RESOURCE_DEFINITION,
            "",
            DEFINITION,
            json!({"spec": {"versions": versions}}),
        )
        .await;
    wait_until("the API server takes anything", async || {
        let yaml = json!({
            "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
            "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
            "spec": {"imagePullPolicy": "Sometimes"}
        });
        let tried = cluster
            .control_plane
            .kubectl_with_input(
                &[
                    "apply",
                    "--server-side",
                    "--force-conflicts",
                    "--dry-run=server",
                    "-f",
                    "-",
                ],
                &yaml.to_string(),
            )
            .await;
        tried.map(drop).map_err(|error| error.to_string())
    })
    .await;
}
