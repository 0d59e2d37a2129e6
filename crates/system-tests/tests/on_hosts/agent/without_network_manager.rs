//! A policy goes over hosts without NetworkManager, by the operator and the pod's two containers.

use serde_json::{Value, json};
use weft_testenv::host_lab::{HostLab, Installation};

use crate::on_hosts::agent::support::{Halt, addresses, condition, link, wait_policy, wait_until};

/// A bridge over the second card.
fn policy(mtu: u32) -> String {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": "data"},
        "spec": {"maxUnavailable": 1, "desiredState": {"interfaces": [
            {"name": "eth1", "type": "ethernet", "state": "up", "mtu": mtu},
            {
                "name": "br1", "type": "linux-bridge", "state": "up", "mtu": mtu,
                "ipv4": {
                    "enabled": true, "dhcp": false,
                    "address": [{"ip": "192.0.2.1", "prefix-length": 24}]
                },
                "bridge": {"port": [{"name": "eth1", "vlan": {}}]}
            },
        ]}},
    })
    .to_string()
}

const NMSTATE: &str = r#"{"apiVersion": "nmstate.io/v1", "kind": "NMState", "metadata": {"name": "nmstate"},
    "spec": {"withoutNetworkManager": "ConfigureKernel"}}"#;

async fn assert_made(weft: &Installation, mtu: u32) {
    for host in weft.lab().hosts() {
        for name in ["br1", "eth1"] {
            assert_eq!(
                link(host, name).await["mtu"],
                mtu,
                "{name} of {}",
                host.name()
            );
        }
        assert_eq!(addresses(host, "br1").await, ["192.0.2.1"]);
        assert_eq!(link(host, "eth1").await["master"], "br1");
    }
}

#[tokio::test]
async fn the_operator_rolls_out_to_hosts_without_network_manager() {
    let builder = HostLab::builder().hosts(2).cards(2).network_manager(false);
    let mut weft = Installation::without_agents(builder).await.unwrap();
    weft.apply(NMSTATE).await.unwrap();
    let mut guardians = vec![];
    for host in ["node-1", "node-2"] {
        let guardian = wait_until("the pod has a guardian", async || {
            let started = weft.run_guardian(host).await;
            started.map_err(|error| error.to_string())
        });
        guardians.push(guardian.await);
        weft.start_agent(host).await.unwrap();
    }
    weft.apply(&policy(1500)).await.unwrap();
    wait_policy(&weft, "data", "Available").await;
    assert_made(&weft, 1500).await;
    let report = weft.get("nns", "node-1").await.unwrap().unwrap();
    assert_eq!(condition(&report, "Backend")["reason"], "Kernel");

    // A client of the host gives a port an address. The agent takes it away.
    let first = weft.host("node-1").unwrap();
    first
        .ip("address add 198.51.100.9/24 dev eth1\n")
        .await
        .unwrap();
    wait_until("the port has no address", async || {
        let left = addresses(first, "eth1").await;
        left.is_empty().then_some(()).ok_or(format!("{left:?}"))
    })
    .await;
    wait_policy(&weft, "data", "Available").await;
    assert_made(&weft, 1500).await;

    // An agent is killed in the middle of a change. No other one starts.
    let first = weft.host("node-1").unwrap();
    let halt = Halt::at(first, "Probe");
    weft.apply(&policy(1400)).await.unwrap();
    halt.reached().await;
    assert_eq!(link(first, "br1").await["mtu"], 1400);
    weft.kill_agent("node-1").unwrap();
    drop(halt);
    let first = weft.host("node-1").unwrap();
    wait_until("the guardian has rolled back", async || {
        let (bridge, card) = (link(first, "br1").await, link(first, "eth1").await);
        let is_back = |one: &Value| one["mtu"] == 1500;
        (is_back(&bridge) && is_back(&card))
            .then_some(())
            .ok_or(format!("{bridge:#}\n{}", guardians[0].last_words()))
    })
    .await;
    weft.start_agent("node-1").await.unwrap();
    wait_policy(&weft, "data", "Available").await;
    assert_made(&weft, 1400).await;
    for guardian in &mut guardians {
        guardian.check_running().unwrap();
    }
}
