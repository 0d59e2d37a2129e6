//! Weft adopts the objects of the replaced operator after that has gone.

use serde_json::{Value, json};
use weft_plan::{ObjectKey, kinds};

use super::{NAMESPACE, RECORD, SDN, minimal, record, start};
use weft_system_tests::*;

#[tokio::test]
async fn weft_waits_for_the_end_of_the_other_operator_and_adopts_its_objects() {
    let cluster = start().await;
    cluster.apply(&minimal()).await;
    let resource = cluster.resource().await.unwrap();
    left_by_the_original(&cluster, &resource["metadata"]["uid"]).await;
    let policy = json!({
        "apiVersion": "network.openshift.io/v1", "kind": "EgressNetworkPolicy",
        "metadata": {"name": "of-a-user"}, "spec": {"egress": []}
    });
    wait_until("a user has made a policy", async || {
        let created = cluster
            .control_plane
            .kubectl_with_input(&["create", "-f", "-"], &policy.to_string())
            .await;
        created.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let operator = Operator::start_default(&cluster).await;

    // The other operator in its later form: a Deployment of another name in another namespace. Its
    // image need not show which operator it is.
    let status = cluster
        .wait_condition("Blocked", "True", "OtherOperatorRunning", "")
        .await;
    let told = condition(&status, "Blocked")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        told.contains("kubectl -n openshift-network-operator delete deployment network-operator"),
        "{told}"
    );
    assert_eq!(cluster.get(kinds::DAEMON_SET, SDN, "ovs").await, None);
    let odd: Vec<_> = cluster
        .audit()
        .into_iter()
        .filter(|event| {
            !matches!(&*event.resource, "leases" | "events" | "networkconfigs")
                && !matches!(&*event.verb, "get" | "list" | "watch")
        })
        .collect();
    assert!(odd.is_empty(), "it writes nothing meanwhile: {odd:#?}");

    // Scaled to zero, the old operator no longer blocks Weft. The plan shows beforehand which steps
    // follow.
    let made = [
        (kinds::CONFIG_MAP, SDN, "sdn-config"),
        (
            kinds::CUSTOM_RESOURCE_DEFINITION,
            "",
            "hostsubnets.network.openshift.io",
        ),
    ];
    let planned = Planned::of(
        &cluster,
        &minimal(),
        &[],
        made.map(|(kind, namespace, name)| ObjectKey::new(kind, namespace, name)),
    )
    .await;
    cluster
        .kubectl(&[
            "-n",
            "openshift-network-operator",
            "scale",
            "deployment",
            "network-operator",
            "--replicas=0",
        ])
        .await;
    let resource = cluster.wait_available().await;
    assert_eq!(condition(&resource["status"], "Blocked"), Value::Null);
    assert_eq!(
        record(&cluster).await["defaultNetwork"]["openshiftSDNConfig"]["mtu"],
        8950,
        "what it had found out is carried on"
    );
    planned.assert_happened(&cluster).await;
    for (kind, namespace, name) in [
        (kinds::NAMESPACE, "", SDN),
        (
            kinds::CUSTOM_RESOURCE_DEFINITION,
            "",
            "hostsubnets.network.openshift.io",
        ),
        (kinds::CONFIG_MAP, SDN, "sdn-config"),
        (kinds::CONFIG_MAP, NAMESPACE, RECORD),
    ] {
        let live = cluster.get(kind, namespace, name).await.unwrap();
        assert!(
            live["metadata"]["ownerReferences"].is_null(),
            "{kind} {name} would go with the NetworkConfig: {live:#}"
        );
        assert!(
            live["metadata"]["annotations"][weft_plan::ADOPT_ANNOTATION].is_null(),
            "it is Weft's by now: {live:#}"
        );
    }
    let config = cluster
        .get(kinds::CONFIG_MAP, SDN, "sdn-config")
        .await
        .unwrap();
    let definition = cluster
        .get(
            kinds::CUSTOM_RESOURCE_DEFINITION,
            "",
            "egressnetworkpolicies.network.openshift.io",
        )
        .await
        .unwrap();
    assert_eq!(
        definition["spec"]["scope"], "Cluster",
        "releases before 2019-01-21 define it so"
    );
    cluster
        .kubectl(&["get", "egressnetworkpolicy", "of-a-user"])
        .await;
    assert!(
        config["data"]["leftover"].is_null(),
        "what the original had there and Weft does not want: {config:#}"
    );

    // If a user installs it over Weft again, it stops Weft where a node has its pod.
    cluster
        .kubectl(&[
            "label",
            "node",
            "node-1",
            "node-role.kubernetes.io/control-plane=",
        ])
        .await;
    cluster.patch(kinds::DAEMON_SET, NAMESPACE, "cluster-network-operator", json!({
        "spec": {
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "cluster-network-operator",
                            "image": "docker.io/openshift/origin-cluster-network-operator:v4.0.0"
                        }
                    ]
                }
            }
        }
    })).await;
    cluster
        .wait_condition(
            "Blocked",
            "True",
            "OtherOperatorRunning",
            "DaemonSet openshift-cluster-network-operator/cluster-network-operator",
        )
        .await;
    drop(operator);
}

