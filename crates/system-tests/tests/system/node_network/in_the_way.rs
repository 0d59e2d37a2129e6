//! Another user's objects and finalizers in the way of enactments: watches report when they are
//! gone, and until then the operator sends no request.

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::proxy::Proxy;

use super::{agents::*, nmstate, rollout::act_until, start};
use crate::system::{harness::*, install};

#[tokio::test]
async fn an_obstacle_to_an_enactment_costs_no_request_until_it_is_gone() {
    let cluster = start(1).await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    cluster.apply(&nmstate("nmstate", &json!({}))).await;
    cluster.wait_available().await;
    let agents = Agents::of(&cluster, &["node-1"]).await;

    // An object that names no policy has the enactment's name.
    let theirs = json!({
        "apiVersion": "nmstate.io/v1beta1", "kind": "NodeNetworkConfigurationEnactment",
        "metadata": {"name": "node-1.br1"}
    });
    cluster.apply(&theirs.to_string()).await;
    let policy = "{apiVersion: nmstate.io/v1, kind: NodeNetworkConfigurationPolicy, metadata: {name: br1}, spec: {desiredState: {}}}";
    cluster.apply(policy).await;
    wait_until("the policy says what is in the way", async || {
        let policy = cluster
            .get(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", "br1")
            .await
            .unwrap();
        let status = policy["status"].to_string();
        if status.contains("kubectl delete nnce node-1.br1") {
            Ok(())
        } else {
            Err(status)
        }
    })
    .await;
    install::becomes_idle(&cluster, &proxy).await;
    cluster
        .delete(
            kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT,
            "",
            "node-1.br1",
        )
        .await;
    wait_decisions(&cluster, "br1", &[("node-1", "Granted 1")]).await;
    act_until(
        &cluster,
        &agents,
        "br1",
        1,
        "Available",
        "1/1 nodes successfully configured",
    )
    .await;

    // Somebody's finalizer holds the enactment when its policy goes.
    let hold = async |finalizers| {
        let patch = json!({"metadata": {"finalizers": finalizers}});
        cluster
            .patch(
                kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT,
                "",
                "node-1.br1",
                patch,
            )
            .await;
    };
    hold(json!(["example.com/hold"])).await;
    cluster
        .kubectl(&["delete", "nncp", "br1", "--timeout=60s"])
        .await;
    wait_until("the enactment is being deleted", async || {
        let live = enactment(&cluster, "node-1", "br1")
            .await
            .ok_or("it is gone")?;
        if live["metadata"]["deletionTimestamp"].is_null() {
            Err("not yet".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
    install::becomes_idle(&cluster, &proxy).await;
    hold(json!(null)).await;
    wait_decisions(&cluster, "br1", &[]).await;
}
