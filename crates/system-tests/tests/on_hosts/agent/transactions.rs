//! Policies on a host: done, rolled back with the reason in their enactment, reverted. `ip -j` is
//! the judge.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;
use serde_json::{Value, json};
use weft_testenv::{
    WrongClock,
    host_lab::{HostLab, Installation, Program, agent},
};

use crate::on_hosts::agent::support::{
    Halt, addresses, changes_begun, checkpoints, condition, link, wait_enactment, wait_policy,
    wait_reported, wait_until,
};

fn policy(name: &str, spec: Value) -> String {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": name}, "spec": spec
    })
    .to_string()
}

fn mtu(interface: &str, mtu: u32) -> Value {
    json!({
        "interfaces": [
            {
                "name": interface, "type": "ethernet", "state": "up", "mtu": mtu,
                "ipv4": {"enabled": false}, "ipv6": {"enabled": false}
            }
        ]
    })
}

fn bridge(name: &str) -> Value {
    json!({"interfaces": [{"name": name, "type": "linux-bridge", "state": "up", "ipv4": {"enabled": false}, "ipv6": {"enabled": false},
        "bridge": {"options": {"stp": {"enabled": false}}, "port": []}}]})
}

async fn wait_granted(weft: &Installation, policy: &str) {
    wait_until(&format!("{policy} is granted"), async || {
        let enactment = weft
            .get("nnce", &format!("node-1.{policy}"))
            .await
            .unwrap()
            .ok_or("it is not there")?;
        if enactment["spec"]["granted"].is_object() {
            Ok(())
        } else {
            Err(enactment["spec"].to_string())
        }
    })
    .await;
}

