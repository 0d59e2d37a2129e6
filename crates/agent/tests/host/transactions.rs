//! What becomes of policies on a host: done, rolled back with the reason in their enactment, taken back; judged by `ip -j`.

use std::time::Duration;

use serde_json::{Value, json};
use weft_testenv::host_lab::{HostLab, Installation, Program};

use crate::support::{Hold, addresses, condition, link, wait_enactment, wait_policy, wait_until};

fn policy(name: &str, spec: Value) -> String {
    json!({"apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy", "metadata": {"name": name}, "spec": spec}).to_string()
}

fn mtu(interface: &str, mtu: u32) -> Value {
    json!({"interfaces": [{"name": interface, "type": "ethernet", "state": "up", "mtu": mtu, "ipv4": {"enabled": false}, "ipv6": {"enabled": false}}]})
}

async fn wait_granted(weft: &Installation, policy: &str) {
    wait_until(&format!("{policy} is granted"), async || {
        let enactment = weft.get("nnce", &format!("node-1.{policy}")).await.unwrap().ok_or("it is not there")?;
        if enactment["spec"]["granted"].is_object() { Ok(()) } else { Err(enactment["spec"].to_string()) }
    })
    .await;
}

/// One host; retries are many and far apart by default.
async fn installation() -> (Installation, Program) {
    let weft = Installation::without_agents(HostLab::builder().hosts(1)).await.unwrap();
    let agent = start_agent(&weft).await;
    (weft, agent)
}

async fn start_agent(weft: &Installation) -> Program {
    weft.run_agent("node-1", &[], &[("NNCP_MAX_RETRIES", "2"), ("WEFT_AGENT_PROBE_SECONDS", "5")]).await.unwrap()
}

#[tokio::test]
async fn what_cuts_the_node_off_is_rolled_back_and_told() {
    let (weft, _agent) = installation().await;
    let host = weft.host("node-1").unwrap();
    let routes = async || host.exec(&["ip", "-j", "route"]).await.unwrap();
    let before = routes().await;

    // Nothing at this address forwards anything: the API server is out of reach.
    let cut =
        json!({"routes": {"config": [{"destination": "172.31.0.2/32", "next-hop-interface": "eth0", "next-hop-address": "172.31.0.99"}]}});
    weft.apply(&policy("cut", json!({"desiredState": cut}))).await.unwrap();
    let failed = wait_enactment(&weft, "node-1", "cut", "Failing").await;
    wait_until("it is given up", async || {
        let enactment = weft.get("nnce", "node-1.cut").await.unwrap().unwrap();
        if condition(&enactment, "Progressing")["status"] == "False" { Ok(()) } else { Err(enactment["status"].to_string()) }
    })
    .await;
    assert_eq!(routes().await, before);
    let outcome = &failed["status"]["outcome"];
    assert_eq!((outcome["phase"].as_str(), outcome["probe"].as_str()), (Some("Probe"), Some("API server")), "{outcome}");
    let given_up = weft.get("nnce", "node-1.cut").await.unwrap().unwrap();
    assert_eq!(given_up["status"]["retryCount"].as_object().unwrap().values().next(), Some(&json!(2)));
    assert_eq!(condition(&given_up, "Failing")["reason"], "FailedToConfigure");
    wait_policy(&weft, "cut", "Degraded").await;

    // One that cannot be had is told with the property, and keeps nobody else from it.
    weft.apply(&policy("good", json!({"desiredState": mtu("eth1", 1400)}))).await.unwrap();
    weft.apply(&policy("bad", json!({"desiredState": {"interfaces": [{"name": "eth77", "type": "ethernet", "state": "up"}]}})))
        .await
        .unwrap();
    wait_policy(&weft, "good", "Available").await;
    let bad = wait_enactment(&weft, "node-1", "bad", "Failing").await;
    assert!(condition(&bad, "Failing")["message"].as_str().unwrap().contains("eth77"), "{}", bad["status"]);
    assert_eq!(link(host, "eth1").await["mtu"], 1400);
}

