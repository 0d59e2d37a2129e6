//! The service proxy and additional networks come and go next to a network of another user.

use serde_json::{Value, json};
use weft_plan::kinds;

use super::{NAMESPACE, RECORD, config, minimal, record, start, text, weft};
use crate::system::{harness::*, install::passes};

const PROXY: &str = "openshift-kube-proxy";

fn spec(additional: &Value) -> Value {
    json!({
        "serviceNetwork": "172.30.0.0/16",
        "clusterNetworks": [{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}],
        "defaultNetwork": {"type": "None"},
        "additionalNetworks": additional,
    })
}

fn raw(name: &str, config: &str) -> Value {
    json!({"name": name, "type": "Raw", "rawCNIConfig": config})
}

async fn wait_state(cluster: &Cluster, name: &str, state: &str) {
    wait_until(
        &format!("the additional network {name} is {state}"),
        async || {
            let status = cluster.status().await;
            let found = status["additionalNetworks"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|one| one["name"] == name && one["state"] == state);
            if found {
                Ok(())
            } else {
                Err(format!("{status:#}"))
            }
        },
    )
    .await;
}

async fn wait_gone(cluster: &Cluster, kind: weft_plan::Kind, namespace: &str, name: &str) {
    wait_until(
        &format!("{kind} {namespace}/{name} is gone"),
        async || match cluster.get(kind, namespace, name).await {
            None => Ok(()),
            Some(_) => Err("it is there".to_owned()),
        },
    )
    .await;
}

