//! The agent restores the parts that a rollback of NetworkManager leaves.

use serde_json::json;
use weft_testenv::host_lab::{HostLab, Installation};

use crate::on_hosts::agent::support::{
    Halt, condition, network_manager, wait_enactment, wait_policy, wait_until,
};

/// NetworkManager 1.42 keeps a global DNS configuration through its own rollback.
#[tokio::test]
async fn a_rollback_restores_the_name_servers_also_where_there_were_none() {
    let weft = Installation::without_agents(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let variables = [("NNCP_MAX_RETRIES", "1"), ("WEFT_AGENT_PROBE_SECONDS", "5")];
    let _agent = weft.run_agent("node-1", &[], &variables).await.unwrap();
    let host = weft.host("node-1").unwrap();
    let global = async || {
        let manager = "org.freedesktop.NetworkManager";
        let words = [
            "get-property",
            "/org/freedesktop/NetworkManager",
            manager,
            "GlobalDnsConfiguration",
        ];
        network_manager(host, &words).await
    };
    let servers = async || host.exec(&["cat", "/etc/resolv.conf"]).await.unwrap();
    let without = "nmcli connection modify eth0 ipv4.dns '' && nmcli --wait 30 connection up eth0";
    host.exec(&["sh", "-c", without]).await.unwrap();
    wait_until("the host has no name server", async || {
        let now = servers().await;
        let has_one = now.contains("nameserver");
        if has_one { Err(now) } else { Ok(()) }
    })
    .await;
    let before = (global().await, servers().await);
    // Nothing at the first address answers, and nothing at the second one forwards anything.
    let policy = json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": "dead-dns"},
        "spec": {"desiredState": {
            "dns-resolver": {"config": {"server": ["192.0.2.53"], "search": ["example.com"]}},
            "routes": {"config": [{
                "destination": "172.31.0.2/32", "next-hop-interface": "eth0",
                "next-hop-address": "172.31.0.99",
            }]},
        }},
    });
    weft.apply(&policy.to_string()).await.unwrap();
    let failed = wait_enactment(&weft, "node-1", "dead-dns", "Failing").await;
    assert_eq!(failed["status"]["outcome"]["phase"], "Probe", "{failed:#}");
    assert_eq!((global().await, servers().await), before);
}

#[tokio::test]
async fn a_rollback_that_leaves_something_is_reported_until_another_change() {
    let weft = Installation::without_agents(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let variables = [("NNCP_MAX_RETRIES", "1"), ("WEFT_AGENT_PROBE_SECONDS", "5")];
    let _agent = weft.run_agent("node-1", &[], &variables).await.unwrap();
    let host = weft.host("node-1").unwrap();
    let policy = |name: &str, interface: &str, routes: &serde_json::Value| {
        json!({
            "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
            "metadata": {"name": name},
            "spec": {"desiredState": {
                "interfaces": [
                    {"name": interface, "type": "ethernet", "state": "up", "mtu": 1400}
                ],
                "routes": {"config": routes},
            }},
        })
        .to_string()
    };
    let incomplete = async || {
        let object = weft.get("nns", "node-1").await.unwrap().unwrap_or_default();
        condition(&object, "RollbackIncomplete").clone()
    };
    let configured = "nmcli connection add type ethernet ifname eth2 con-name eth2 ipv4.method manual ipv4.addresses 198.51.100.1/24 ipv6.method disabled && nmcli --wait 30 connection up eth2";
    host.exec(&["sh", "-c", configured]).await.unwrap();
    let hold = Halt::at(host, "Rollback");
    let wrong_gateway = json!([
        {"state": "absent", "destination": "0.0.0.0/0", "next-hop-interface": "eth0"},
        {
            "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
            "next-hop-address": "172.31.0.99",
        },
    ]);
    weft.apply(&policy("cut", "eth2", &wrong_gateway))
        .await
        .unwrap();
    hold.reached().await;
    // No change brings back a card.
    host.ip("link delete eth2\n").await.unwrap();
    drop(hold);
    let failed = wait_enactment(&weft, "node-1", "cut", "Failing").await;
    assert_eq!(
        failed["status"]["outcome"]["phase"], "Rollback",
        "{failed:#}"
    );
    let reported = wait_until("the rest is reported", async || {
        let found = incomplete().await;
        let holds = found["status"] == "True";
        if holds {
            Ok(found)
        } else {
            Err(found.to_string())
        }
    })
    .await;
    assert_eq!(reported["reason"], "NotRestored");
    assert!(
        reported["message"].to_string().contains("eth2"),
        "{reported}"
    );

    weft.lab()
        .kubectl(&["delete", "nncp", "cut"])
        .await
        .unwrap();
    weft.apply(&policy("later", "eth1", &json!([])))
        .await
        .unwrap();
    wait_policy(&weft, "later", "Available").await;
    wait_until("another change ends the report", async || {
        let found = incomplete().await;
        if found.is_null() {
            Ok(())
        } else {
            Err(found.to_string())
        }
    })
    .await;
}