/// A probe that a policy brings keeps the others from nothing but what they broke themselves.
#[tokio::test]
async fn a_failed_probe_is_first_taken_for_the_fault_of_the_policy_that_brought_it() {
    let weft = Installation::without_agents(HostLab::builder().hosts(1)).await.unwrap();
    let host = weft.host("node-1").unwrap();
    let address = "198.51.100.9";
    host.ip(&format!("link set eth1 up\naddr add {address}/32 dev eth1\n")).await.unwrap();
    let probes = json!([{"icmp": {"host": address}}]);
    let without_address = mtu("eth1", 1500);
    for (name, desired, probes) in [("loses-it", &without_address, &probes), ("other", &mtu("eth2", 1400), &json!([]))] {
        weft.apply(&policy(name, json!({"probes": probes, "desiredState": desired}))).await.unwrap();
        wait_granted(&weft, name).await;
    }
    // Both are there when it begins, so they are one transaction.
    let variables = [("NNCP_MAX_RETRIES", "1"), ("WEFT_AGENT_PROBE_SECONDS", "5")];
    let mut agent = weft.run_agent("node-1", &[], &variables).await.unwrap();
    let outcome = wait_enactment(&weft, "node-1", "loses-it", "Failing").await["status"]["outcome"].clone();
    assert_eq!((outcome["phase"].as_str(), outcome["probe"].as_str()), (Some("Probe"), Some("icmp 198.51.100.9")), "{outcome}");
    wait_policy(&weft, "other", "Available").await;
    assert_eq!((addresses(host, "eth1").await, link(host, "eth2").await["mtu"].clone()), (vec![address.to_owned()], json!(1400)));
    agent.kill().unwrap();
    weft.lab().kubectl(&["delete", "nncp", "--all"]).await.unwrap();

    // Now somebody else breaks what the policy wants to be sure of.
    for (name, desired, probes) in [("careful", &mtu("eth2", 1300), &probes), ("breaks-it", &without_address, &json!([]))] {
        weft.apply(&policy(name, json!({"probes": probes, "desiredState": desired}))).await.unwrap();
        wait_granted(&weft, name).await;
    }
    let _agent = weft.run_agent("node-1", &[], &variables).await.unwrap();
    let outcome = wait_enactment(&weft, "node-1", "breaks-it", "Failing").await["status"]["outcome"].clone();
    assert_eq!(outcome["probe"], "icmp 198.51.100.9", "{outcome}");
    assert_eq!(addresses(host, "eth1").await, [address], "rolled back");
}

