//! The agent repairs or reports a change that another user makes on a host against its policies.

use std::time::Duration;

use serde_json::json;
use weft_testenv::host_lab::{HostLab, Installation};

use crate::on_hosts::agent::support::{
    addresses, changes_begun, condition, link, wait_enactment, wait_policy, wait_until,
};

fn address(policy: &str, interface: &str, address: &str, drift: &str) -> String {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy", "metadata": {"name": policy},
        "spec": {"drift": drift, "desiredState": {"interfaces": [{"name": interface, "type": "ethernet", "state": "up", "mtu": 1450,
            "ipv4": {
                "enabled": true, "dhcp": false, "address": [{"ip": address, "prefix-length": 24}]
            }, "ipv6": {"enabled": false}}]}},
    })
    .to_string()
}

#[tokio::test]
async fn drift_is_corrected_or_reported() {
    let mut weft = Installation::start(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let host = weft.host("node-1").unwrap();
    weft.apply(&address("corrected", "eth1", "192.0.2.10", "correct"))
        .await
        .unwrap();
    weft.apply(&address("reported", "eth2", "198.51.100.10", "report"))
        .await
        .unwrap();
    wait_policy(&weft, "corrected", "Available").await;
    wait_policy(&weft, "reported", "Available").await;

    host.ip("link set eth1 mtu 1300\naddr del 192.0.2.10/24 dev eth1\n")
        .await
        .unwrap();
    wait_until("eth1 is put right", async || {
        let now = (
            link(host, "eth1").await["mtu"].clone(),
            addresses(host, "eth1").await,
        );
        if now == (json!(1450), vec!["192.0.2.10".to_owned()]) {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;

    // A transaction repairs every change that comes in its middle.
    wait_until("the agent is done", async || {
        if host.file("/var/lib/weft-agent/transaction.json").exists() {
            Err("a change is under way".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
    host.ip("link set eth2 mtu 1300\n").await.unwrap();
    let drifted = wait_enactment(&weft, "node-1", "reported", "Drifted").await;
    assert_eq!(
        link(host, "eth2").await["mtu"],
        1300,
        "it is told, not touched"
    );
    let told = drifted["status"].to_string();
    assert!(told.contains("1300") && told.contains("mtu"), "{told}");
    wait_until("the first policy has not drifted", async || {
        let enactment = weft.get("nnce", "node-1.corrected").await.unwrap().unwrap();
        let drifted =
            crate::on_hosts::agent::support::condition(&enactment, "Drifted")["status"] == "True";
        if drifted {
            Err(enactment["status"].to_string())
        } else {
            Ok(())
        }
    })
    .await;
    // Put right by hand, it is as it should be again.
    host.ip("link set eth2 mtu 1450\n").await.unwrap();
    wait_until("eth2 is as it should be", async || {
        let enactment = weft.get("nnce", "node-1.reported").await.unwrap().unwrap();
        let drifted =
            crate::on_hosts::agent::support::condition(&enactment, "Drifted")["status"] == "True";
        if drifted {
            Err(enactment["status"].to_string())
        } else {
            Ok(())
        }
    })
    .await;

    // A node that is not managed is left alone: also an agent that has looked at it from first to
    // last has changed nothing.
    weft.kill_agent("node-1").unwrap();
    weft.apply(&address("unmanaged", "eth1", "203.0.113.10", "correct"))
        .await
        .unwrap();
    wait_until("the node may have the policy", async || {
        let enactment = weft
            .get("nnce", "node-1.unmanaged")
            .await
            .unwrap()
            .unwrap_or_default();
        if enactment["spec"]["granted"].is_object() {
            Ok(())
        } else {
            Err(enactment.to_string())
        }
    })
    .await;
    weft.patch("nns", "node-1", &json!({"spec": {"managed": false}}))
        .await
        .unwrap();
    let ignored = wait_policy(&weft, "unmanaged", "Ignored").await;
    let message = condition(&ignored, "Ignored")["message"].as_str().unwrap();
    assert!(
        message.contains("1 nodes ignored that are not managed"),
        "{message}"
    );
    weft.host("node-1")
        .unwrap()
        .ip("link set eth1 mtu 1200\n")
        .await
        .unwrap();
    let mut once = weft.run_agent("node-1", &["once"], &[]).await.unwrap();
    let status = once.wait(Duration::from_secs(300)).unwrap();
    assert!(status.success(), "{status}: {}", once.last_words());
    let host = weft.host("node-1").unwrap();
    assert_eq!(link(host, "eth1").await["mtu"], 1200);
    assert_eq!(addresses(host, "eth1").await, ["192.0.2.10"]);
}

/// The host reports each of these settings in another spelling. A comparison of the words would find
/// drift each time, and report it or apply the policy again.
#[tokio::test]
async fn a_setting_that_the_host_reports_in_another_spelling_is_applied_once() {
    let weft = Installation::start(HostLab::builder().hosts(1).cards(4))
        .await
        .unwrap();
    let host = weft.host("node-1").unwrap();
    let desired = json!({
        "interfaces": [{
            "name": "br7", "type": "linux-bridge", "state": "up", "mtu": "1400",
            "mac-address": "02:00:00:00:0A:0B", "lldp": {"enabled": 0},
            "bridge": {
                "options": {
                    "multicast-router": 1, "mac-ageing-time": "200", "stp": {"enabled": "no"}
                },
                // Not every kernel filters VLANs on bridges.
                "port": [{"name": "eth1", "stp-path-cost": "90", "vlan": {}}]
            }
        }, {
            "name": "eth3", "type": "ethernet", "state": "up",
            "lldp": {"enabled": 1}, "accept-all-mac-addresses": 1
        }],
        "route-rules": {"config": [{
            "ip-from": "192.0.2.0/24", "route-table": "100", "priority": "1000",
            "fwmark": "0x20", "fwmask": "0xFF"
        }]}
    });
    let apply = async |name: &str, drift: &str| {
        let policy = json!({
            "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
            "metadata": {"name": name}, "spec": {"desiredState": desired, "drift": drift}
        });
        weft.apply(&policy.to_string()).await.unwrap();
        wait_policy(&weft, name, "Available").await;
    };
    // Each of these makes the agent compare the host with its policies. A change would have a
    // checkpoint of its own.
    let look = async |number: u32| {
        let link = format!("seen{number}");
        host.ip(&format!(
            "link add {link} type veth peer name peer{number}\n"
        ))
        .await
        .unwrap();
        wait_until("the agent has seen the link", async || {
            let state = weft.get("nns", "node-1").await.unwrap().unwrap();
            let network = state["status"]["currentState"].to_string();
            network.contains(&link).then_some(()).ok_or(network)
        })
        .await;
    };
    apply("corrected", "correct").await;
    let begun = changes_begun(&weft);
    for number in 0..5 {
        look(number).await;
    }
    apply("reported", "report").await;
    look(5).await;
    weft.apply(&address("other", "eth2", "198.51.100.1", "correct"))
        .await
        .unwrap();
    wait_policy(&weft, "other", "Available").await;
    // Each new policy is applied once.
    assert_eq!(changes_begun(&weft), begun + 2);
    for policy in ["corrected", "reported"] {
        let enactment = weft.get("nnce", &format!("node-1.{policy}")).await;
        let enactment = enactment.unwrap().unwrap();
        let drifted = condition(&enactment, "Drifted");
        assert_ne!(drifted["status"], "True", "{policy}: {drifted}");
    }
}

#[tokio::test]
async fn matches_are_found_again_when_interfaces_come() {
    let weft = Installation::start(HostLab::builder().hosts(1).cards(1))
        .await
        .unwrap();
    let host = weft.host("node-1").unwrap();
    let policy = json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy", "metadata": {"name": "late"},
        "spec": {
            "match": {"interfaces": {"name": "late*", "type": "linux-bridge"}},
            "desiredState": {"interfaces": [{"state": "up", "mtu": 1400}]}
        },
    });
    weft.apply(&policy.to_string()).await.unwrap();
    wait_policy(&weft, "late", "Available").await;
    // An interface that nobody has configured is nobody's: with an address NetworkManager takes it
    // for configured.
    let commands = ["late0 203.0.113.1/25", "other0 203.0.113.129/25"].map(|bridge| {
        let (name, address) = bridge.split_once(' ').unwrap();
        format!(
            "link add {name} type bridge\nlink set {name} up\naddress add {address} dev {name}\n"
        )
    });
    host.ip(&commands.concat()).await.unwrap();
    wait_until(
        "the bridge that came later is as the policy says",
        async || {
            let mtu = link(host, "late0").await["mtu"].clone();
            if mtu == 1400 {
                Ok(())
            } else {
                Err(mtu.to_string())
            }
        },
    )
    .await;
    assert_eq!(link(host, "other0").await["mtu"], 1500, "it does not match");
}
