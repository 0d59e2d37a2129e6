//! etcd is restored from a backup while agents run: what they did since, and have noted on their
//! disks, was never asked for.

use serde_json::{Value, json};
use weft_testenv::host_lab::{HostLab, Installation};

use crate::on_hosts::agent::support::{
    addresses, wait_enactment, wait_policy, wait_reported, wait_until,
};

fn policy(name: &str, interface: &str, address: &str) -> String {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy", "metadata": {"name": name},
        "spec": {"desiredState": {"interfaces": [{"name": interface, "type": "ethernet", "state": "up",
            "ipv4": {
                "enabled": true, "dhcp": false, "address": [{"ip": address, "prefix-length": 24}]
            }, "ipv6": {"enabled": false}}]}},
    })
    .to_string()
}

/// Waits until an interface has this address and no other, on the host and in its report.
async fn wait_address(weft: &Installation, interface: &str, address: &str) {
    let host = weft.host("node-1").unwrap();
    wait_until(&format!("{interface} has {address}"), async || {
        let now = addresses(host, interface).await;
        if now == [address] {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;
    let ips = |found: &Value| {
        found["ipv4"]["address"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| one["ip"].clone())
            .collect::<Vec<_>>()
    };
    wait_reported(weft, "node-1", interface, |found| {
        ips(found) == [json!(address)]
    })
    .await;
}

#[tokio::test]
async fn a_host_follows_the_policies_of_a_restored_backup() {
    let weft = Installation::start(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let control_plane = weft.lab().control_plane();
    weft.apply(&policy("kept", "eth1", "192.0.2.10"))
        .await
        .unwrap();
    wait_policy(&weft, "kept", "Available").await;
    wait_address(&weft, "eth1", "192.0.2.10").await;
    let backup = control_plane.snapshot().await.unwrap();

    weft.apply(&policy("kept", "eth1", "192.0.2.20"))
        .await
        .unwrap();
    wait_policy(&weft, "kept", "Available").await;
    weft.apply(&policy("later", "eth2", "198.51.100.20"))
        .await
        .unwrap();
    wait_policy(&weft, "later", "Available").await;
    wait_address(&weft, "eth1", "192.0.2.20").await;
    wait_address(&weft, "eth2", "198.51.100.20").await;
    // Long enough for all that follows: an agent that waits for a version of the lost future waits
    // for ever.
    control_plane.spend_revisions(1500).await.unwrap();
    let lost = control_plane.revision().await.unwrap();

    control_plane.restore(&backup).await.unwrap();
    // The host has the state that the restored enactment grants. The agent leaves and reports a
    // state that no policy asks for.
    wait_address(&weft, "eth1", "192.0.2.10").await;
    wait_address(&weft, "eth2", "198.51.100.20").await;
    wait_enactment(&weft, "node-1", "kept", "Available").await;
    wait_policy(&weft, "kept", "Available").await;

    // The same generation as in the lost future, with something else in it, and the same name with
    // another policy.
    weft.apply(&policy("kept", "eth1", "192.0.2.30"))
        .await
        .unwrap();
    wait_policy(&weft, "kept", "Available").await;
    wait_address(&weft, "eth1", "192.0.2.30").await;
    weft.apply(&policy("later", "eth2", "198.51.100.30"))
        .await
        .unwrap();
    wait_policy(&weft, "later", "Available").await;
    wait_address(&weft, "eth2", "198.51.100.30").await;
    assert!(
        control_plane.revision().await.unwrap() < lost,
        "the lost future was long enough"
    );
}

/// Waits until the operator has granted this address to the host.
async fn wait_granted(weft: &Installation, name: &str, address: &str) {
    wait_until(&format!("{name} is granted with {address}"), async || {
        let enactment = weft
            .get("nnce", &format!("node-1.{name}"))
            .await
            .map_err(|error| error.to_string())?
            .ok_or("it is not there")?;
        if enactment["spec"]["granted"].to_string().contains(address) {
            Ok(())
        } else {
            Err(enactment["spec"].to_string())
        }
    })
    .await;
}

#[tokio::test]
async fn grants_of_a_restored_backup_are_acknowledged_again() {
    let weft = Installation::start(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let (control_plane, host) = (weft.lab().control_plane(), weft.host("node-1").unwrap());
    // In the backup the agent has not begun yet.
    weft.lab().cut_api(host).unwrap();
    weft.apply(&policy("kept", "eth1", "192.0.2.10"))
        .await
        .unwrap();
    wait_granted(&weft, "kept", "192.0.2.10").await;
    let backup = control_plane.snapshot().await.unwrap();
    weft.lab().mend_api(host).unwrap();
    wait_policy(&weft, "kept", "Available").await;
    control_plane.spend_revisions(1500).await.unwrap();
    let lost = control_plane.revision().await.unwrap();

    control_plane.restore(&backup).await.unwrap();
    // The agent has done it already, and says so to an API server that does not know.
    wait_enactment(&weft, "node-1", "kept", "Available").await;
    wait_policy(&weft, "kept", "Available").await;
    assert!(
        control_plane.revision().await.unwrap() < lost,
        "the lost future was long enough"
    );

    // The agent is away from before the restoration until something else is granted, in the same
    // generation as in the lost future.
    weft.apply(&policy("kept", "eth1", "192.0.2.20"))
        .await
        .unwrap();
    wait_policy(&weft, "kept", "Available").await;
    control_plane.spend_revisions(1500).await.unwrap();
    let lost = control_plane.revision().await.unwrap();
    weft.lab().cut_api(host).unwrap();
    control_plane.restore(&backup).await.unwrap();
    weft.apply(&policy("kept", "eth1", "192.0.2.30"))
        .await
        .unwrap();
    wait_granted(&weft, "kept", "192.0.2.30").await;
    weft.lab().mend_api(host).unwrap();
    wait_address(&weft, "eth1", "192.0.2.30").await;
    wait_enactment(&weft, "node-1", "kept", "Available").await;
    wait_policy(&weft, "kept", "Available").await;
    assert!(
        control_plane.revision().await.unwrap() < lost,
        "the lost future was long enough"
    );
}