#[tokio::test]
async fn a_policy_is_taken_back_and_one_that_contradicts_waits() {
    let (weft, _agent) = installation().await;
    let host = weft.host("node-1").unwrap();
    weft.apply(&policy("first", json!({"onDelete": "revert", "desiredState": mtu("eth1", 1400)}))).await.unwrap();
    wait_policy(&weft, "first", "Available").await;

    weft.apply(&policy("other", json!({"desiredState": mtu("eth1", 1300)}))).await.unwrap();
    let other = wait_enactment(&weft, "node-1", "other", "Conflict").await;
    let told = condition(&other, "Conflict")["message"].as_str().unwrap().to_owned();
    assert!(told.contains("first") && told.contains("other") && told.contains("mtu"), "{told}");
    wait_enactment(&weft, "node-1", "first", "Conflict").await;
    assert_eq!(link(host, "eth1").await["mtu"], 1400);

    // The node's own desired state is stronger than both.
    weft.patch("nns", "node-1", &json!({"spec": {"desiredState": mtu("eth1", 1350)}})).await.unwrap();
    wait_until("eth1 is as the node's own state says", async || {
        let now = link(host, "eth1").await["mtu"].clone();
        if now == 1350 { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
    weft.patch("nns", "node-1", &json!({"spec": {"desiredState": null}})).await.unwrap();
    weft.lab().kubectl(&["delete", "nncp", "other"]).await.unwrap();
    weft.lab().kubectl(&["delete", "nncp", "first"]).await.unwrap();
    wait_until("eth1 is as it was before", async || {
        let now = link(host, "eth1").await["mtu"].clone();
        if now == 1500 { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
}

/// A killed agent says in which phase that was, and the policy is done in the end.
#[tokio::test]
async fn a_killed_agent_goes_on_and_says_so() {
    let (weft, mut agent) = installation().await;
    let name = "node-1";
    let hold = Hold::at(weft.host(name).unwrap(), "Probe");
    let address = json!({"interfaces": [{"name": "eth1", "type": "ethernet", "state": "up",
        "ipv4": {"enabled": true, "dhcp": false, "address": [{"ip": "172.31.1.50", "prefix-length": 24}]}, "ipv6": {"enabled": false}}]});
    weft.apply(&policy("killed", json!({"desiredState": address}))).await.unwrap();
    hold.reached().await;
    agent.kill().unwrap();
    drop(hold);
    let _agent = start_agent(&weft).await;
    let done = wait_enactment(&weft, name, "killed", "Available").await;
    let outcome = &done["status"]["outcome"];
    assert_eq!(outcome["phase"], "Probe");
    assert!(outcome["message"].as_str().unwrap().contains("the host is as it was before"), "{outcome}");
    assert_eq!(addresses(weft.host(name).unwrap(), "eth1").await, ["172.31.1.50"]);
}

/// Killed right after the commit, the agent still knows the way back, whether it had got to note that it was done or not.
#[tokio::test]
async fn the_way_back_outlives_a_crash_after_the_commit() {
    let (weft, mut agent) = installation().await;
    let host = weft.host("node-1").unwrap();
    for (name, phase, wanted) in [("noted", "Note", 1400), ("unnoted", "Commit", 1300)] {
        let hold = Hold::at(host, "Note");
        weft.apply(&policy(name, json!({"onDelete": "revert", "desiredState": mtu("eth1", wanted)}))).await.unwrap();
        hold.reached().await;
        agent.kill().unwrap();
        drop(hold);
        let journal = host.file("/var/lib/weft-agent/transaction.json");
        let left = std::fs::read_to_string(&journal).unwrap();
        std::fs::write(&journal, left.replace("\"Note\"", &format!("\"{phase}\""))).unwrap();
        agent = start_agent(&weft).await;
        let done = wait_enactment(&weft, "node-1", name, "Available").await;
        let outcome = &done["status"]["outcome"];
        assert_eq!(outcome["phase"], phase);
        assert!(outcome["message"].as_str().unwrap().contains("it had been committed, and is there"), "{outcome}");
        assert_eq!(link(host, "eth1").await["mtu"], wanted);
        weft.lab().kubectl(&["delete", "nncp", name, "--timeout=60s"]).await.unwrap();
        assert_eq!(link(host, "eth1").await["mtu"], 1500, "{name}: what was there before the policy");
    }
}

/// Without a DaemonSet: one run does what is granted, and its exit code tells how that went.
#[tokio::test]
async fn on_demand_the_agent_carries_out_what_is_granted() {
    let weft = Installation::without_agents(HostLab::builder().hosts(1)).await.unwrap();
    weft.apply(&policy("good", json!({"desiredState": mtu("eth1", 1400)}))).await.unwrap();
    wait_granted(&weft, "good").await;
    let mut once = weft.run_agent("node-1", &["once"], &[]).await.unwrap();
    let ended = once.wait(Duration::from_secs(60)).unwrap();
    assert_eq!(ended.code(), Some(0), "{}", once.last_words());
    assert_eq!(link(weft.host("node-1").unwrap(), "eth1").await["mtu"], 1400);
    wait_policy(&weft, "good", "Available").await;

    weft.apply(&policy("bad", json!({"desiredState": {"interfaces": [{"name": "eth77", "type": "ethernet", "state": "up"}]}})))
        .await
        .unwrap();
    wait_granted(&weft, "bad").await;
    let mut once = weft.run_agent("node-1", &["once"], &[("NNCP_MAX_RETRIES", "1")]).await.unwrap();
    assert_eq!(once.wait(Duration::from_secs(60)).unwrap().code(), Some(2), "{}", once.last_words());
}
