//! A change of the host is soon in its NodeNetworkState, and the agent writes nothing without a
//! change.

use std::{collections::BTreeSet, net::TcpListener, time::Duration};

use serde_json::json;
use weft_testenv::host_lab::{HostLab, Installation};

use crate::on_hosts::agent::support::{
    interface, reported, wait_quiet, wait_reported, wait_until, writes,
};

/// The kernel's number of a connection that two ends know of.
const ESTABLISHED: &str = " 01";

/// Returns the open sockets of a process: protocol, own address and state, as in `/proc/net`.
fn sockets(pid: u32) -> Vec<String> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let inodes: BTreeSet<_> = links
        .filter_map(|link| {
            Some(
                link.to_str()?
                    .strip_prefix("socket:[")?
                    .strip_suffix(']')?
                    .to_owned(),
            )
        })
        .collect();
    let mut sockets = Vec::new();
    for protocol in [
        "tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6",
    ] {
        // A kernel may be built without one of them.
        let table =
            std::fs::read_to_string(format!("/proc/{pid}/net/{protocol}")).unwrap_or_default();
        for fields in table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
        {
            if inodes.contains(fields[9]) {
                sockets.push(format!("{protocol} {} {}", fields[1], fields[3]));
            }
        }
    }
    sockets
}

#[tokio::test]
async fn a_change_of_a_host_is_reported_and_nothing_else_is_written() {
    let mut weft = Installation::start(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let eth0 = wait_reported(&weft, "node-1", "eth0", |eth0| eth0["state"] == "up").await;
    assert_eq!(eth0["ipv4"]["address"][0]["ip"], "172.31.0.11", "{eth0:#}");
    let state = reported(&weft, "node-1").await.unwrap();
    assert!(
        interface(&state, "eth1").is_object()
            && state["routes"]["running"].is_array()
            && state["dns-resolver"].is_object(),
        "{state:#}"
    );
    let object = weft.get("nns", "node-1").await.unwrap().unwrap();
    assert_eq!(
        object["status"]["hostNetworkManagerVersion"]
            .as_str()
            .unwrap()
            .split('.')
            .next(),
        Some("1")
    );
    assert_eq!(object["metadata"]["ownerReferences"][0]["kind"], "Node");

    // By ip, by nmcli, by the gateway.
    let host = weft.host("node-1").unwrap();
    host.ip("addr add 198.51.100.7/24 dev eth1\nlink set eth1 up\n")
        .await
        .unwrap();
    wait_reported(&weft, "node-1", "eth1", |eth1| {
        eth1["ipv4"]["address"].to_string().contains("198.51.100.7")
    })
    .await;
    let add = "connection add type bridge ifname br9 con-name br9 ipv4.method manual ipv4.addresses 203.0.113.1/24 ipv6.method disabled bridge.stp no";
    host.exec(&[&["nmcli"][..], &add.split(' ').collect::<Vec<_>>()].concat())
        .await
        .unwrap();
    wait_reported(&weft, "node-1", "br9", |br9| br9["type"] == "linux-bridge").await;
    host.exec(&["nmcli", "connection", "delete", "br9"])
        .await
        .unwrap();
    wait_reported(&weft, "node-1", "br9", serde_json::Value::is_null).await;
    // The links of pods are no part of the host's network.
    host.ip("link add veth7 type veth peer name pod7\nlink set veth7 up\nlink add name br7 type bridge\n").await.unwrap();
    wait_reported(&weft, "node-1", "br7", |br7| !br7.is_null()).await;
    assert!(interface(&reported(&weft, "node-1").await.unwrap(), "veth7").is_null());

    // Quiet means quiet.
    let before = wait_quiet(&weft).await;
    // Nobody can come to it over the network: it has connections of its own, and waits for none.
    let of_agent = sockets(weft.agent("node-1").unwrap().pid());
    assert!(
        of_agent
            .iter()
            .any(|socket| socket.starts_with("tcp") && socket.ends_with(ESTABLISHED)),
        "that to the API server: {of_agent:?}"
    );
    assert_eq!(
        of_agent
            .iter()
            .find(|socket| !socket.ends_with(ESTABLISHED)),
        None
    );
    let _open = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(
        sockets(std::process::id())
            .iter()
            .any(|socket| !socket.ends_with(ESTABLISHED)),
        "it would be seen"
    );

    // Asked for, it is looked at again. The agent does not write an unchanged report. It comes back
    // if somebody deleted it.
    weft.patch(
        "nns",
        "node-1",
        &json!({"metadata": {"labels": {"nmstate.io/force-nns-refresh": "1"}}}),
    )
    .await
    .unwrap();
    assert_eq!(wait_quiet(&weft).await, before, "{:#?}", writes(&weft));
    weft.lab()
        .kubectl(&["delete", "nns", "node-1"])
        .await
        .unwrap();
    wait_reported(&weft, "node-1", "eth0", |eth0| eth0["state"] == "up").await;

    // NetworkManager goes and comes.
    let host = weft.host("node-1").unwrap();
    host.stop_network_manager().await.unwrap();
    let backend = async |reason: &str| {
        wait_until(&format!("backend {reason}"), async || {
            let object = weft
                .get("nns", "node-1")
                .await
                .map_err(|error| error.to_string())?
                .ok_or("it is not there")?;
            let backend = crate::on_hosts::agent::support::condition(&object, "Backend").clone();
            if backend["reason"] == reason {
                Ok(())
            } else {
                Err(format!("{backend:#}"))
            }
        })
        .await;
    };
    backend("ReadOnly").await;
    host.ip("link add name br8 type bridge\n").await.unwrap();
    wait_reported(&weft, "node-1", "br8", |br8| !br8.is_null()).await;
    host.start_network_manager().await.unwrap();
    backend("NetworkManager").await;
    weft.check_running().unwrap();
}

#[tokio::test]
async fn on_demand_the_agent_reports_and_ends() {
    let weft = Installation::without_agents(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let mut once = weft.run_agent("node-1", &["once"], &[]).await.unwrap();
    let status = once.wait(Duration::from_secs(300)).unwrap();
    assert!(status.success(), "{status}: {}", once.last_words());
    let state = reported(&weft, "node-1").await.unwrap();
    assert_eq!(
        interface(&state, "eth0")["ipv4"]["address"][0]["ip"],
        "172.31.0.11",
        "{state:#}"
    );
}
