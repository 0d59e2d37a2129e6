#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;
use crate::rollout::testing::Cluster;

fn policy(range: &str) -> Value {
    json!({
        "maxUnavailable": "100%", "nodeSelector": {"role": "worker"},
        "addressPools": {"a": {"range": range, "prefixLength": 24}},
        "desiredState": {"hostname": {"config": "h-{{ pool.a.ip }}"}},
    })
}

fn with(count: usize, range: &str) -> Cluster {
    let mut cluster = Cluster::with_nodes(count);
    cluster.apply("p", policy(range));
    cluster.settle(true);
    cluster
}

/// The holders, as a text: the last part of the address, the node, and what is known of its end.
fn held(cluster: &Cluster) -> String {
    let entries = cluster.ledger.0.iter().map(|(ip, entry)| {
        let ip = ip.to_string();
        let last = ip.rsplit('.').next().unwrap();
        let leaves = entry
            .leaves
            .map(|leaves| format!(" {leaves:?}"))
            .unwrap_or_default();
        format!("{last} {}{leaves}", entry.node)
    });
    entries.collect::<Vec<_>>().join(", ")
}

fn report(cluster: &mut Cluster, node: &str, addresses: &[&str]) {
    let list: Vec<_> = addresses
        .iter()
        .map(|ip| json!({"ip": ip, "prefix-length": 24}))
        .collect();
    let state = json!({
        "metadata": {"name": node}, "spec": {"managed": true},
        "status": {"currentState": {"interfaces": [{"name": "eth1", "ipv4": {"address": list}}]}}
    });
    cluster.states.insert(node.to_owned(), state);
}

fn problem(cluster: &Cluster) -> Option<(String, String)> {
    let status = cluster.status("p");
    let all = status["conditions"].as_array().unwrap();
    let found = all.iter().find(|one| one["type"] == "AddressProblem")?;
    let text = |key: &str| found[key].as_str().unwrap().to_owned();
    Some((text("reason"), text("message")))
}

#[test]
fn a_node_keeps_its_address_when_others_come_and_go() {
    let mut cluster = with(2, "192.0.2.1-192.0.2.9");
    assert_eq!(held(&cluster), "1 node-0, 2 node-1");
    cluster.remove_node("node-0");
    cluster.add_node("node-5");
    cluster.settle(true);
    assert_eq!(
        held(&cluster),
        "2 node-1, 3 node-5",
        "the enactment of node-0 went later"
    );
    cluster.merge("p", "maxUnavailable", json!(1));
    cluster.settle(true);
    assert_eq!(held(&cluster), "2 node-1, 3 node-5");
    assert_eq!(
        cluster.status("p")["addresses"][1],
        json!({"node": "node-5", "pool": "a", "ip": "192.0.2.3", "prefixLength": 24})
    );
}

#[test]
fn a_node_that_registers_again_keeps_its_address() {
    let mut cluster = with(2, "192.0.2.1-192.0.2.9");
    cluster.remove_node("node-0");
    cluster.add_node("node-0");
    cluster.settle(true);
    assert_eq!(held(&cluster), "1 node-0, 2 node-1");
    let uid = cluster.nodes["node-0"]["metadata"]["uid"].as_str().unwrap();
    let entry = cluster.ledger.0.values().next().unwrap();
    assert_eq!(entry.node_uid, uid, "the ledger has the new uid");
    // The operator has seen that it was gone. Its host still has the address.
    cluster.remove_node("node-0");
    cluster.operate();
    assert_eq!(held(&cluster), "2 node-1");
    cluster.add_node("node-0");
    report(&mut cluster, "node-0", &["192.0.2.1", "203.0.113.1"]);
    cluster.add_node("node-00");
    cluster.settle(true);
    assert_eq!(held(&cluster), "1 node-0, 2 node-1, 3 node-00");
}

