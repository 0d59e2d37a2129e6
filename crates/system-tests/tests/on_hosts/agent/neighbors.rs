//! Cards, and a switch that announces its VLANs to them by LLDP: the agent bonds those of one VLAN,
//! and follows the switch. The frames are real, those of lldpd. `ip -j` is the judge.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};
use weft_testenv::{
    host_lab::{Capability, Host, HostLab, Installation, agent, capabilities},
    wait::wait_within,
};

use crate::on_hosts::agent::support::{link, wait_enactment, wait_policy};

/// The example of the API's first README.
const EXAMPLE: &str =
    include_str!("../../../../../examples/node-network/early/policy-auto-bonding.yaml");
/// The bond that the example makes.
const BOND: &str = "bond101";
/// A port leaves after a minute, and a kernel of `make test-kernels` is slow.
const PATIENCE: Duration = Duration::from_secs(240);

/// Reports whether this machine lacks what the test of this name needs, and says so.
fn is_left_out(test: &str) -> bool {
    let needed = [
        Capability::Link("bond"),
        Capability::Link("vlan"),
        Capability::Lldpd,
    ];
    let lacking = capabilities::lacking(&needed);
    if !lacking.is_empty() {
        capabilities::skip(test, &lacking);
    }
    !lacking.is_empty()
}

/// The example, for cards that are ends of veth pairs.
fn policy() -> String {
    let policy = EXAMPLE.replace("type: ethernet", "type: veth");
    assert_ne!(policy, EXAMPLE);
    policy
}

/// A state in which the cards listen.
fn listening() -> Value {
    let cards = ["eth1", "eth2", "eth3"].map(
        |name| json!({"name": name, "type": "ethernet", "state": "up", "lldp": {"enabled": true}}),
    );
    json!({ "interfaces": cards })
}

/// The ports of the bond, by `ip`.
async fn ports(host: &Host) -> BTreeSet<String> {
    let shown = host
        .exec(&["ip", "-j", "link", "show", "master", BOND])
        .await;
    let links: Value = serde_json::from_str(&shown.unwrap_or_default()).unwrap_or_default();
    let links = links.as_array().into_iter().flatten();
    links
        .filter_map(|link| link["ifname"].as_str().map(str::to_owned))
        .collect()
}

fn names(ports: &[&str]) -> BTreeSet<String> {
    ports.iter().map(|&port| port.to_owned()).collect()
}

async fn wait_ports(host: &Host, wanted: &[&str]) {
    let what = format!("{BOND} has the ports {wanted:?}");
    wait_within(PATIENCE, &what, async || {
        let ports = ports(host).await;
        if ports == names(wanted) {
            Ok(())
        } else {
            Err(format!("{ports:?}"))
        }
    })
    .await;
}

/// Waits until the bond has this mode, and the VLAN on top.
async fn wait_bond(host: &Host, mode: &str) {
    wait_within(
        PATIENCE,
        &format!("{BOND} is {mode} with its VLAN"),
        async || {
            let (bond, vlan) = (link(host, BOND).await, link(host, "bond101.101").await);
            let is_so = bond["linkinfo"]["info_data"]["mode"] == mode
                && vlan["linkinfo"]["info_data"]["id"] == 101
                && vlan["link"] == BOND;
            is_so.then_some(()).ok_or(format!("{bond:#}\n{vlan:#}"))
        },
    )
    .await;
}

/// Waits until the bond has negotiated an aggregation of two ports with the switch.
async fn wait_partner(host: &Host) {
    wait_within(PATIENCE, "the switch is the bond's partner", async || {
        let bond = link(host, BOND).await["linkinfo"]["info_data"].clone();
        let aggregator = &bond["ad_info"];
        let partner = aggregator["partner_mac"].as_str().unwrap_or_default();
        let has_partner = !["", "00:00:00:00:00:00"].contains(&partner);
        if bond["mode"] == "802.3ad" && has_partner && aggregator["num_ports"] == 2 {
            Ok(())
        } else {
            Err(format!("{bond:#}"))
        }
    })
    .await;
}

