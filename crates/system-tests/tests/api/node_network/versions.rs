//! One object, read and written as both versions.

use serde_json::json;

use super::{
    cases::object,
    cluster::{read, with_definitions, without_nulls},
};

#[tokio::test]
async fn a_version_keeps_fields_of_the_other() {
    let cluster = with_definitions().await;
    for (kind, plural, spec, status) in [
        (
            "NodeNetworkState",
            "nodenetworkstates",
            json!({
                "managed": true, "nodeName": "one",
                "desiredState": {"interfaces": [{"name": "eth1", "macAddress": "x"}]}
            }),
            json!({
                "currentState": {
                    "capabilities": null, "interfaces": [{"name": "lo", "ifIndex": 1}]
                },
                "handlerNmstateVersion": "2.2.62"
            }),
        ),
        (
            "NodeNetworkConfigurationPolicy",
            "nodenetworkconfigurationpolicies",
            json!({
                "nodeSelector": {"a": "b"}, "priority": 99, "maxUnavailable": "10%",
                "desiredState": {"anything": [null, {"else": 1}]}
            }),
            json!({"observedGeneration": 1, "unavailableNodeCountMap": {"1": 2}}),
        ),
        (
            "NMState",
            "nmstates",
            json!({"logLevel": "debug", "maxUnavailable": 3}),
            json!({"observedGeneration": 1}),
        ),
    ] {
        cluster
            .kubectl_with_input(&["create", "-f", "-"], &object(kind, &spec).to_string())
            .await
            .unwrap();
        let patch = json!({"status": status}).to_string();
        let older = format!("{plural}.v1beta1.nmstate.io");
        cluster
            .kubectl(&[
                "patch",
                &older,
                "one",
                "--subresource=status",
                "--type=merge",
                "-p",
                &patch,
            ])
            .await
            .unwrap();
        for version in ["v1", "v1beta1"] {
            let read = read(&cluster, &format!("{plural}.{version}.nmstate.io"), "one").await;
            assert_eq!(read["apiVersion"], format!("nmstate.io/{version}"));
            assert_eq!(
                (&read["spec"], without_nulls(&read["status"])),
                (&spec, without_nulls(&status)),
                "{kind} as {version}"
            );
        }
        // A later change of the specification, as the older version, leaves the status alone, and
        // it is not counted as one of the specification.
        let label = ["label", &older, "one", "c=d"];
        cluster.kubectl(&label).await.unwrap();
        let read = read(&cluster, &format!("{plural}.v1.nmstate.io"), "one").await;
        assert_eq!(
            (
                &read["metadata"]["generation"],
                without_nulls(&read["status"])
            ),
            (&json!(1), without_nulls(&status)),
            "{kind}"
        );
    }
}

/// Nothing that anybody writes into an enactment is lost, as with kubernetes-nmstate.
#[tokio::test]
async fn an_enactment_keeps_what_its_schema_does_not_know() {
    let cluster = with_definitions().await;
    let enactment = json!({
        "apiVersion": "nmstate.io/v1beta1",
        "kind": "NodeNetworkConfigurationEnactment",
        "metadata": {"name": "node-a.one"},
        "spec": {
            "policy": "one", "nodeName": "node-a",
            "wanted": {"generation": 2, "decision": "Pending"},
            "granted": {"generation": 1, "spec": {"new": {"field": [1]}}}
        },
        "extra": {"kept": true},
    });
    cluster
        .kubectl_with_input(&["create", "-f", "-"], &enactment.to_string())
        .await
        .unwrap();
    let read = read(&cluster, "nnce", "node-a.one").await;
    assert_eq!(
        (&read["spec"], &read["extra"]),
        (&enactment["spec"], &enactment["extra"])
    );
}