#[tokio::test]
async fn the_proxy_and_additional_networks_come_and_go() {
    let cluster = start().await;
    let _operator = Operator::start_default(&cluster).await;
    let nad = kinds::NETWORK_ATTACHMENT_DEFINITION;
    let bridge = raw("bridge", r#"{"cniVersion": "0.3.1", "type": "bridge"}"#);

    // Only the object named default counts.
    let other = config(&spec(&json!([]))).replace("\"default\"", "\"other\"");
    let refused = cluster
        .control_plane
        .kubectl_with_input(&["apply", "-f", "-"], &other)
        .await;
    assert!(refused.is_err() || cluster.resource().await.is_none());

    // Without Multus the entry waits, and everything else is there.
    cluster.apply(&config(&spec(&json!([bridge])))).await;
    wait_state(&cluster, "bridge", "MultusMissing").await;
    let status = cluster.wait_condition("Available", "True", "", "").await;
    assert_eq!(
        condition(&status, "Degraded")["status"],
        "True",
        "{status:#}"
    );
    assert!(
        cluster.get(kinds::DAEMON_SET, PROXY, PROXY).await.is_some(),
        "no network of ours, and no other proxy: ours is deployed"
    );

    // Its definition comes later, and that is noticed.
    let definition = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../components/network-attachment-definition/crd.yaml"
    ))
    .unwrap();
    cluster.apply(&definition).await;
    wait_state(&cluster, "bridge", "Available").await;
    cluster.wait_available().await;
    let live = cluster.get(nad, "default", "bridge").await.unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(live["spec"]["config"].as_str().unwrap()).unwrap()["type"],
        "bridge"
    );
    assert_eq!(
        live["metadata"]["ownerReferences"][0]["kind"], "NetworkConfig",
        "it goes with the resource"
    );

    // Another next to one that cannot be: its namespace is not there.
    let elsewhere = json!({
        "name": "elsewhere", "namespace": "not-there", "type": "Raw",
        "rawCNIConfig": "{\"cniVersion\": \"0.3.1\", \"type\": \"macvlan\"}"
    });
    let second = raw("second", r#"{"cniVersion": "0.3.1", "type": "macvlan"}"#);
    cluster
        .apply(&config(&spec(&json!([elsewhere, second]))))
        .await;
    wait_state(&cluster, "second", "Available").await;
    wait_state(&cluster, "elsewhere", "Degraded").await;
    wait_gone(&cluster, nad, "default", "bridge").await;
    cluster.wait_condition("Available", "True", "", "").await;
    cluster.kubectl(&["create", "namespace", "not-there"]).await;
    wait_state(&cluster, "elsewhere", "Available").await;

    // The proxy goes when it is switched off, and is put back when somebody deletes it.
    cluster.wait_available().await;
    let uid = async || {
        cluster
            .get(kinds::DAEMON_SET, PROXY, PROXY)
            .await
            .map(|live| live["metadata"]["uid"].clone())
    };
    let old = uid().await;
    cluster.delete(kinds::DAEMON_SET, PROXY, PROXY).await;
    wait_until("the proxy is back", async || match uid().await {
        new if new.is_some() && new != old => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    cluster.wait_available().await;
    cluster
        .patch_resource(json!({"spec": {"deployKubeProxy": false}}))
        .await;
    wait_gone(&cluster, kinds::DAEMON_SET, PROXY, PROXY).await;
    cluster.wait_available().await;
    assert!(
        cluster.get(kinds::NAMESPACE, "", PROXY).await.is_some(),
        "namespaces stay"
    );

    // With another user's proxy there, ours is only deployed on request, and then that is a
    // conflict.
    let theirs = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {
        "name": "kube-proxy", "namespace": "kube-system"
    }, "spec": {
        "selector": {"matchLabels": {"k8s-app": "kube-proxy"}},
        "template": {
            "metadata": {"labels": {"k8s-app": "kube-proxy"}},
            "spec": {"containers": [{"name": "kube-proxy", "image": "kube-proxy"}]}
        }}});
    cluster.apply(&theirs.to_string()).await;
    // Asked for before theirs is seen, ours would be deployed. Without a wish, status reports it.
    cluster
        .patch_resource(json!({"spec": {"deployKubeProxy": null}}))
        .await;
    wait_until("it is seen", async || {
        let notices = cluster.status().await["notices"].to_string();
        notices
            .contains("the cluster has one already")
            .then_some(())
            .ok_or(notices)
    })
    .await;
    cluster
        .patch_resource(json!({"spec": {"deployKubeProxy": true}}))
        .await;
    cluster
        .wait_condition("Degraded", "True", "", "kube-system/kube-proxy")
        .await;
    assert!(cluster.get(kinds::DAEMON_SET, PROXY, PROXY).await.is_none());
    cluster
        .patch_resource(json!({"spec": {"deployKubeProxy": null}}))
        .await;
    cluster.wait_available().await;
    assert!(cluster.get(kinds::DAEMON_SET, PROXY, PROXY).await.is_none());
    // Ours does not begin by itself while theirs is away: it may come back.
    cluster
        .delete(kinds::DAEMON_SET, "kube-system", "kube-proxy")
        .await;
    wait_until("status says how to have ours", async || {
        let notices = cluster.status().await["notices"].to_string();
        notices
            .contains("set spec.deployKubeProxy to true")
            .then_some(())
            .ok_or(notices)
    })
    .await;
    assert!(cluster.get(kinds::DAEMON_SET, PROXY, PROXY).await.is_none());

    // A deletion takes additional networks along, and the proxy not.
    cluster
        .patch_resource(json!({"spec": {"deployKubeProxy": true}}))
        .await;
    cluster.wait_available().await;
    cluster
        .kubectl(&["delete", "networkconfig", "default", "--timeout=60s"])
        .await;
    wait_gone(&cluster, nad, "default", "second").await;
    assert!(cluster.get(kinds::DAEMON_SET, PROXY, PROXY).await.is_some());
}

