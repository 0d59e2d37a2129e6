//! Addresses of pools: who gets which, what the ledger holds, and when an address is free again.

use serde_json::{Value, json};
use weft_plan::kinds;

use super::{NAMESPACE, agents::*, nmstate, rollout::act_until, start};
use weft_system_tests::*;

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

fn policy(range: &str) -> String {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": "storage"},
        "spec": {
            "maxUnavailable": "100%",
            "addressPools": {"a": {"range": range, "prefixLength": 24}},
            "desiredState": {"interfaces": [{
                "name": "eth1", "ipv4": {"enabled": true, "address": [
                    {"ip": "{{ pool.a.ip }}", "prefix-length": "{{ pool.a.prefix-length }}"}
                ]}
            }]},
        },
    })
    .to_string()
}

async fn ledger(cluster: &Cluster) -> Option<Value> {
    let map = cluster
        .get(kinds::CONFIG_MAP, NAMESPACE, "weft-node-addresses")
        .await?;
    serde_json::from_str(map["data"]["addresses"].as_str()?).ok()
}

/// The addresses in the grants, by node.
async fn granted(cluster: &Cluster) -> Vec<String> {
    let mut found: Vec<String> = enactments(cluster)
        .await
        .iter()
        .map(|one| {
            let ip = &one["spec"]["granted"]["values"]["pools"]["a"]["ip"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            format!("{} {}", text(&one["spec"]["nodeName"]), text(ip))
        })
        .collect();
    found.sort();
    found
}

#[tokio::test]
async fn nodes_get_addresses_and_a_gone_node_releases_its_own() {
    let cluster = start(NODES.len()).await;
    let operator = Operator::start_default(&cluster).await;
    cluster
        .apply(&nmstate("nmstate", &json!({"maxUnavailable": "100%"})))
        .await;
    cluster.wait_available().await;
    let agents = Agents::of(&cluster, &NODES).await;
    cluster.apply(&policy("192.0.2.1-192.0.2.2")).await;
    let message = "node-3: spec.addressPools.a: the range 192.0.2.1-192.0.2.2 has no free address for the node node-3: widen the range, or remove exclusions";
    let live = wait_says(&cluster, "storage", "AddressProblem", message).await;
    assert_eq!(
        condition(&live["status"], "AddressProblem")["reason"],
        "PoolExhausted"
    );
    act_until(
        &cluster,
        &agents,
        "storage",
        3,
        "Progressing",
        "Policy is progressing 2/3 nodes finished",
    )
    .await;
    assert_eq!(
        granted(&cluster).await,
        ["node-1 192.0.2.1", "node-2 192.0.2.2", "node-3 "]
    );
    let waits = enactment(&cluster, "node-3", "storage").await.unwrap();
    assert_eq!(
        waits["spec"]["wanted"]["waits"]["reason"],
        "WaitingForAddress"
    );
    let live = cluster
        .get(kinds::NODE_NETWORK_CONFIGURATION_POLICY, "", "storage")
        .await
        .unwrap();
    assert_eq!(
        live["status"]["addresses"],
        json!([
            {"node": "node-1", "pool": "a", "ip": "192.0.2.1", "prefixLength": 24},
            {"node": "node-2", "pool": "a", "ip": "192.0.2.2", "prefixLength": 24},
        ])
    );

    // A restarted operator keeps them, and a node that goes releases its own.
    operator.kill();
    let _operator = Operator::start_default(&cluster).await;
    cluster.delete(kinds::NODE, "", "node-1").await;
    act_until(
        &cluster,
        &agents,
        "storage",
        3,
        "Available",
        "2/2 nodes successfully configured",
    )
    .await;
    assert_eq!(
        granted(&cluster).await,
        ["node-2 192.0.2.2", "node-3 192.0.2.1"]
    );

    // Without its ledger, the operator goes by the grants.
    cluster
        .delete(kinds::CONFIG_MAP, NAMESPACE, "weft-node-addresses")
        .await;
    wait_until("the ledger is there again", async || {
        let now = ledger(&cluster).await.ok_or("it is not there")?;
        let is_so = now["192.0.2.1"]["node"] == "node-3" && now["192.0.2.2"]["node"] == "node-2";
        if is_so {
            Ok(())
        } else {
            Err(format!("{now:#}"))
        }
    })
    .await;

    // The policy goes, and the hosts may keep the addresses. No other node gets them.
    cluster
        .kubectl(&["delete", "nncp", "storage", "--timeout=60s"])
        .await;
    wait_until("the addresses are to be left", async || {
        let now = ledger(&cluster).await.ok_or("it is not there")?;
        let is_so = now["192.0.2.1"]["leaves"] == "Unseen";
        if is_so {
            Ok(())
        } else {
            Err(format!("{now:#}"))
        }
    })
    .await;
}