#[tokio::test]
async fn a_network_outlives_a_config_that_was_never_valid() {
    let cluster = start().await;
    // It was made before Weft was installed, so nothing refused it.
    cluster
        .kubectl(&[
            "delete",
            "validatingadmissionpolicybinding",
            "weft-network-config",
        ])
        .await;
    let overlapping = super::config(&json!({
        "serviceNetwork": "172.30.0.0/16", "clusterNetworks": [
            {"cidr": "172.28.0.0/14", "hostSubnetLength": 9}
        ], "defaultNetwork": {"type": "OpenShiftSDN"},
    }));
    wait_until("the API server takes it", async || {
        let applied = cluster
            .control_plane
            .kubectl_with_input(&["apply", "-f", "-"], &overlapping)
            .await;
        applied.map(drop).map_err(|error| error.to_string())
    })
    .await;
    left_by_the_original(
        &cluster,
        &cluster.resource().await.unwrap()["metadata"]["uid"],
    )
    .await;
    cluster
        .kubectl(&[
            "-n",
            "openshift-network-operator",
            "delete",
            "deployment",
            "network-operator",
        ])
        .await;
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "configmap", RECORD])
        .await;
    let operator = Operator::start_default(&cluster).await;
    let status = cluster
        .wait_condition("Degraded", "True", "InvalidOperatorConfig", "")
        .await;
    let resource = cluster.resource().await.unwrap();
    assert_eq!(
        resource["metadata"]["finalizers"],
        json!(["weft.network/teardown"]),
        "{status:#}"
    );
    let parts = [
        (kinds::NAMESPACE, "", SDN),
        (
            kinds::CUSTOM_RESOURCE_DEFINITION,
            "",
            "hostsubnets.network.openshift.io",
        ),
        (kinds::CONFIG_MAP, SDN, "sdn-config"),
    ];
    for (kind, namespace, name) in parts {
        let live = cluster.get(kind, namespace, name).await.unwrap();
        assert!(
            live["metadata"]["ownerReferences"].is_null(),
            "{kind} {name} would go with the NetworkConfig: {live:#}"
        );
    }

    // An object that gets an owner later, as from a backup, loses it before the NetworkConfig goes.
    let owners = json!([
        {
            "apiVersion": "networkoperator.openshift.io/v1", "kind": "NetworkConfig",
            "name": "default", "uid": resource["metadata"]["uid"]
        }
    ]);
    cluster
        .patch(
            kinds::CONFIG_MAP,
            SDN,
            "sdn-config",
            json!({"metadata": {"ownerReferences": owners}}),
        )
        .await;
    cluster
        .kubectl(&["delete", "networkconfig", "default", "--timeout=60s"])
        .await;
    for (kind, namespace, name) in parts {
        let live = cluster.get(kind, namespace, name).await.unwrap();
        let metadata = &live["metadata"];
        assert!(
            metadata["ownerReferences"].is_null() && metadata["deletionTimestamp"].is_null(),
            "{live:#}"
        );
    }
    drop(operator);
}

