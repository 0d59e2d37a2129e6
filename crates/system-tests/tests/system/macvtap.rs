//! Macvtap's ConfigMap: made where it is missing, and the user's from then on.

use serde_json::{Value, json};
use weft_plan::kinds;

use weft_system_tests::*;

const DEFAULT: &str = "macvtap-deviceplugin-config";

#[tokio::test]
async fn the_config_is_made_once_and_another_one_is_waited_for() {
    let cluster = Cluster::start_default().await;
    let _operator = Operator::start_default(&cluster).await;
    let configuration = |macvtap: Value| {
        let api = "networkaddonsoperator.network.kubevirt.io/v1";
        json!({
            "apiVersion": api, "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
            "spec": {"macvtap": macvtap}
        })
        .to_string()
    };
    let data = async |name: &str| {
        cluster
            .get(kinds::CONFIG_MAP, NAMESPACE, name)
            .await
            .map(|map| map["data"].clone())
    };
    cluster.apply(&configuration(json!({}))).await;
    cluster.wait_available().await;
    assert_eq!(data(DEFAULT).await, Some(json!({"DP_MACVTAP_CONF": "[]"})));

    // The user's edit stays, also when Weft repairs another part of the component.
    let devices = json!({"DP_MACVTAP_CONF": r#"[{"name": "dataplane", "lowerDevice": "eth0", "mode": "bridge", "capacity": 50}]"#});
    cluster
        .patch(
            kinds::CONFIG_MAP,
            NAMESPACE,
            DEFAULT,
            json!({"data": devices}),
        )
        .await;
    cluster
        .delete(kinds::SERVICE_ACCOUNT, NAMESPACE, "macvtap-cni")
        .await;
    wait_until("the ServiceAccount is back", async || {
        cluster
            .get(kinds::SERVICE_ACCOUNT, NAMESPACE, "macvtap-cni")
            .await
            .map(drop)
            .ok_or("it is gone".to_owned())
    })
    .await;
    assert_eq!(data(DEFAULT).await.as_ref(), Some(&devices));

    // Another one is the user's own: named while it is missing, and noticed when it comes.
    cluster
        .apply(&configuration(json!({"devicePluginConfig": "mine"})))
        .await;
    cluster
        .wait_condition(
            "Progressing",
            "True",
            "Deploying",
            "waits for ConfigMap cluster-network-addons/mine (does not exist)",
        )
        .await;
    assert_eq!(data("mine").await, None);
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "create",
            "configmap",
            "mine",
            "--from-literal=DP_MACVTAP_CONF=[]",
        ])
        .await;
    cluster.wait_available().await;
    assert_eq!(
        data(DEFAULT).await.as_ref(),
        Some(&devices),
        "kept while macvtap is there"
    );

    // Where the user's is there first, it is left as it is, and stays when macvtap goes.
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster"])
        .await;
    assert_eq!(data(DEFAULT).await, None, "Weft made it");
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "create",
            "configmap",
            DEFAULT,
            "--from-literal=DP_MACVTAP_CONF=mine",
        ])
        .await;
    cluster.apply(&configuration(json!({}))).await;
    cluster.wait_available().await;
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster"])
        .await;
    assert_eq!(
        data(DEFAULT).await,
        Some(json!({"DP_MACVTAP_CONF": "mine"}))
    );
}
