//! A host starts again with what NetworkManager has on its disk. The agent may be there first.

use serde_json::{Value, json};
use weft_testenv::host_lab::{HostLab, Installation};

use crate::on_hosts::agent::support::{
    changes_begun, condition, wait_policy, wait_quiet, wait_reported, wait_until,
};

/// How many bridges there are. NetworkManager needs some seconds for them.
const BRIDGES: usize = 60;

/// A bridge with an address over a card of another MTU, a card that asks for a lease, and many
/// bridges more.
fn policy() -> String {
    let mut interfaces = json!([
        {
            "name": "br1", "type": "linux-bridge", "state": "up", "mtu": 1400,
            "ipv4": {
                "enabled": true, "dhcp": false,
                "address": [{"ip": "192.0.2.1", "prefix-length": 24}]
            },
            "bridge": {"options": {"stp": {"enabled": false}}, "port": [{"name": "eth1", "vlan": {}}]}
        },
        {"name": "eth1", "type": "ethernet", "state": "up", "mtu": 1400},
        {
            "name": "eth2", "type": "ethernet", "state": "up",
            "ipv4": {"enabled": true, "dhcp": true}
        },
    ]);
    let further = (0..BRIDGES).map(|number| {
        json!({
            "name": format!("x{number}"), "type": "linux-bridge", "state": "up",
            "ipv4": {
                "enabled": true, "dhcp": false,
                "address": [{"ip": format!("198.51.100.{number}"), "prefix-length": 32}]
            },
            "bridge": {"options": {"stp": {"enabled": false}}, "port": []}
        })
    });
    interfaces.as_array_mut().unwrap().extend(further);
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": "networks"},
        "spec": {"desiredState": {
            "interfaces": interfaces,
            "routes": {"config": [{
                "destination": "203.0.113.0/24", "next-hop-interface": "br1",
                "next-hop-address": "192.0.2.2", "metric": 150
            }]}
        }},
    })
    .to_string()
}

/// NetworkManager's start waits for a link until the test plugs it in, 45 s at most. The agent waits
/// longer.
const PATIENT: &str =
    r"printf '[device]\ncarrier-wait-timeout=45000\n' >/etc/NetworkManager/conf.d/patient.conf";

async fn wait_backend(weft: &Installation, reason: &str) {
    wait_until(&format!("the backend is {reason}"), async || {
        let object = weft.get("nns", "node-1").await;
        let object = object
            .map_err(|error| error.to_string())?
            .unwrap_or(Value::Null);
        let backend = condition(&object, "Backend");
        (backend["reason"] == reason)
            .then_some(())
            .ok_or(backend.to_string())
    })
    .await;
}

#[tokio::test]
async fn after_a_reboot_the_agent_verifies_and_changes_nothing() {
    let mut weft = Installation::start(HostLab::builder().hosts(1))
        .await
        .unwrap();
    weft.apply(&policy()).await.unwrap();
    wait_policy(&weft, "networks", "Available").await;
    let has_lease = |eth2: &Value| eth2["ipv4"]["address"].to_string().contains("172.31.2.");
    wait_reported(&weft, "node-1", "eth2", has_lease).await;
    let enactment = weft.get("nnce", "node-1.networks").await.unwrap().unwrap();
    let begun = changes_begun(&weft);
    assert!(begun > 0, "the log names each change");

    weft.kill_agent("node-1").unwrap();
    // The way to the API server stays, so that the agent knows its policies before NetworkManager is
    // there.
    weft.host("node-1")
        .unwrap()
        .lose_power(&["eth0"])
        .await
        .unwrap();
    weft.start_agent("node-1").await.unwrap();
    wait_backend(&weft, "ReadOnly").await;
    wait_reported(&weft, "node-1", "br1", Value::is_null).await;
    // A switch needs some seconds until its port is up. NetworkManager waits for that at its start,
    // and so does the agent, which sees a card without a lease meanwhile.
    let host = weft.host("node-1").unwrap();
    host.exec(&["sh", "-c", PATIENT]).await.unwrap();
    weft.lab().cable(host, 2, false).unwrap();
    let plug_in = async {
        wait_backend(&weft, "NetworkManager").await;
        // The agent has looked at all that NetworkManager brings, and at the card without a link.
        let last = format!("x{}", BRIDGES - 1);
        wait_reported(&weft, "node-1", &last, |bridge| bridge["state"] == "up").await;
        wait_reported(&weft, "node-1", "eth2", |eth2| eth2["state"] != "up").await;
        // An agent that takes this for drift has begun to change the host by then.
        wait_quiet(&weft).await;
        weft.lab().cable(host, 2, true).unwrap();
    };
    let (started, ()) = tokio::join!(host.start_network_manager(), plug_in);
    started.unwrap();

    let of_bridge = |bridge: &Value| bridge["ipv4"]["address"][0]["ip"] == "192.0.2.1";
    wait_reported(&weft, "node-1", "br1", of_bridge).await;
    wait_reported(&weft, "node-1", "eth2", has_lease).await;
    wait_policy(&weft, "networks", "Available").await;
    assert_eq!(changes_begun(&weft), begun, "the agent changed the host");
    let now = weft.get("nnce", "node-1.networks").await.unwrap().unwrap();
    assert_eq!(now["status"], enactment["status"]);
    weft.check_running().unwrap();
}