#[tokio::test]
async fn the_default_network_is_guarded_while_an_entry_waits() {
    let cluster = start().await;
    let _operator = Operator::start_default(&cluster).await;
    let waiting = json!({"spec": {"additionalNetworks": [raw("bridge", r#"{"cniVersion": "0.3.1", "type": "bridge"}"#)]}});
    let mut resource: Value = serde_saphyr::from_str(&minimal()).unwrap();
    resource["spec"]["additionalNetworks"] = waiting["spec"]["additionalNetworks"].clone();
    cluster.apply(&resource.to_string()).await;
    cluster.wait_condition("Available", "True", "", "").await;
    wait_state(&cluster, "bridge", "MultusMissing").await;
    assert_eq!(
        record(&cluster).await["defaultNetwork"]["type"],
        "OpenShiftSDN",
        "recorded, though an entry waits"
    );

    // So the operator refuses an unsafe change, and carries it out when it is forced.
    cluster
        .patch_resource(json!({"spec": {"defaultNetwork": {"type": "None"}}}))
        .await;
    cluster
        .wait_condition(
            "Degraded",
            "True",
            "InvalidOperatorConfig",
            "spec.defaultNetwork.type",
        )
        .await;
    assert!(
        cluster
            .get(kinds::DAEMON_SET, "openshift-sdn", "sdn")
            .await
            .is_some()
    );
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "configmap", RECORD])
        .await;
    wait_until(
        "the change is carried out and recorded",
        async || match record(&cluster).await {
            found if found["defaultNetwork"]["type"] == "None" => Ok(()),
            found => Err(found.to_string()),
        },
    )
    .await;
    wait_gone(&cluster, kinds::DAEMON_SET, "openshift-sdn", "sdn").await;
    wait_state(&cluster, "bridge", "MultusMissing").await;
    // The status lists a deleted network no longer.
    wait_until(
        "nobody speaks of the network that is gone",
        async || match text(&weft(&cluster, &["status"], "").await) {
            shown
                if shown.contains("additional-network/default/bridge")
                    && !shown.contains("DaemonSet sdn") =>
            {
                Ok(())
            }
            shown => Err(shown),
        },
    )
    .await;

    // A record that somebody deletes stays away meanwhile, too.
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "configmap", RECORD])
        .await;
    wait_until("status tells that the record is gone", async || {
        let notices = cluster.status().await["notices"].to_string();
        if notices.contains(RECORD) {
            Ok(())
        } else {
            Err(notices)
        }
    })
    .await;
    assert_eq!(record(&cluster).await, Value::Null);
}

#[tokio::test]
async fn a_failed_entry_that_waits_for_multus_is_not_polled() {
    let cluster = start().await;
    let operator = Operator::start_default(&cluster).await;
    let definition = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../components/network-attachment-definition/crd.yaml"
    ))
    .unwrap();
    cluster.apply(&definition).await;
    let entry = json!({"name": "nowhere", "namespace": "not-there", "type": "Raw", "rawCNIConfig": r#"{"cniVersion": "0.3.1", "type": "bridge"}"#});
    cluster.apply(&config(&spec(&json!([entry])))).await;
    wait_state(&cluster, "nowhere", "Degraded").await;
    cluster
        .kubectl(&[
            "delete",
            "crd",
            "network-attachment-definitions.k8s.cni.cncf.io",
        ])
        .await;
    wait_state(&cluster, "nowhere", "MultusMissing").await;
    // These reconciles send no request, so the test counts them by the metric.
    let renewed = async || {
        cluster
            .get(kinds::LEASE, NAMESPACE, "weft-cluster-network")
            .await
            .unwrap_or_default()["spec"]["renewTime"]
            .clone()
    };
    wait_until("no pass between two renewals of the lease", async || {
        let (before, at) = (passes(&operator).await, renewed().await);
        wait_until("a renewal", async || {
            (renewed().await != at)
                .then_some(())
                .ok_or("not yet".into())
        })
        .await;
        let more = passes(&operator).await - before;
        if more == 0.0 {
            Ok(())
        } else {
            Err(format!("{more} passes"))
        }
    })
    .await;
}