/// One host. Retries are many and far apart by default.
async fn installation() -> (Installation, Program) {
    let weft = Installation::without_agents(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let agent = start_agent(&weft).await;
    (weft, agent)
}

async fn start_agent(weft: &Installation) -> Program {
    weft.run_agent(
        "node-1",
        &[],
        &[("NNCP_MAX_RETRIES", "2"), ("WEFT_AGENT_PROBE_SECONDS", "5")],
    )
    .await
    .unwrap()
}

/// A route to the API server by a host that forwards nothing.
fn cut() -> Value {
    json!({
        "routes": {
            "config": [
                {
                    "destination": "172.31.0.2/32", "next-hop-interface": "eth0",
                    "next-hop-address": "172.31.0.99"
                }
            ]
        }
    })
}

#[tokio::test]
async fn a_policy_that_cuts_the_node_off_is_rolled_back_and_reported() {
    let (weft, mut agent) = installation().await;
    let host = weft.host("node-1").unwrap();
    let routes = async || host.exec(&["ip", "-j", "route"]).await.unwrap();
    let before = routes().await;

    let cut = cut();
    let begun = changes_begun(&weft);
    weft.apply(&policy("cut", json!({"desiredState": cut})))
        .await
        .unwrap();
    let failed = wait_enactment(&weft, "node-1", "cut", "Failing").await;
    assert_eq!(
        condition(&failed, "Progressing")["status"],
        "False",
        "there is no other try: {}",
        failed["status"]
    );
    assert_eq!(routes().await, before);
    let outcome = &failed["status"]["outcome"];
    assert_eq!(
        (outcome["phase"].as_str(), outcome["probe"].as_str()),
        (Some("Probe"), Some("API server")),
        "{outcome}"
    );
    let given_up = weft.get("nnce", "node-1.cut").await.unwrap().unwrap();
    assert_eq!(
        given_up["status"]["retryCount"]
            .as_object()
            .unwrap()
            .values()
            .next(),
        Some(&json!(1))
    );
    assert_eq!(
        condition(&given_up, "Failing")["reason"],
        "FailedToConfigure"
    );
    wait_policy(&weft, "cut", "Degraded").await;
    // Neither a new agent nor another policy tries it again.
    agent.kill().unwrap();
    let _agent = start_agent(&weft).await;
    weft.apply(&policy(
        "harmless",
        json!({"desiredState": mtu("eth2", 1400)}),
    ))
    .await
    .unwrap();
    wait_policy(&weft, "harmless", "Available").await;
    assert_eq!(changes_begun(&weft), begun + 2);
    // A person does.
    let again = json!({"metadata": {"annotations": {"weft.network/retry": "1"}}});
    weft.patch("nncp", "cut", &again).await.unwrap();
    wait_until("it is tried once more", async || {
        match changes_begun(&weft) - begun {
            3 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    wait_until("it has failed again", async || {
        let enactment = weft.get("nnce", "node-1.cut").await.unwrap().unwrap();
        let has_failed = enactment["status"]["observedGeneration"]
            == enactment["metadata"]["generation"]
            && condition(&enactment, "Failing")["status"] == "True";
        has_failed
            .then_some(())
            .ok_or(enactment["status"].to_string())
    })
    .await;
    weft.lab()
        .kubectl(&["delete", "nncp", "cut", "harmless"])
        .await
        .unwrap();

    // The node's gateway, and its name servers: the API server is within reach all the while.
    let way = async || {
        let routes: Value = serde_json::from_str(
            &host
                .exec(&["ip", "-j", "route", "show", "default"])
                .await
                .unwrap(),
        )
        .unwrap();
        let resolver = std::fs::read_to_string(host.file("/etc/resolv.conf")).unwrap();
        let servers: Vec<String> = resolver
            .lines()
            .filter(|line| line.starts_with("nameserver"))
            .map(str::to_owned)
            .collect();
        (
            routes.as_array().map(Vec::len),
            routes[0]["gateway"].clone(),
            routes[0]["dev"].clone(),
            servers,
        )
    };
    let before = way().await;
    assert_eq!(
        before,
        (
            Some(1),
            json!("172.31.0.1"),
            json!("eth0"),
            vec!["nameserver 172.31.0.1".to_owned()]
        )
    );
    let gateway = json!({"routes": {"config": [
    {"state": "absent", "destination": "0.0.0.0/0", "next-hop-interface": "eth0"},
    {
        "destination": "0.0.0.0/0", "next-hop-interface": "eth0",
        "next-hop-address": "172.31.0.99"
    }]}});
    let name_server =
        json!({"dns-resolver": {"config": {"server": ["172.31.0.98"], "search": []}}});
    for (name, desired, probe) in [
        ("wrong-gateway", gateway, "default gateway"),
        ("wrong-name-server", name_server, "DNS of root-servers.net"),
    ] {
        weft.apply(&policy(name, json!({"desiredState": desired})))
            .await
            .unwrap();
        wait_policy(&weft, name, "Degraded").await;
        let outcome =
            wait_enactment(&weft, "node-1", name, "Failing").await["status"]["outcome"].clone();
        assert_eq!(
            (outcome["phase"].as_str(), outcome["probe"].as_str()),
            (Some("Probe"), Some(probe)),
            "{outcome}"
        );
        assert_eq!(way().await, before, "{name}");
    }

    // A policy that the host cannot have fails with the property in its message, and does not hold
    // up another policy.
    weft.apply(&policy("good", json!({"desiredState": mtu("eth1", 1400)})))
        .await
        .unwrap();
    weft.apply(&policy(
        "bad",
        json!({
            "desiredState": {"interfaces": [{"name": "eth77", "type": "ethernet", "state": "up"}]}
        }),
    ))
    .await
    .unwrap();
    wait_policy(&weft, "good", "Available").await;
    let bad = wait_enactment(&weft, "node-1", "bad", "Failing").await;
    // In the words of both plans, before the host is touched.
    let refusal =
        "interfaces[eth77]: there is no such interface, and one of type ethernet cannot be made";
    assert!(
        condition(&bad, "Failing")["message"]
            .as_str()
            .unwrap()
            .contains(refusal),
        "{}",
        bad["status"]
    );
    assert_eq!(
        bad["status"]["outcome"]["phase"], "Plan",
        "{}",
        bad["status"]
    );
    assert_eq!(link(host, "eth1").await["mtu"], 1400);

    // NetworkManager accepts this activation, and the device fails later: no kernel gives it the
    // address of a group.
    let group = json!({"interfaces": [{
        "name": "v0", "type": "veth", "state": "up", "mac-address": "01:00:5E:00:00:01",
        "veth": {"peer": "v1"}
    }]});
    weft.apply(&policy("group", json!({"desiredState": group})))
        .await
        .unwrap();
    let failed = wait_enactment(&weft, "node-1", "group", "Failing").await;
    let program = agent::program().unwrap().display().to_string();
    let history = host.exec(&[&program, "history"]).await.unwrap();
    for told in [
        condition(&failed, "Failing")["message"].as_str().unwrap(),
        failed["status"]["outcome"]["message"].as_str().unwrap(),
        history.lines().next_back().unwrap(),
    ] {
        // On a busy machine NetworkManager may have cancelled an activation before, and says so first.
        let (_, words) = told.split_once("; NetworkManager: ").unwrap();
        let failed = "the activation of v0 failed: config-failed";
        assert_eq!(words.matches(failed).count(), 1, "{told}");
    }
}

#[tokio::test]
async fn a_state_of_one_node_that_cuts_it_off_is_tried_once() {
    let (weft, mut agent) = installation().await;
    let host = weft.host("node-1").unwrap();
    let routes = async || host.exec(&["ip", "-j", "route"]).await.unwrap();
    let before = routes().await;
    let begun = changes_begun(&weft);
    let failed = async |tries: usize| {
        wait_until(&format!("try {tries} has failed"), async || {
            let state = weft.get("nns", "node-1").await.unwrap().unwrap();
            let failing = condition(&state, "Failing");
            let message = failing["message"].as_str().unwrap_or_default();
            let is_of_probe = failing["status"] == "True" && message.contains("API server");
            let begun = changes_begun(&weft) - begun;
            match is_of_probe && begun == tries && checkpoints(host).await.is_empty() {
                true => Ok(()),
                false => Err(format!("{begun} tries, {}", state["status"]["conditions"])),
            }
        })
        .await;
    };
    wait_until("the agent has reported the node", async || {
        let state = weft.get("nns", "node-1").await.unwrap();
        state.map(drop).ok_or("no state".to_owned())
    })
    .await;
    weft.patch("nns", "node-1", &json!({"spec": {"desiredState": cut()}}))
        .await
        .unwrap();
    failed(1).await;
    assert_eq!(routes().await, before);
    // Neither a new agent nor a policy tries it again.
    agent.kill().unwrap();
    let _agent = start_agent(&weft).await;
    for (number, value) in [1400, 1410].into_iter().enumerate() {
        weft.apply(&policy(
            "harmless",
            json!({"desiredState": mtu("eth2", value)}),
        ))
        .await
        .unwrap();
        wait_until("the policy is applied", async || {
            match link(host, "eth2").await["mtu"] == value {
                true => Ok(()),
                false => Err(link(host, "eth2").await.to_string()),
            }
        })
        .await;
        wait_policy(&weft, "harmless", "Available").await;
        assert_eq!(changes_begun(&weft), begun + 2 + number);
    }
    // A person does.
    let again = json!({"metadata": {"annotations": {"weft.network/retry": "1"}}});
    weft.patch("nns", "node-1", &again).await.unwrap();
    failed(4).await;
    // NetworkManager may have chosen another metric for the others.
    let routes = routes().await;
    assert!(!routes.contains("172.31.0.99"), "{routes}");
}

/// A first try may have broken the peer for good, so that it proves nothing for the next one.
#[tokio::test]
async fn a_probe_of_the_first_try_counts_until_another_generation() {
    let (weft, mut agent) = installation().await;
    let host = weft.host("node-1").unwrap();
    let begun = changes_begun(&weft);
    let careful = |desired: Value| {
        let probes = json!([{"icmp": {"host": "192.0.2.7"}}]);
        policy(
            "careful",
            json!({"desiredState": desired, "probes": probes}),
        )
    };
    let ended = async |phase: &str| {
        wait_until(&format!("the policy has failed in {phase}"), async || {
            let enactment = weft.get("nnce", "node-1.careful").await.unwrap();
            let enactment = enactment.ok_or("it is not there")?;
            let outcome = enactment["status"]["outcome"].clone();
            let has_failed = condition(&enactment, "Failing")["status"] == "True"
                && condition(&enactment, "Progressing")["status"] == "False";
            match has_failed && outcome["phase"] == phase {
                true => Ok(outcome["message"].to_string()),
                false => Err(enactment["status"].to_string()),
            }
        })
        .await
    };
    host.ip("address add 192.0.2.7/32 dev lo\n").await.unwrap();
    weft.apply(&careful(cut())).await.unwrap();
    ended("Probe").await;
    assert_eq!(changes_begun(&weft), begun + 1);

    host.ip("address delete 192.0.2.7/32 dev lo\n")
        .await
        .unwrap();
    agent.kill().unwrap();
    let _agent = start_agent(&weft).await;
    let again = json!({"metadata": {"annotations": {"weft.network/retry": "1"}}});
    weft.patch("nncp", "careful", &again).await.unwrap();
    let message = ended("Plan").await;
    let why = "icmp 192.0.2.7 was within reach before the first try and is not now, so nothing is changed";
    assert!(message.contains(why), "{message}");
    assert_eq!(changes_begun(&weft), begun + 1);

    weft.apply(&careful(mtu("eth2", 1400))).await.unwrap();
    wait_policy(&weft, "careful", "Available").await;
    let done = wait_enactment(&weft, "node-1", "careful", "Available").await;
    let left_out = condition(&done, "ProbesLeftOut");
    assert_eq!(left_out["reason"], "OutOfReachBefore", "{left_out}");
    let message = left_out["message"].as_str().unwrap();
    assert!(message.contains("icmp 192.0.2.7: "), "{message}");
    assert_eq!(changes_begun(&weft), begun + 2);
}

/// No probe is asked after a change that NetworkManager could not make.
#[tokio::test]
async fn a_failed_change_of_the_card_that_the_node_needs_is_tried_once() {
    let (weft, _agent) = installation().await;
    let begun = changes_begun(&weft);
    let group = json!({
        "name": "v0", "type": "veth", "state": "up", "mac-address": "01:00:5E:00:00:01",
        "veth": {"peer": "v1"}
    });
    let needed = json!({"name": "eth0", "type": "ethernet", "state": "up", "mtu": 1400});
    let desired = json!({"interfaces": [group, needed]});
    weft.apply(&policy("both", json!({"desiredState": desired})))
        .await
        .unwrap();
    let failed = wait_enactment(&weft, "node-1", "both", "Failing").await;
    let failing = condition(&failed, "Failing");
    assert_eq!(failing["reason"], "FailedToConfigure", "{failing}");
    let message = failing["message"].as_str().unwrap();
    let why =
        "this changes eth0, which carries the default route, so the agent does not try it again";
    assert!(message.contains(why), "{message}");
    assert_eq!(failed["status"]["outcome"]["phase"], "Verify");
    // Another policy makes the agent look at all of them.
    weft.apply(&policy(
        "harmless",
        json!({"desiredState": mtu("eth2", 1400)}),
    ))
    .await
    .unwrap();
    wait_policy(&weft, "harmless", "Available").await;
    assert_eq!(changes_begun(&weft), begun + 2);
    assert_eq!(
        link(weft.host("node-1").unwrap(), "eth0").await["mtu"],
        1500
    );
}

/// The kernel still sends from the old address, which nothing answers, until it gives up after half a
/// minute.
#[tokio::test]
async fn status_follows_a_change_of_the_nodes_own_address() {
    let (weft, agent) = installation().await;
    let host = weft.host("node-1").unwrap();
    let before = addresses(host, "eth0").await;
    let desired = json!({"interfaces": [{"name": "eth0", "type": "ethernet", "state": "up",
    "ipv4": {
        "enabled": true, "dhcp": false,
        "address": [{"ip": "172.31.0.77", "prefix-length": 24}]
    }}]});
    weft.apply(&policy("moved", json!({"desiredState": desired})))
        .await
        .unwrap();
    wait_policy(&weft, "moved", "Available").await;
    let after = addresses(host, "eth0").await;
    assert!(after.contains(&"172.31.0.77".to_owned()) && before != after);
    // Neither the kernel nor a keep-alive has ended the connections.
    let log = std::fs::read_to_string(agent.log()).unwrap();
    assert!(log.contains("has this address no more"), "{log}");
    wait_reported(&weft, "node-1", "eth0", |eth0| {
        eth0["ipv4"].to_string().contains("172.31.0.77")
    })
    .await;
}

/// The agent reads the objects before a change, and a change can last.
#[tokio::test]
async fn a_policy_that_goes_while_another_one_fails_is_not_applied() {
    let (weft, _agent) = installation().await;
    let host = weft.host("node-1").unwrap();
    let begun = changes_begun(&weft);
    let apply = async |name: &str, desired: Value| {
        let policy = policy(name, json!({"desiredState": desired}));
        weft.apply(&policy).await.unwrap();
    };
    // Both policies are granted when the agent looks again.
    let first = Halt::at(host, "Apply");
    apply("first", mtu("eth2", 1400)).await;
    first.reached().await;
    let both = Halt::at(host, "Plan");
    apply(
        "missing",
        json!({"interfaces": [{"name": "eth77", "type": "ethernet", "state": "up"}]}),
    )
    .await;
    apply("deleted", mtu("eth1", 1400)).await;
    wait_granted(&weft, "missing").await;
    wait_granted(&weft, "deleted").await;
    drop(first);
    wait_enactment(&weft, "node-1", "first", "Available").await;
    both.reached().await;
    for policy in ["missing", "deleted"] {
        let progressing = wait_enactment(&weft, "node-1", policy, "Progressing").await;
        assert_eq!(condition(&progressing, "Failing")["status"], "Unknown");
    }
    weft.lab()
        .kubectl(&["delete", "nncp", "deleted"])
        .await
        .unwrap();
    wait_until("its enactment is gone", async || {
        match weft.get("nnce", "node-1.deleted").await.unwrap() {
            None => Ok(()),
            Some(enactment) => Err(enactment.to_string()),
        }
    })
    .await;
    drop(both);
    let failed = wait_enactment(&weft, "node-1", "missing", "Failing").await;
    assert_eq!(failed["status"]["outcome"]["phase"], "Plan");
    apply("last", bridge("br1")).await;
    wait_policy(&weft, "last", "Available").await;
    assert_eq!(link(host, "eth1").await["mtu"], 1500);
    assert_eq!(changes_begun(&weft), begun + 2);
}

/// A probe that a policy brings keeps the others from nothing but what they broke themselves.
#[tokio::test]
async fn a_failed_probe_first_counts_against_the_policy_that_brought_it() {
    let weft = Installation::without_agents(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let host = weft.host("node-1").unwrap();
    let address = "198.51.100.9";
    host.ip(&format!(
        "link set eth1 up\naddr add {address}/32 dev eth1\n"
    ))
    .await
    .unwrap();
    let probes = json!([{"icmp": {"host": address}}]);
    let without_address = mtu("eth1", 1500);
    for (name, desired, probes) in [
        ("loses-it", &without_address, &probes),
        ("other", &mtu("eth2", 1400), &json!([])),
    ] {
        weft.apply(&policy(
            name,
            json!({"probes": probes, "desiredState": desired}),
        ))
        .await
        .unwrap();
        wait_granted(&weft, name).await;
    }
    // Both are there when it begins, so they are one transaction.
    let variables = [("NNCP_MAX_RETRIES", "1"), ("WEFT_AGENT_PROBE_SECONDS", "5")];
    let mut agent = weft.run_agent("node-1", &[], &variables).await.unwrap();
    let outcome =
        wait_enactment(&weft, "node-1", "loses-it", "Failing").await["status"]["outcome"].clone();
    assert_eq!(
        (outcome["phase"].as_str(), outcome["probe"].as_str()),
        (Some("Probe"), Some("icmp 198.51.100.9")),
        "{outcome}"
    );
    wait_policy(&weft, "other", "Available").await;
    assert_eq!(
        (
            addresses(host, "eth1").await,
            link(host, "eth2").await["mtu"].clone()
        ),
        (vec![address.to_owned()], json!(1400))
    );
    agent.kill().unwrap();
    weft.lab()
        .kubectl(&["delete", "nncp", "--all"])
        .await
        .unwrap();

    // Now another user breaks what the policy wants to be sure of.
    for (name, desired, probes) in [
        ("careful", &mtu("eth2", 1300), &probes),
        ("breaks-it", &without_address, &json!([])),
    ] {
        weft.apply(&policy(
            name,
            json!({"probes": probes, "desiredState": desired}),
        ))
        .await
        .unwrap();
        wait_granted(&weft, name).await;
    }
    let variables = [("NNCP_MAX_RETRIES", "2"), ("WEFT_AGENT_PROBE_SECONDS", "5")];
    let _agent = weft.run_agent("node-1", &[], &variables).await.unwrap();
    let outcome =
        wait_enactment(&weft, "node-1", "breaks-it", "Failing").await["status"]["outcome"].clone();
    assert_eq!(outcome["probe"], "icmp 198.51.100.9", "{outcome}");
    assert_eq!(addresses(host, "eth1").await, [address], "rolled back");
    // It is not to blame, so it is tried again alone.
    wait_policy(&weft, "careful", "Available").await;
    assert_eq!(addresses(host, "eth1").await, [address]);
}

#[tokio::test]
async fn a_policy_is_taken_back_and_one_that_contradicts_waits() {
    let (weft, _agent) = installation().await;
    let host = weft.host("node-1").unwrap();
    weft.apply(&policy(
        "first",
        json!({"onDelete": "revert", "desiredState": mtu("eth1", 1400)}),
    ))
    .await
    .unwrap();
    wait_policy(&weft, "first", "Available").await;

    weft.apply(&policy("other", json!({"desiredState": mtu("eth1", 1300)})))
        .await
        .unwrap();
    let other = wait_enactment(&weft, "node-1", "other", "Conflict").await;
    let told = condition(&other, "Conflict")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        told.contains("first") && told.contains("other") && told.contains("mtu"),
        "{told}"
    );
    wait_enactment(&weft, "node-1", "first", "Conflict").await;
    for name in ["first", "other"] {
        let told_by_policy = wait_policy(&weft, name, "Conflict").await;
        assert_eq!(
            condition(&told_by_policy, "Conflict")["message"]
                .as_str()
                .unwrap(),
            format!("node-1: {told}")
        );
    }
    assert_eq!(link(host, "eth1").await["mtu"], 1400);

    // The node's own desired state is stronger than both.
    weft.patch(
        "nns",
        "node-1",
        &json!({"spec": {"desiredState": mtu("eth1", 1350)}}),
    )
    .await
    .unwrap();
    wait_until("eth1 is as the node's own state says", async || {
        let now = link(host, "eth1").await["mtu"].clone();
        if now == 1350 {
            Ok(())
        } else {
            Err(now.to_string())
        }
    })
    .await;
    weft.patch("nns", "node-1", &json!({"spec": {"desiredState": null}}))
        .await
        .unwrap();
    weft.lab()
        .kubectl(&["delete", "nncp", "other"])
        .await
        .unwrap();
    weft.lab()
        .kubectl(&["delete", "nncp", "first"])
        .await
        .unwrap();
    wait_until("eth1 is as it was before", async || {
        let now = link(host, "eth1").await["mtu"].clone();
        if now == 1500 {
            Ok(())
        } else {
            Err(now.to_string())
        }
    })
    .await;
}

/// An agent that is killed in a phase says in which, and the policy is done in the end. If a probe
/// had failed by then, a person must ask for it.
#[tokio::test]
async fn a_killed_agent_goes_on_and_says_so() {
    let (weft, mut agent) = installation().await;
    let host = weft.host("node-1").unwrap();
    for (number, phase) in
        (50..).zip(["Plan", "Checkpoint", "Apply", "Probe", "Commit", "Rollback"])
    {
        let hold = Halt::at(host, phase);
        let (name, ip) = (
            format!("killed-{}", phase.to_lowercase()),
            format!("172.31.1.{number}"),
        );
        let address = json!({"interfaces": [{"name": "eth1", "type": "ethernet", "state": "up",
            "ipv4": {
                "enabled": true, "dhcp": false, "address": [{"ip": ip, "prefix-length": 24}]
            }, "ipv6": {"enabled": false}}]});
        // For a rollback the API server must be out of reach after the change, once.
        let cut = (phase == "Rollback").then(|| Halt::at(host, "Probe"));
        weft.apply(&policy(&name, json!({"desiredState": address})))
            .await
            .unwrap();
        if let Some(before_probe) = cut {
            before_probe.reached().await;
            weft.lab().cut_api(host).unwrap();
        }
        hold.reached().await;
        agent.kill().unwrap();
        drop(hold);
        if phase == "Rollback" {
            weft.lab().mend_api(host).unwrap();
        }
        let begun = changes_begun(&weft);
        agent = start_agent(&weft).await;
        if phase == "Rollback" {
            // The probe has had its say, and is not asked whether it was right.
            let failed = wait_enactment(&weft, "node-1", &name, "Failing").await;
            let outcome = &failed["status"]["outcome"];
            assert_eq!(
                (outcome["phase"].as_str(), outcome["probe"].as_str()),
                (Some("Probe"), Some("API server")),
                "{outcome}"
            );
            wait_policy(&weft, &name, "Degraded").await;
            assert_eq!(changes_begun(&weft), begun, "nothing is tried again");
            let again = json!({"metadata": {"annotations": {"weft.network/retry": "1"}}});
            weft.patch("nncp", &name, &again).await.unwrap();
        }
        let done = wait_enactment(&weft, "node-1", &name, "Available").await;
        let outcome = &done["status"]["outcome"];
        if phase == "Plan" {
            assert!(outcome.is_null(), "nothing had begun: {outcome}");
        } else {
            assert_eq!(outcome["phase"], phase);
            assert!(
                outcome["message"]
                    .as_str()
                    .unwrap()
                    .contains("the host is as it was before"),
                "{outcome}"
            );
        }
        assert_eq!(addresses(host, "eth1").await, [ip]);
        weft.lab()
            .kubectl(&["delete", "nncp", &name])
            .await
            .unwrap();
    }
}

/// Without NetworkManager nothing is judged and no try counted. The agent applies granted changes
/// when NetworkManager is back.
#[tokio::test]
async fn a_policy_waits_while_network_manager_is_away() {
    let weft = Installation::without_agents(HostLab::builder().hosts(1))
        .await
        .unwrap();
    let agent = async || {
        weft.run_agent(
            "node-1",
            &[],
            &[("NNCP_MAX_RETRIES", "1"), ("WEFT_AGENT_PROBE_SECONDS", "5")],
        )
        .await
        .unwrap()
    };
    let mut running = agent().await;
    let host = weft.host("node-1").unwrap();
    weft.apply(&policy("done", json!({"desiredState": mtu("eth1", 1400)})))
        .await
        .unwrap();
    weft.apply(&policy("other", json!({"desiredState": mtu("eth2", 1400)})))
        .await
        .unwrap();
    wait_policy(&weft, "done", "Available").await;
    wait_policy(&weft, "other", "Available").await;

    host.stop_network_manager().await.unwrap();
    host.ip("link set eth1 mtu 1300\n").await.unwrap();
    wait_reported(&weft, "node-1", "eth1", |eth1| eth1["mtu"] == 1300).await;
    weft.apply(&policy("late", json!({"desiredState": bridge("br1")})))
        .await
        .unwrap();
    let waits = async || {
        let late = wait_enactment(&weft, "node-1", "late", "Progressing").await;
        let told = condition(&late, "Failing")["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        (late["status"]["outcome"]["phase"].clone(), told)
    };
    wait_until("it says for what it waits", async || {
        let (phase, told) = waits().await;
        if phase == "Backend" && told.contains("waits for NetworkManager") {
            Ok(())
        } else {
            Err(format!("{phase} {told}"))
        }
    })
    .await;
    // An agent that starts meanwhile goes on waiting.
    running.kill().unwrap();
    running = agent().await;
    host.ip("link set eth2 mtu 1350\n").await.unwrap();
    wait_reported(&weft, "node-1", "eth2", |eth2| eth2["mtu"] == 1350).await;
    assert_eq!(waits().await.0, "Backend");
    for name in ["done", "other"] {
        let enactment = weft
            .get("nnce", &format!("node-1.{name}"))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            condition(&enactment, "Available")["status"],
            "True",
            "{name}: {:#}",
            enactment["status"]
        );
    }
    wait_policy(&weft, "late", "Progressing").await;

    host.start_network_manager().await.unwrap();
    for name in ["late", "done", "other"] {
        wait_policy(&weft, name, "Available").await;
    }
    wait_until("the host is as the policies say", async || {
        let now = [
            link(host, "eth1").await["mtu"].clone(),
            link(host, "eth2").await["mtu"].clone(),
        ];
        if now == [1400, 1400] {
            Ok(())
        } else {
            Err(format!("{now:?}"))
        }
    })
    .await;
    assert_eq!(link(host, "br1").await["linkinfo"]["info_kind"], "bridge");
    running.check_running().unwrap();
}

/// NetworkManager ends in the middle of a change: that is cleaned up when it is back, and the
/// policy tried once more.
#[tokio::test]
async fn a_change_that_has_lost_network_manager_is_cleaned_up_when_it_is_back() {
    let (weft, _agent) = installation().await;
    let host = weft.host("node-1").unwrap();
    let hold = Halt::at(host, "Probe");
    weft.apply(&policy("lost", json!({"desiredState": bridge("br1")})))
        .await
        .unwrap();
    hold.reached().await;
    host.stop_network_manager().await.unwrap();
    drop(hold);
    wait_until("it waits for NetworkManager", async || {
        let lost = wait_enactment(&weft, "node-1", "lost", "Progressing").await;
        if lost["status"]["outcome"]["phase"] == "Backend" {
            Ok(())
        } else {
            Err(lost["status"].to_string())
        }
    })
    .await;
    weft.lab()
        .kubectl(&["delete", "nncp", "lost"])
        .await
        .unwrap();
    host.start_network_manager().await.unwrap();
    wait_until("the host is as before the change", async || {
        let now = link(host, "br1").await;
        let journal = host.file("/var/lib/weft-agent/transaction.json").exists();
        if now.is_null() && !journal {
            Ok(())
        } else {
            Err(format!("{now:#}, journal: {journal}"))
        }
    })
    .await;
}

/// Killed right after the commit, the agent still knows the way back, whether it had got to note
/// that it was done or not.
#[tokio::test]
async fn the_way_back_outlives_a_crash_after_the_commit() {
    let (weft, mut agent) = installation().await;
    let host = weft.host("node-1").unwrap();
    for (name, phase, wanted) in [("noted", "Note", 1400), ("unnoted", "Commit", 1300)] {
        let hold = Halt::at(host, "Note");
        weft.apply(&policy(
            name,
            json!({"onDelete": "revert", "desiredState": mtu("eth1", wanted)}),
        ))
        .await
        .unwrap();
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
        assert!(
            outcome["message"]
                .as_str()
                .unwrap()
                .contains("it had been committed, and is there"),
            "{outcome}"
        );
        assert_eq!(link(host, "eth1").await["mtu"], wanted);
        weft.lab()
            .kubectl(&["delete", "nncp", name, "--timeout=300s"])
            .await
            .unwrap();
        assert_eq!(
            link(host, "eth1").await["mtu"],
            1500,
            "{name}: what was there before the policy"
        );
    }
}

/// Without a DaemonSet, one run does what is granted, and its exit code shows the result. Where the
/// DaemonSet has no pod, the agent reports itself that it is there, and its work stays done after
/// it has ended.
#[tokio::test]
async fn on_demand_the_agent_carries_out_policies_where_no_pod_of_it_runs() {
    let weft = Installation::without_agents(HostLab::builder().hosts(2))
        .await
        .unwrap();
    weft.patch(
        "nmstate",
        "nmstate",
        &json!({"spec": {"nodeSelector": {"example.com/agent": "none"}}}),
    )
    .await
    .unwrap();
    wait_until("no pod of the agent is there", async || {
        let pods = [
            "get",
            "pods",
            "--all-namespaces",
            "--selector",
            "component=kubernetes-nmstate-handler",
            "-o",
            "name",
        ];
        let pods = weft
            .lab()
            .kubectl(&pods)
            .await
            .map_err(|error| error.to_string())?;
        if pods.is_empty() { Ok(()) } else { Err(pods) }
    })
    .await;
    weft.apply(&policy("good", json!({"desiredState": mtu("eth1", 1400)})))
        .await
        .unwrap();
    wait_policy(&weft, "good", "Ignored").await;
    // By the clocks of the hosts, the one agent is gone before it comes, and the other one stays.
    const TWO_HOURS: i64 = 2 * 3600;
    let clock = |name: &str, seconds: i64| {
        let folder = weft.lab().control_plane().dir();
        let clock = WrongClock::ahead(folder, name, seconds).unwrap();
        clock.variables()
    };
    let once = async |host: &str, expected: i32, seconds: i64| {
        let clock = clock(host, seconds);
        let mut variables = vec![("NNCP_MAX_RETRIES", "1")];
        variables.extend(clock.iter().map(|(name, value)| (*name, value.as_str())));
        let mut once = weft.run_agent(host, &["once"], &variables).await.unwrap();
        assert_eq!(
            once.wait(Duration::from_secs(300)).unwrap().code(),
            Some(expected),
            "{}",
            once.last_words()
        );
    };
    for (host, nodes, seconds) in [("node-1", "1/1", -TWO_HOURS), ("node-2", "2/2", TWO_HOURS)] {
        once(host, 0, seconds).await;
        assert_eq!(
            link(weft.host(host).unwrap(), "eth1").await["mtu"],
            1400,
            "on {host}"
        );
        let available = wait_policy(&weft, "good", "Available").await;
        assert_eq!(
            condition(&available, "Available")["message"],
            format!("{nodes} nodes successfully configured")
        );
        let annotations =
            weft.get("nns", host).await.unwrap().unwrap()["metadata"]["annotations"].clone();
        assert!(
            annotations["weft.network/agent-until"].is_null(),
            "it is there no more: {annotations}"
        );
    }

    // A run reports a failure, too. A policy that comes while no agent is there waits for the next
    // run.
    weft.apply(&policy(
        "bad",
        json!({
            "desiredState": {"interfaces": [{"name": "eth77", "type": "ethernet", "state": "up"}]}
        }),
    ))
    .await
    .unwrap();
    wait_policy(&weft, "bad", "Ignored").await;
    once("node-1", 2, 0).await;
    wait_policy(&weft, "bad", "Degraded").await;

    // After SIGTERM in the middle of a change, the agent finishes the change, and is there no more.
    weft.apply(&policy("good", json!({"desiredState": mtu("eth1", 1300)})))
        .await
        .unwrap();
    let until = async || {
        let state = weft.get("nns", "node-1").await.unwrap().unwrap();
        let until = state["metadata"]["annotations"]["weft.network/agent-until"].as_str();
        until.map(|until| until.parse::<Timestamp>().unwrap())
    };
    let hold = Halt::at(weft.host("node-1").unwrap(), "Apply");
    let clock = clock("killed", TWO_HOURS);
    let variables = clock
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let mut once = weft
        .run_agent("node-1", &["once"], &variables)
        .await
        .unwrap();
    hold.reached().await;
    let here = until().await.unwrap().duration_since(Timestamp::now());
    assert!(
        here.is_positive() && here < SignedDuration::from_hours(1),
        "killed now, it would count as here for {here}"
    );
    once.signal(Signal::TERM);
    drop(hold);
    assert_eq!(
        once.wait(Duration::from_secs(300)).unwrap().code(),
        Some(1),
        "{}",
        once.last_words()
    );
    assert!(
        once.last_words()
            .contains("stopped before everything was done")
            && until().await.is_none(),
        "{}",
        once.last_words()
    );
    assert_eq!(
        link(weft.host("node-1").unwrap(), "eth1").await["mtu"],
        1300
    );
}

#[tokio::test]
async fn on_demand_the_agent_carries_out_what_is_granted() {
    let weft = Installation::without_agents(HostLab::builder().hosts(1))
        .await
        .unwrap();
    weft.apply(&policy("good", json!({"desiredState": mtu("eth1", 1400)})))
        .await
        .unwrap();
    wait_granted(&weft, "good").await;
    let mut once = weft.run_agent("node-1", &["once"], &[]).await.unwrap();
    let ended = once.wait(Duration::from_secs(300)).unwrap();
    assert_eq!(ended.code(), Some(0), "{}", once.last_words());
    assert_eq!(
        link(weft.host("node-1").unwrap(), "eth1").await["mtu"],
        1400
    );
    wait_policy(&weft, "good", "Available").await;

    weft.apply(&policy(
        "bad",
        json!({
            "desiredState": {"interfaces": [{"name": "eth77", "type": "ethernet", "state": "up"}]}
        }),
    ))
    .await
    .unwrap();
    wait_granted(&weft, "bad").await;
    let mut once = weft
        .run_agent("node-1", &["once"], &[("NNCP_MAX_RETRIES", "1")])
        .await
        .unwrap();
    assert_eq!(
        once.wait(Duration::from_secs(300)).unwrap().code(),
        Some(2),
        "{}",
        once.last_words()
    );
}
