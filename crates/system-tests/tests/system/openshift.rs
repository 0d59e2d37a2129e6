//! OpenShift, as far as an API server can be one: its real definitions, and the objects that Weft
//! makes of them. OpenShift's own work with these objects does not run here.

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::proxy::Proxy;

use crate::system::{deletion::gone, harness::*, install::becomes_idle};

const CONSTRAINTS: &str = "securitycontextconstraints.security.openshift.io";
const NETWORKS: &str = "networks.operator.openshift.io";
const OPENSHIFT: &str = "clusterversions.config.openshift.io";
const IPAM_SECRET: &str = "kubevirt-ipam-controller-webhook-service";

#[tokio::test]
async fn pods_get_their_constraints_and_nothing_is_left_of_them() {
    let cluster = Cluster::start_default().await;
    cluster.define(&[CONSTRAINTS, NETWORKS, OPENSHIFT]).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    // Its service CA makes this one.
    cluster.play_certificate(IPAM_SECRET).await;
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    assert_eq!(
        constraints(&cluster).await,
        [
            "bridge-marker",
            "linux-bridge",
            "macvtap-cni",
            "multus",
            "ovs-cni-marker"
        ]
    );
    let plugin = cluster
        .get(kinds::DAEMON_SET, NAMESPACE, "kube-cni-linux-bridge-plugin")
        .await
        .unwrap();
    assert_eq!(
        plugin["spec"]["template"]["metadata"]["annotations"]["openshift.io/required-scc"],
        "linux-bridge"
    );
    assert_not_warned(&cluster, &proxy);
    becomes_idle(&cluster, &proxy).await;

    // They are kept in order: what somebody permits to another user is taken back.
    let before = cluster
        .masked(kinds::SECURITY_CONTEXT_CONSTRAINTS, "", "multus")
        .await
        .unwrap();
    let harm = json!({
        "users": ["system:serviceaccount:default:default"], "allowHostIPC": true,
        "allowedCapabilities": ["SYS_ADMIN"]
    });
    cluster
        .patch(kinds::SECURITY_CONTEXT_CONSTRAINTS, "", "multus", harm)
        .await;
    cluster
        .wait_same(&before, "what was permitted to others is taken back")
        .await;

    // CNAO may not delete them, and forgets what else there is to delete (it stops there).
    cluster
        .patch_resource(json!({"spec": {"ovs": null, "linuxBridge": null}}))
        .await;
    cluster.wait_available().await;
    assert_eq!(constraints(&cluster).await, ["macvtap-cni", "multus"]);
    for name in [
        "kube-cni-linux-bridge-plugin",
        "bridge-marker",
        "ovs-cni-amd64",
    ] {
        assert_eq!(
            cluster.get(kinds::DAEMON_SET, NAMESPACE, name).await,
            None,
            "{name}"
        );
    }
    let roles = cluster
        .kubectl(&["get", "clusterroles,rolebindings", "-A", "-o", "name"])
        .await;
    assert_eq!(
        roles
            .lines()
            .filter(|name| name.ends_with("-scc-use"))
            .count(),
        4,
        "{roles}"
    );

    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--wait=false"])
        .await;
    gone(&cluster).await;
    assert!(constraints(&cluster).await.is_empty());
    let roles = cluster
        .kubectl(&["get", "clusterroles,rolebindings", "-A", "-o", "name"])
        .await;
    assert!(!roles.contains("-scc-use"), "{roles}");
}

#[tokio::test]
async fn multus_is_left_to_openshifts_own_operator_while_that_runs_it() {
    let cluster = Cluster::start_default().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster
        .apply(&resource(json!({"multus": {}, "linuxBridge": {}})))
        .await;
    cluster.wait_available().await;
    assert!(has_multus(&cluster).await);

    // The definition alone says nothing.
    cluster.define(&[NETWORKS]).await;
    becomes_idle(&cluster, &proxy).await;
    assert!(has_multus(&cluster).await);
    cluster.apply(&network(false)).await;
    wait_until("status says who deploys Multus", async || {
        let status = cluster.status().await;
        let multus = status["components"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|one| one["name"] == "multus")
            .cloned()
            .unwrap_or_default();
        let said = multus["message"]
            .as_str()
            .unwrap_or_default()
            .contains("Cluster Network Operator");
        if multus["state"] == "NotDeployed" && said {
            Ok(())
        } else {
            Err(multus.to_string())
        }
    })
    .await;
    assert!(!has_multus(&cluster).await);
    cluster.wait_available().await;
    assert!(
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "bridge-marker")
            .await
            .is_some()
    );

    // Objects that do not go with it.
    cluster
        .patch_resource(json!({"spec": {"multusDynamicNetworks": {}, "macvtap": {}}}))
        .await;
    let status = cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToValidate",
            "spec.macvtap: cannot be deployed",
        )
        .await;
    assert!(
        condition(&status, "Degraded")["message"]
            .as_str()
            .unwrap()
            .contains("spec.multusDynamicNetworks: cannot be deployed")
    );
    cluster
        .patch_resource(json!({"spec": {"multusDynamicNetworks": null, "macvtap": null}}))
        .await;
    cluster.wait_available().await;
    cluster.apply(&network(true)).await;
    cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToValidate",
            "disableMultiNetwork",
        )
        .await;
    cluster.apply(&network(false)).await;
    cluster.wait_available().await;
    becomes_idle(&cluster, &proxy).await;

    cluster
        .delete(kinds::OPENSHIFT_NETWORK, "", "cluster")
        .await;
    wait_until("Weft deploys Multus", async || {
        if has_multus(&cluster).await {
            Ok(())
        } else {
            Err("not yet".into())
        }
    })
    .await;
    cluster.wait_available().await;
}

async fn constraints(cluster: &Cluster) -> Vec<String> {
    let all = cluster
        .api(kinds::SECURITY_CONTEXT_CONSTRAINTS, "")
        .list(&Default::default())
        .await
        .unwrap();
    let mut names: Vec<_> = all
        .into_iter()
        .map(|one| one.metadata.name.unwrap())
        .collect();
    names.sort();
    names
}

async fn has_multus(cluster: &Cluster) -> bool {
    cluster
        .get(kinds::DAEMON_SET, NAMESPACE, "multus")
        .await
        .is_some()
}

fn resource(spec: Value) -> String {
    json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1", "kind": "NetworkAddonsConfig",
        "metadata": {"name": "cluster"}, "spec": spec
    })
    .to_string()
}

/// The configuration of OpenShift's own operator.
fn network(multi_network_is_disabled: bool) -> String {
    json!({"apiVersion": "operator.openshift.io/v1", "kind": "Network", "metadata": {"name": "cluster"},
        "spec": {
            "managementState": "Managed", "defaultNetwork": {"type": "OVNKubernetes"},
            "disableMultiNetwork": multi_network_is_disabled
        }})
    .to_string()
}
