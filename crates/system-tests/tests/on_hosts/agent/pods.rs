//! A pod that the bridge plugin of CNI has attached to a bridge of a policy: its port stays there,
//! whatever becomes of the bridge.

use serde_json::{Value, json};
use weft_testenv::host_lab::{Capability, Host, HostLab, Installation, Program, capabilities, cni};

use crate::on_hosts::agent::support::{Halt, link, wait_enactment, wait_policy, wait_until};

fn policy(name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": name}, "spec": spec
    })
    .to_string()
}

fn bridge(mtu: u32) -> Value {
    json!({"interfaces": [{"name": "br1", "type": "linux-bridge", "state": "up", "mtu": mtu,
    "ipv4": {
        "enabled": true, "dhcp": false, "address": [{"ip": "172.31.1.77", "prefix-length": 24}]
    }, "ipv6": {"enabled": false},
    "bridge": {
        "options": {"stp": {"enabled": false}}, "port": [{"name": "eth1", "vlan": {}}]
    }}]})
}

fn no_bridge() -> Value {
    json!({"interfaces": [{"name": "br1", "type": "linux-bridge", "state": "absent"}]})
}

async fn start_agent(weft: &Installation) -> Program {
    weft.run_agent(
        "node-1",
        &[],
        &[("NNCP_MAX_RETRIES", "1"), ("WEFT_AGENT_PROBE_SECONDS", "5")],
    )
    .await
    .unwrap()
}

async fn wait_reachable(host: &Host, port: &str) {
    wait_until("the pod is reachable over the bridge", async || {
        let found = link(host, port).await;
        if found["master"] != "br1" {
            return Err(format!("{found:#}"));
        }
        let ping = [
            "ip",
            "netns",
            "exec",
            "pod",
            "ping",
            "-c",
            "1",
            "-W",
            "1",
            "172.31.1.1",
        ];
        host.exec(&ping)
            .await
            .map(drop)
            .map_err(|error| format!("{error:#}"))
    })
    .await;
}

#[tokio::test]
async fn pods_of_a_cni_plugin_keep_their_bridge() {
    let lacking = capabilities::lacking(&[Capability::CniPlugins]);
    if !lacking.is_empty() {
        capabilities::skip("pods_of_a_cni_plugin_keep_their_bridge", &lacking);
        return;
    }
    let weft = Installation::without_agents(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let mut agent = start_agent(&weft).await;
    let host = weft.host("node-1").unwrap();
    weft.apply(&policy("br1", &json!({"desiredState": bridge(1500)})))
        .await
        .unwrap();
    wait_policy(&weft, "br1", "Available").await;
    host.exec(&["ip", "netns", "add", "pod"]).await.unwrap();
    let port = cni::attach(host, "pod", "br1", "172.31.1.78/24")
        .await
        .unwrap();
    wait_reachable(host, &port).await;
    wait_until("the agent knows of the port", async || {
        let known = std::fs::read_to_string(host.file("/var/lib/weft-agent/ports.json"))
            .unwrap_or_default();
        if known.contains(&port) {
            Ok(())
        } else {
            Err(known)
        }
    })
    .await;

    // Somebody drops it, and then the bridge.
    host.ip(&format!("link set {port} nomaster\n"))
        .await
        .unwrap();
    wait_reachable(host, &port).await;
    let index = link(host, "br1").await["ifindex"].clone();
    host.exec(&["nmcli", "connection", "delete", "br1"])
        .await
        .unwrap();
    // The answer can come before the bridge goes.
    wait_until("another bridge is there", async || {
        let now = link(host, "br1").await["ifindex"].clone();
        if now.is_null() || now == index {
            Err(now.to_string())
        } else {
            Ok(())
        }
    })
    .await;
    wait_reachable(host, &port).await;

    // A change, and one that deletes the bridge, and is rolled back as it cuts the node off.
    weft.apply(&policy("br1", &json!({"desiredState": bridge(1400)})))
        .await
        .unwrap();
    wait_policy(&weft, "br1", "Available").await;
    assert_eq!(link(host, "br1").await["mtu"], 1400);
    wait_reachable(host, &port).await;
    let index = link(host, "br1").await["ifindex"].clone();
    let mut cut = no_bridge();
    cut["routes"] = json!({
        "config": [
            {
                "destination": "172.31.0.2/32", "next-hop-interface": "eth0",
                "next-hop-address": "172.31.0.99"
            }
        ]
    });
    weft.apply(&policy("cut", &json!({"priority": 1, "desiredState": cut})))
        .await
        .unwrap();
    wait_policy(&weft, "cut", "Degraded").await;
    assert_ne!(
        link(host, "br1").await["ifindex"],
        index,
        "it was deleted, and came back"
    );
    wait_reachable(host, &port).await;
    weft.lab()
        .kubectl(&["delete", "nncp", "cut"])
        .await
        .unwrap();

    // Killed while the bridge is gone: the next agent brings back the bridge, and the port on it.
    let hold = Halt::at(host, "Probe");
    weft.apply(&policy("br1", &json!({"desiredState": no_bridge()})))
        .await
        .unwrap();
    hold.reached().await;
    assert!(link(host, "br1").await.is_null() && link(host, &port).await["master"].is_null());
    agent.kill().unwrap();
    weft.apply(&policy("br1", &json!({"desiredState": bridge(1400)})))
        .await
        .unwrap();
    drop(hold);
    agent = start_agent(&weft).await;
    wait_policy(&weft, "br1", "Available").await;
    wait_reachable(host, &port).await;
    let outcome =
        wait_enactment(&weft, "node-1", "br1", "Available").await["status"]["outcome"].clone();
    assert_eq!(outcome["phase"], "Probe", "{outcome}");
    agent.check_running().unwrap();
}