#[test]
fn an_address_that_a_host_may_have_is_not_given_away() {
    let mut cluster = with(2, "192.0.2.1-192.0.2.9");
    report(&mut cluster, "node-0", &["192.0.2.1"]);
    cluster.label("node-0", "other");
    cluster.settle(true);
    assert_eq!(held(&cluster), "1 node-0 Seen, 2 node-1");
    cluster.add_node("node-5");
    cluster.settle(true);
    assert_eq!(held(&cluster), "1 node-0 Seen, 2 node-1, 3 node-5");
    report(&mut cluster, "node-0", &["203.0.113.1"]);
    cluster.settle(true);
    assert_eq!(held(&cluster), "2 node-1, 3 node-5");
    // Its report may be older than the address.
    report(&mut cluster, "node-1", &["203.0.113.2"]);
    cluster.label("node-1", "other");
    cluster.settle(true);
    assert_eq!(held(&cluster), "2 node-1 Unseen, 3 node-5");
    cluster.label("node-1", "worker");
    cluster.settle(true);
    assert_eq!(held(&cluster), "2 node-1, 3 node-5");
    cluster.delete("p");
    cluster.settle(true);
    assert_eq!(held(&cluster), "2 node-1 Unseen, 3 node-5 Unseen");
    cluster.remove_node("node-1");
    cluster.settle(true);
    assert_eq!(held(&cluster), "3 node-5 Unseen");
}

#[test]
fn an_edit_of_the_pool_moves_only_nodes_outside_of_it() {
    let mut cluster = with(2, "192.0.2.1-192.0.2.9");
    report(&mut cluster, "node-0", &["192.0.2.1"]);
    let pool = policy("192.0.2.2-192.0.2.9")["addressPools"].clone();
    cluster.merge("p", "addressPools", pool);
    cluster.settle(true);
    assert_eq!(held(&cluster), "1 node-0 Seen, 2 node-1, 3 node-0");
    let granted = &cluster.enactments["node-0.p"]["spec"]["granted"]["values"];
    assert_eq!(granted["pools"]["a"]["ip"], "192.0.2.3");
    report(&mut cluster, "node-0", &["192.0.2.3"]);
    cluster.settle(true);
    assert_eq!(held(&cluster), "2 node-1, 3 node-0");
}

#[test]
fn an_exhausted_pool_is_reported_and_the_others_go_on() {
    let mut cluster = with(3, "192.0.2.1-192.0.2.2");
    assert_eq!(
        cluster.says("p").1,
        "Policy is progressing 2/3 nodes finished"
    );
    let (reason, message) = problem(&cluster).unwrap();
    assert_eq!(
        (reason.as_str(), message.as_str()),
        (
            "PoolExhausted",
            "node-2: spec.addressPools.a: the range 192.0.2.1-192.0.2.2 has no free address for the node node-2: widen the range, or remove exclusions"
        )
    );
    let waits = &cluster.enactments["node-2.p"]["spec"]["wanted"]["waits"];
    assert_eq!(waits["reason"], "WaitingForAddress");
    let pool = policy("192.0.2.1-192.0.2.3")["addressPools"].clone();
    cluster.merge("p", "addressPools", pool);
    cluster.settle(true);
    assert_eq!(problem(&cluster), None);
    assert_eq!(cluster.says("p").0, "Available");
}

#[test]
fn an_address_of_another_host_is_not_given_away_and_a_later_one_reported() {
    let mut cluster = Cluster::with_nodes(2);
    report(&mut cluster, "node-1", &["192.0.2.1"]);
    cluster.label("node-1", "other");
    cluster.apply("p", policy("192.0.2.1-192.0.2.9"));
    cluster.settle(true);
    assert_eq!(held(&cluster), "2 node-0");
    report(&mut cluster, "node-1", &["192.0.2.2"]);
    cluster.settle(true);
    let (reason, message) = problem(&cluster).unwrap();
    assert_eq!(
        (reason.as_str(), message.as_str()),
        (
            "AddressInUse",
            "node-0: spec.addressPools.a: the node node-1 reports 192.0.2.2, the address of the node node-0: remove it from node-1, or add it to exclude, so that node-0 gets another one"
        )
    );
    assert_eq!(
        cluster.enactments["node-0.p"]["spec"]["wanted"]["decision"], "Granted",
        "a node that has it keeps it"
    );
}

#[test]
fn a_lost_ledger_is_made_from_the_grants() {
    let mut cluster = with(3, "192.0.2.1-192.0.2.9");
    cluster.remove_node("node-0");
    cluster.settle(true);
    cluster.ledger = Ledger::default();
    cluster.add_node("node-0");
    cluster.settle(true);
    assert_eq!(held(&cluster), "1 node-0, 2 node-1, 3 node-2");
}

#[test]
fn two_policies_never_share_an_address() {
    let mut cluster = with(2, "192.0.2.1-192.0.2.3");
    cluster.apply("q", policy("192.0.2.1-192.0.2.9"));
    cluster.settle(true);
    assert_eq!(held(&cluster), "1 node-0, 2 node-1, 3 node-0, 4 node-1");
}
