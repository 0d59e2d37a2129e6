//! What somebody changes on a host against its policies is put right, or told, as the policy says.

use serde_json::json;
use weft_testenv::host_lab::{HostLab, Installation};

use crate::support::{addresses, link, wait_enactment, wait_policy, wait_until};

fn address(policy: &str, interface: &str, address: &str, drift: &str) -> String {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy", "metadata": {"name": policy},
        "spec": {"drift": drift, "desiredState": {"interfaces": [{"name": interface, "type": "ethernet", "state": "up", "mtu": 1450,
            "ipv4": {"enabled": true, "dhcp": false, "address": [{"ip": address, "prefix-length": 24}]}, "ipv6": {"enabled": false}}]}},
    })
    .to_string()
}

#[tokio::test]
async fn drift_is_corrected_or_reported() {
    let weft = Installation::start(HostLab::builder().hosts(1)).await.unwrap();
    let host = weft.host("node-1").unwrap();
    weft.apply(&address("corrected", "eth1", "192.0.2.10", "correct")).await.unwrap();
    weft.apply(&address("reported", "eth2", "198.51.100.10", "report")).await.unwrap();
    wait_policy(&weft, "corrected", "Available").await;
    wait_policy(&weft, "reported", "Available").await;

    host.ip("link set eth1 mtu 1300\naddr del 192.0.2.10/24 dev eth1\n").await.unwrap();
    wait_until("eth1 is put right", async || {
        let now = (link(host, "eth1").await["mtu"].clone(), addresses(host, "eth1").await);
        if now == (json!(1450), vec!["192.0.2.10".to_owned()]) { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;

    host.ip("link set eth2 mtu 1300\n").await.unwrap();
    let drifted = wait_enactment(&weft, "node-1", "reported", "Drifted").await;
    assert_eq!(link(host, "eth2").await["mtu"], 1300, "it is told, not touched");
    let told = drifted["status"].to_string();
    assert!(told.contains("1300") && told.contains("mtu"), "{told}");
    wait_until("the first policy has not drifted", async || {
        let enactment = weft.get("nnce", "node-1.corrected").await.unwrap().unwrap();
        let drifted = crate::support::condition(&enactment, "Drifted")["status"] == "True";
        if drifted { Err(enactment["status"].to_string()) } else { Ok(()) }
    })
    .await;
    // Put right by hand, it is as it should be again.
    host.ip("link set eth2 mtu 1450\n").await.unwrap();
    wait_until("eth2 is as it should be", async || {
        let enactment = weft.get("nnce", "node-1.reported").await.unwrap().unwrap();
        let drifted = crate::support::condition(&enactment, "Drifted")["status"] == "True";
        if drifted { Err(enactment["status"].to_string()) } else { Ok(()) }
    })
    .await;

    // A node that is not managed is left alone.
    weft.patch("nns", "node-1", &json!({"spec": {"managed": false}})).await.unwrap();
    weft.apply(&address("unmanaged", "eth1", "203.0.113.10", "correct")).await.unwrap();
    host.ip("link set eth1 mtu 1200\n").await.unwrap();
    // Long enough that it would have been put right: eth1 was, above, in the same way.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(link(host, "eth1").await["mtu"], 1200);
    assert_eq!(addresses(host, "eth1").await, ["192.0.2.10"]);
}