#[tokio::test]
async fn a_definition_that_cannot_be_changed_is_not_deleted() {
    let cluster = start().await;
    let definition = |kind: &str| {
        let names = json!({
            "plural": "netnamespaces", "singular": kind.to_lowercase(), "kind": kind,
            "listKind": format!("{kind}List")
        });
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "netnamespaces.network.openshift.io",
            "annotations": {"weft.network/adopt": "true"}
        },
        "spec": {
            "group": "network.openshift.io", "scope": "Cluster", "names": names,
            "versions": [version()]
        }})
    };
    cluster
        .control_plane
        .kubectl_with_input(&["create", "-f", "-"], &definition("Other").to_string())
        .await
        .unwrap();
    cluster
        .wait_established("netnamespaces.network.openshift.io")
        .await;
    let uid = async || {
        cluster
            .get(
                kinds::CUSTOM_RESOURCE_DEFINITION,
                "",
                "netnamespaces.network.openshift.io",
            )
            .await
            .unwrap()["metadata"]["uid"]
            .clone()
    };
    let before = uid().await;
    cluster.apply(&minimal()).await;
    let _operator = Operator::start_default(&cluster).await;
    let status = cluster
        .wait_condition("Degraded", "True", "", "netnamespaces.network.openshift.io")
        .await;
    assert!(
        status.to_string().contains("field is immutable"),
        "{status:#}"
    );
    assert_eq!(uid().await, before);
}

/// A version of a definition that takes everything.
fn version() -> Value {
    json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
        }
    })
}

/// A part of its objects, each owned by the resource as it does it, also namespaces and
/// definitions. Its record, and itself.
async fn left_by_the_original(cluster: &Cluster, uid: &Value) {
    let owners = json!([
        {
            "apiVersion": "networkoperator.openshift.io/v1", "kind": "NetworkConfig",
            "name": "default", "uid": uid, "controller": true, "blockOwnerDeletion": true
        }
    ]);
    let definition = |plural: &str, singular: &str, kind: &str| {
        let names = json!({
            "plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List")
        });
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.network.openshift.io"), "ownerReferences": owners},
        "spec": {
            "group": "network.openshift.io", "scope": "Cluster", "names": names,
            "versions": [version()]
        }})
    };
    let applied = json!({
        "clusterNetworks": [
            {"cidr": "10.128.0.0/14", "hostSubnetLength": 9}
        ], "serviceNetwork": "172.30.0.0/16",
        "defaultNetwork": {
            "type": "OpenShiftSDN",
            "openshiftSDNConfig": {"mode": "NetworkPolicy", "vxlanPort": 4789, "mtu": 8950},
            "otherConfig": null
        },
        "additionalNetworks": null, "deployKubeProxy": false, "kubeProxyConfig": {"bindAddress": "0.0.0.0"},
    });
    let pod = json!({
        "metadata": {"labels": {"name": "network-operator"}},
        "spec": {
            "containers": [
                {
                    "name": "network-operator",
                    "image": "registry.example/release@sha256:0000000000000000000000000000000000000000000000000000000000000000"
                }
            ]
        }
    });
    for object in [
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": SDN, "ownerReferences": owners}
        }),
        definition("hostsubnets", "hostsubnet", "HostSubnet"),
        definition(
            "egressnetworkpolicies",
            "egressnetworkpolicy",
            "EgressNetworkPolicy",
        ),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": SDN, "name": "sdn-config", "ownerReferences": owners},
            "data": {"sdn-config.yaml": "old", "leftover": "x"}
        }),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": NAMESPACE, "name": RECORD, "ownerReferences": owners},
            "data": {"applied": applied.to_string()}
        }),
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "openshift-network-operator"}
        }),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "namespace": "openshift-network-operator", "name": "network-operator"
        },
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"name": "network-operator"}},
                "template": pod
            }}),
    ] {
        cluster
            .control_plane
            .kubectl_with_input(&["create", "-f", "-"], &object.to_string())
            .await
            .unwrap();
    }
}