/// On a host without a cluster, by the agent's commands.
#[tokio::test]
async fn commands_bond_the_cards_of_one_vlan_as_their_neighbors_announce_it() {
    if is_left_out("commands_bond_the_cards_of_one_vlan_as_their_neighbors_announce_it") {
        return;
    }
    let hosts = HostLab::builder()
        .hosts(1)
        .cards(4)
        .start_hosts()
        .await
        .unwrap();
    let host = hosts.host("node-1").unwrap();
    let switch = hosts.switch().unwrap();
    let program = agent::program().unwrap().display().to_string();
    let run = async |command: &str, document: &str| {
        std::fs::write(host.file("/run/document.yaml"), document).unwrap();
        let line = format!(
            "{program} --probe-seconds 20 {command} -f /run/document.yaml 2>&1; echo exit code $?"
        );
        host.exec(&["sh", "-c", &line]).await.unwrap()
    };
    // Plans until the plan has all of this, and then applies.
    let apply_once = async |plan: &[&str]| {
        wait_within(PATIENCE, &format!("the plan has {plan:?}"), async || {
            let printed = run("plan", &policy()).await;
            match plan.iter().find(|part| !printed.contains(*part)) {
                None => Ok(()),
                Some(part) => Err(format!("{part} is missing: {printed}")),
            }
        })
        .await;
        let applied = run("apply", &policy()).await;
        assert!(applied.ends_with("exit code 0\n"), "{applied}");
    };

    let applied = run("apply", &listening().to_string()).await;
    assert!(applied.ends_with("exit code 0\n"), "{applied}");
    switch.add_vlan(host, 1, 101).unwrap();
    switch.add_vlan(host, 2, 101).unwrap();
    switch.add_vlan(host, 3, 102).unwrap();
    apply_once(&[
        "eth1 joins bond101: switch-1",
        "eth2 joins bond101: switch-1",
        "eth3 does not join: its neighbor does not announce VLAN 101",
    ])
    .await;
    wait_ports(host, &["eth1", "eth2"]).await;
    wait_bond(host, "active-backup").await;

    // The switch aggregates: so does the host.
    switch.aggregate(host, &[1, 2], 101).unwrap();
    apply_once(&["eth1 is a port of bond101", "802.3ad"]).await;
    wait_partner(host).await;
    wait_bond(host, "802.3ad").await;
    wait_ports(host, &["eth1", "eth2"]).await;

    switch.add_vlan(host, 3, 101).unwrap();
    apply_once(&["eth3 joins bond101: switch-1"]).await;
    wait_ports(host, &["eth1", "eth2", "eth3"]).await;

    // A port in doubt stays, as these commands keep no time.
    switch.remove_vlan(host, 3, 101).unwrap();
    apply_once(&["eth3 leaves bond101 if its neighbor does not announce the VLAN again"]).await;
    wait_ports(host, &["eth1", "eth2", "eth3"]).await;
}

/// In a cluster, where the agent follows what it hears.
#[tokio::test]
async fn cards_of_one_vlan_are_bonded_and_follow_their_switch() {
    if is_left_out("cards_of_one_vlan_are_bonded_and_follow_their_switch") {
        return;
    }
    let weft = Installation::without_agents(HostLab::builder().hosts(1).cards(4))
        .await
        .unwrap();
    let _agent = weft.run_agent("node-1", &[], &[]).await.unwrap();
    let host = weft.host("node-1").unwrap();
    let switch = weft.lab().switch().unwrap();

    let listen = json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": "listen"}, "spec": {"desiredState": listening()}
    });
    weft.apply(&listen.to_string()).await.unwrap();
    wait_policy(&weft, "listen", "Available").await;

    // Nothing is announced, so there is nothing to bond.
    weft.apply(&policy()).await.unwrap();
    wait_enactment(&weft, "node-1", "auto-bonding-policy", "Available").await;
    assert!(link(host, BOND).await.is_null());

    switch.add_vlan(host, 1, 101).unwrap();
    switch.add_vlan(host, 2, 101).unwrap();
    switch.add_vlan(host, 3, 102).unwrap();
    wait_ports(host, &["eth1", "eth2"]).await;
    wait_policy(&weft, "auto-bonding-policy", "Available").await;
    wait_bond(host, "active-backup").await;

    // A card joins, and one leaves after a minute of frames without the VLAN.
    switch.add_vlan(host, 3, 101).unwrap();
    wait_ports(host, &["eth1", "eth2", "eth3"]).await;
    switch.remove_vlan(host, 1, 101).unwrap();
    wait_ports(host, &["eth2", "eth3"]).await;

    // A port that hears nothing stays, and so does the last one.
    weft.lab().cable(host, 3, false).unwrap();
    switch.remove_vlan(host, 2, 101).unwrap();
    wait_ports(host, &["eth3"]).await;
    weft.lab().cable(host, 3, true).unwrap();
    switch.remove_vlan(host, 3, 101).unwrap();
    switch.add_vlan(host, 1, 101).unwrap();
    wait_ports(host, &["eth1", "eth3"]).await;
    wait_ports(host, &["eth1"]).await;

    // The switch aggregates: so does the host.
    switch.aggregate(host, &[1, 2], 101).unwrap();
    wait_ports(host, &["eth1", "eth2"]).await;
    wait_partner(host).await;
    wait_bond(host, "802.3ad").await;
}
