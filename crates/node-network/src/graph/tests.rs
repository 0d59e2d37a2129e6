#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Known, graph,
    model::{Change, Health, Kind, LinkKind, NodeGraph, OWN},
    pods::{self, Networks},
    policies::OnNode,
};
use crate::{plan::Node, rollout::Policy};

/// A state with a secret in each place that can hold one.
fn planted() -> Value {
    serde_saphyr::from_str(include_str!("../../../plan/tests/planted.yaml")).unwrap()
}

/// A node with everything that a picture shows.
fn report() -> Value {
    json!({
        "interfaces": [
            {"name": "lo", "type": "loopback", "state": "up", "ipv4": {"enabled": true, "address": [{"ip": "127.0.0.1", "prefix-length": 8}]}},
            {"name": "eth0", "type": "ethernet", "state": "up", "mtu": 1500, "mac-address": "02:00:00:00:00:01",
                "ipv4": {"enabled": true, "dhcp": true, "address": [{"ip": "192.0.2.10", "prefix-length": 24}]},
                "ipv6": {"enabled": true, "autoconf": true, "address": [{"ip": "fe80::1", "prefix-length": 64}, {"ip": "2001:db8::10", "prefix-length": 64}]},
                "lldp": {"enabled": true, "neighbors": [[
                    {"type": 1, "chassis-id": "00:00:5E:00:53:01", "chassis-id-type": 4, "_description": "MAC address"},
                    {"type": 2, "port-id": "Ethernet1/1", "port-id-type": 5, "_description": "Interface name"},
                    {"type": 5, "system-name": "leaf-1"}
                ]]}},
            {"name": "eth1", "type": "ethernet", "state": "up", "mtu": 9000, "controller": "bond0",
                "lldp": {"enabled": true, "neighbors": [[{"type": 1, "chassis-id": "00:00:5E:00:53:02"}, {"type": 2, "port-id": "7"}]]}},
            {"name": "eth2", "type": "ethernet", "state": "down", "mtu": 9000, "controller": "bond0"},
            {"name": "bond0", "type": "bond", "state": "up", "mtu": 9000, "link-aggregation": {"mode": "802.3ad", "port": ["eth1", "eth2"]}},
            {"name": "bond0.100", "type": "vlan", "state": "up", "mtu": 1400, "vlan": {"base-iface": "bond0", "id": 100}},
            {"name": "br1", "type": "linux-bridge", "state": "up", "mtu": 9000,
                "ipv4": {"enabled": true, "address": [{"ip": "10.1.0.1", "prefix-length": 24}]},
                "bridge": {"port": [
                    {"name": "bond0.100", "vlan": {"mode": "trunk", "trunk-tags": [{"id-range": {"min": 2, "max": 4094}}]}},
                    {"name": "veth12ab", "vlan": {"mode": "access", "tag": 7}}
                ]}},
            {"name": "br-ex", "type": "ovs-bridge", "state": "up", "bridge": {"port": [{"name": "br-ex"}, {"name": "gone"}]}},
            {"name": "br-ex", "type": "ovs-interface", "state": "up", "controller": "br-ex"}
        ],
        "routes": {"running": [
            {"destination": "0.0.0.0/0", "next-hop-interface": "eth0", "next-hop-address": "192.0.2.1", "metric": 100, "table-id": 254},
            {"destination": "10.2.0.0/16", "next-hop-interface": "br1", "next-hop-address": "10.1.0.254", "table-id": 100}
        ], "config": [
            {"destination": "10.2.0.0/16", "next-hop-interface": "br1", "next-hop-address": "10.1.0.254", "table-id": 100},
            {"destination": "10.4.0.0/16", "next-hop-interface": "eth2", "next-hop-address": "192.0.2.9"}
        ]},
        "dns-resolver": {"running": {"server": ["192.0.2.53"], "search": []}}
    })
}

fn policies() -> BTreeMap<String, Value> {
    let policy =
        |desired: Value| json!({"metadata": {"generation": 1}, "spec": {"desiredState": desired}});
    [
        ("bond", policy(json!({"interfaces": [{"name": "bond0", "type": "bond", "state": "up", "mtu": 9000, "link-aggregation": {"mode": "802.3ad", "port": ["eth1", "eth2"]}}]}))),
        ("vlan", policy(json!({"interfaces": [{"name": "bond0.100", "type": "vlan", "state": "up", "mtu": 9000, "vlan": {"base-iface": "bond0", "id": 100}}]}))),
        ("route", policy(json!({"routes": {"config": [
            {"destination": "10.2.0.0/16", "next-hop-interface": "br1", "next-hop-address": "10.1.0.254", "table-id": 100},
            {"destination": "10.3.0.0/16", "next-hop-interface": "br1", "next-hop-address": "10.1.0.254"}
        ]}}))),
        ("storage", policy(json!({"interfaces": [{"name": "bond0.200", "type": "vlan", "state": "up", "vlan": {"base-iface": "bond0", "id": 200}}]}))),
    ]
    .into_iter()
    .map(|(name, mut policy)| {
        policy["metadata"]["name"] = name.into();
        (name.to_owned(), policy)
    })
    .collect()
}

/// An enactment as kubernetes-nmstate writes it, of the policy's generation.
fn enactment(policy: &str, condition: &str, message: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("node-1.{policy}"), "uid": policy,
            "labels": {"nmstate.io/policy": policy, "nmstate.io/node": "node-1"}
        },
        "status": {"policyGeneration": 1, "conditions": [{"type": condition, "status": "True", "message": message}]}
    })
}

fn pod(name: &str, networks: &Value) -> Value {
    json!({
        "metadata": {"namespace": "default", "name": name, "annotations": {pods::STATUS_ANNOTATION: networks.to_string()}},
        "spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}
    })
}

/// Makes the picture of `node-1` with this report.
fn picture(
    report: Value,
    policies: &BTreeMap<String, Value>,
    enactments: &[Value],
    pods: &[Value],
    definitions: &[Value],
) -> NodeGraph {
    let specs = policies
        .iter()
        .map(|(name, policy)| {
            (
                name.clone(),
                serde_json::from_value(policy["spec"].clone()).unwrap(),
            )
        })
        .collect();
    let reports: Vec<OnNode> = policies
        .iter()
        .flat_map(|(name, policy)| {
            let policy = Policy::of(policy);
            enactments
                .iter()
                .filter_map(move |enactment| OnNode::read(name, &policy, enactment))
        })
        .collect();
    let mut networks = Networks::default();
    definitions
        .iter()
        .for_each(|definition| networks.add(definition));
    let node = Node {
        name: "node-1".to_owned(),
        current: report,
        ..Node::default()
    };
    let pods: Vec<_> = pods.iter().flat_map(pods::interfaces).collect();
    graph(&Known {
        node: &node,
        policies: &specs,
        reports: &reports,
        pods: &pods,
        networks: &networks,
    })
}

fn whole() -> NodeGraph {
    let enactments = [
        enactment("bond", "Available", ""),
        enactment("vlan", "Available", ""),
        enactment("route", "Progressing", ""),
        enactment(
            "storage",
            "Failing",
            "interfaces[bond0.200]: no such device",
        ),
    ];
    let definition = json!({
        "metadata": {"namespace": "default", "name": "tenant"},
        "spec": {"config": "{\"type\": \"bridge\", \"bridge\": \"br1\", \"vlan\": 7}"}
    });
    let on_tenant = json!([
        {"name": "cbr0", "interface": "eth0", "ips": ["10.244.0.5"], "default": true},
        {"name": "default/tenant", "interface": "net1", "ips": ["10.9.0.5"], "mac": "02:00:00:00:01:01"}
    ]);
    let by_address = json!([{"name": "cbr0", "interface": "eth0", "ips": ["10.1.0.7"]}]);
    let host = json!({
        "metadata": {"namespace": "default", "name": "on-host"},
        "spec": {"nodeName": "node-1", "hostNetwork": true}, "status": {"podIPs": [{"ip": "192.0.2.10"}]}
    });
    picture(
        report(),
        &policies(),
        &enactments,
        &[pod("web", &on_tenant), pod("db", &by_address), host],
        &[definition],
    )
}

#[test]
fn a_picture_has_all_parts_from_the_switch_to_the_pods() {
    insta::assert_yaml_snapshot!(whole());
}

#[test]
fn colours_follow_the_progress_of_the_policies_behind_a_part() {
    let whole = whole();
    let health = |id: &str| whole.part(id).map(|part| part.health);
    assert_eq!(
        health("interface/bond0"),
        Some(Health::Good),
        "applied, and so"
    );
    assert_eq!(
        health("interface/bond0.100"),
        Some(Health::Drift),
        "applied, and not so any more"
    );
    assert_eq!(
        health("interface/bond0.200"),
        Some(Health::Failed),
        "the policy has failed"
    );
    assert_eq!(
        health("route/10.3.0.0/16 via 10.1.0.254 dev br1"),
        Some(Health::Pending)
    );
    assert_eq!(
        health("route/10.2.0.0/16 via 10.1.0.254 dev br1 table 100"),
        Some(Health::Good)
    );
    assert_eq!(whole.health, Health::Failed);
    let unapplied = picture(report(), &policies(), &[], &[], &[]);
    assert_eq!(
        unapplied.health,
        Health::Pending,
        "no agent has reported the policies"
    );
    assert_eq!(
        picture(report(), &BTreeMap::new(), &[], &[], &[]).health,
        Health::Good
    );
}

#[test]
fn the_property_where_a_policy_failed_is_marked_after_a_rollback() {
    let policy = json!({
        "metadata": {"name": "mtu", "generation": 1},
        "spec": {"desiredState": {"interfaces": [{"name": "eth0", "type": "ethernet", "state": "up"}]}}
    });
    let mut failed = enactment("mtu", "Failing", "long");
    failed["status"]["outcome"] =
        json!({"path": "interfaces[eth0].mtu", "message": "out of reach"});
    let picture = picture(
        report(),
        &[("mtu".to_owned(), policy)].into(),
        &[failed],
        &[],
        &[],
    );
    let eth0 = picture.part("interface/eth0").unwrap();
    assert_eq!(
        (eth0.health, &*eth0.messages),
        (Health::Failed, &["out of reach".to_owned()][..])
    );
}

#[test]
fn the_own_wishes_of_a_node_are_an_owner_as_well() {
    let node = Node {
        name: "node-1".to_owned(),
        current: report(),
        own: Some(
            json!({"interfaces": [{"name": "eth0", "type": "ethernet", "state": "up", "mtu": 1400}]}),
        ),
        ..Node::default()
    };
    let picture = graph(&Known {
        node: &node,
        policies: &BTreeMap::new(),
        reports: &[],
        pods: &[],
        networks: &Networks::default(),
    });
    let eth0 = picture.part("interface/eth0").unwrap();
    assert_eq!(
        (
            eth0.health,
            eth0.policies.iter().map(String::as_str).collect()
        ),
        (Health::Drift, vec![OWN])
    );
}

#[test]
fn an_incomplete_report_lacks_no_interface() {
    let node = Node {
        name: "node-1".to_owned(),
        current: json!({"interfaces": []}),
        own: Some(json!({"interfaces": [{"name": "eth0", "type": "ethernet", "state": "up"}]})),
        partial: true,
        ..Node::default()
    };
    let picture = graph(&Known {
        node: &node,
        policies: &BTreeMap::new(),
        reports: &[],
        pods: &[],
        networks: &Networks::default(),
    });
    assert_eq!(
        (picture.health, picture.parts.len()),
        (Health::Unknown, 0),
        "{picture:?}"
    );
}

#[test]
fn the_clients_of_both_families_have_different_names() {
    let current = json!({"interfaces": [{
        "name": "eth3", "type": "ethernet", "state": "up",
        "ipv4": {"enabled": true, "dhcp": true, "address": []},
        "ipv6": {"enabled": true, "dhcp": true, "autoconf": true, "address": []}
    }]});
    let picture = picture(current, &BTreeMap::new(), &[], &[], &[]);
    let facts = &picture.part("interface/eth3").unwrap().facts;
    let words: Vec<String> = facts.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["up", "DHCPv4", "DHCPv6", "autoconf"]);
}

#[test]
fn both_ends_of_a_pair_make_one_link() {
    let pair = json!({"interfaces": [
        {"name": "v0", "type": "veth", "state": "up", "veth": {"peer": "v1"}},
        {"name": "v1", "type": "veth", "state": "up", "veth": {"peer": "v0"}}
    ]});
    let picture = picture(pair, &BTreeMap::new(), &[], &[], &[]);
    assert_eq!(
        picture
            .links
            .iter()
            .map(|link| link.kind)
            .collect::<Vec<_>>(),
        [LinkKind::Peer]
    );
}

#[test]
fn finished_pods_and_unreadable_annotations_have_no_interface() {
    let mut finished = pod("job", &json!([{"name": "a", "interface": "eth0"}]));
    finished["status"]["phase"] = "Succeeded".into();
    let mut broken = pod("odd", &json!(null));
    broken["metadata"]["annotations"][pods::STATUS_ANNOTATION] = "{".into();
    let picture = picture(json!({}), &BTreeMap::new(), &[], &[finished, broken], &[]);
    assert_eq!(picture.count(Kind::Pod), 0);
}

/// The picture with one policy, which no agent has tried yet.
fn planned(desired: &Value) -> NodeGraph {
    let policy =
        json!({"metadata": {"name": "next", "generation": 1}, "spec": {"desiredState": desired}});
    picture(
        report(),
        &[("next".to_owned(), policy)].into(),
        &[],
        &[],
        &[],
    )
}

#[test]
fn changes_of_a_policy_that_no_agent_has_tried_are_marked() {
    let picture = planned(&json!({
        "interfaces": [
            {"name": "br9", "type": "linux-bridge", "state": "up", "mtu": 1400, "bridge": {"port": []}},
            {"name": "bond0", "type": "bond", "state": "up", "mtu": 1500},
            {"name": "br1", "type": "linux-bridge", "state": "up", "ipv4": {"enabled": true, "address": []}},
            {"name": "bond0.100", "type": "vlan", "state": "absent"},
            {"name": "eth0", "type": "ethernet", "state": "up", "ipv4": {"enabled": true, "address": []}}
        ],
        "routes": {"config": [{"destination": "10.3.0.0/16", "next-hop-interface": "br1", "next-hop-address": "10.1.0.254"}]}
    }));
    let change = |id: &str| {
        let part = picture.part(id).unwrap();
        (part.health, part.change)
    };
    for (id, wanted) in [
        ("interface/br9", Change::Added),
        ("interface/bond0", Change::Changed),
        // An apply clears the addresses, which would be no drift.
        ("interface/br1", Change::Changed),
        ("interface/bond0.100", Change::Removed),
        ("route/10.3.0.0/16 via 10.1.0.254 dev br1", Change::Added),
    ] {
        assert_eq!(change(id), (Health::Pending, Some(wanted)), "{id}");
    }
    // Its address can be that of the client of DHCP, which keeps it.
    assert_eq!(change("interface/eth0"), (Health::Good, None));
    assert_eq!(change("interface/eth1"), (Health::Good, None));
    let added = picture.part("interface/br9").unwrap();
    assert_eq!(added.messages, ["wanted: up, MTU 1400", "is missing"]);
}

#[test]
fn drift_and_failures_are_no_changes_to_come() {
    let whole = whole();
    for id in ["interface/bond0.100", "interface/bond0.200"] {
        assert_eq!(whole.part(id).unwrap().change, None, "{id}");
    }
}

#[test]
fn a_part_that_the_host_would_refuse_is_marked_as_failed() {
    let bridge = json!({"name": "br9", "type": "linux-bridge", "state": "up", "bridge": {"port": [{"name": "eth99"}]}});
    let picture = planned(&json!({"interfaces": [bridge]}));
    let part = picture.part("interface/br9").unwrap();
    let refusal = "bridge.port[eth99]: there is no interface eth99, and none is wanted";
    assert_eq!((part.health, part.change), (Health::Failed, None));
    assert!(
        part.messages.iter().any(|message| message == refusal),
        "{part:?}"
    );
    let policy = &picture.policies[0];
    assert_eq!((policy.health, policy.state), (Health::Failed, "refused"));
    assert!(policy.messages[0].ends_with(refusal), "{policy:?}");
}

/// A few names, so that generated interfaces refer to each other, to themselves and to nothing.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "eth0",
        "eth1",
        "bond0",
        "br0",
        "v0",
        "none",
        "ü \"<&>\u{1b}",
    ])
    .prop_map(str::to_owned)
}

fn interface() -> impl Strategy<Value = Value> {
    let kinds = vec![
        "ethernet",
        "bond",
        "linux-bridge",
        "ovs-bridge",
        "ovs-interface",
        "vlan",
        "veth",
        "loopback",
        "",
    ];
    let states = vec!["up", "down", "ignore", "absent"];
    (
        name(),
        prop::sample::select(kinds),
        prop::sample::select(states),
        prop::collection::vec(name(), 0..3),
        name(),
        name(),
        prop::option::of(name()),
    )
        .prop_map(|(name, kind, state, ports, base, controller, switch)| {
            let objects: Vec<_> = ports.iter().map(|port| json!({"name": port})).collect();
            json!({
                "name": name, "type": kind, "state": state, "controller": controller,
                "link-aggregation": {"port": ports}, "bridge": {"port": objects},
                "vlan": {"base-iface": base, "id": 1}, "veth": {"peer": base},
                "lldp": {"neighbors": [[{"system-name": switch}]]}
            })
        })
}

fn route() -> impl Strategy<Value = Value> {
    (name(), prop::sample::select(vec!["0.0.0.0/0", "10.0.0.0/8", "odd", ""]))
        .prop_map(|(interface, destination)| json!({"destination": destination, "next-hop-interface": interface}))
}

proptest! {
    #[test]
    fn no_state_leads_to_a_dangling_link(
        reported in prop::collection::vec(interface(), 0..8),
        running in prop::collection::vec(route(), 0..4),
        wanted in prop::collection::vec((name(), 1000u32..2000), 0..4),
        network in name(),
    ) {
        let wanted: Vec<_> = wanted
            .into_iter()
            .map(|(name, mtu)| json!({"name": name, "type": "dummy", "state": "up", "mtu": mtu}))
            .collect();
        let policy = json!({"metadata": {"name": "p", "generation": 1}, "spec": {"desiredState": {"interfaces": wanted}}});
        let definition = json!({
            "metadata": {"namespace": "default", "name": "net"},
            "spec": {"config": json!({"type": "macvlan", "master": network}).to_string()}
        });
        let status = json!([{"name": "default/net", "interface": "net1"}, {"name": "default/net", "interface": "net1"}]);
        let picture = picture(
            json!({"interfaces": reported, "routes": {"running": running}}),
            &[("p".to_owned(), policy)].into(),
            &[],
            &[pod("a", &status)],
            &[definition],
        );
        let ids: BTreeSet<&str> = picture.parts.iter().map(|part| part.id.as_str()).collect();
        prop_assert_eq!(ids.len(), picture.parts.len(), "each part has its own id");
        for link in &picture.links {
            prop_assert!(ids.contains(link.from.as_str()) && ids.contains(link.to.as_str()), "{:?}", link);
            prop_assert_ne!(&link.from, &link.to);
        }
        let worst = picture.parts.iter().map(|part| part.health).chain(picture.policies.iter().map(|policy| policy.health)).max();
        prop_assert!(picture.health >= worst.unwrap_or_default());
    }
}

#[test]
fn no_planted_secret_is_in_a_picture() {
    let wanted = planted();
    let policy = |desired: &Value| json!({"metadata": {"generation": 1, "name": "p"}, "spec": {"desiredState": desired}});
    let policies = BTreeMap::from([("p".to_owned(), policy(&wanted))]);
    // The same in clear, with another value of each.
    let reported: Value = serde_json::from_str(&wanted.to_string().replace("-zz", "-old")).unwrap();
    for report in [report(), reported] {
        let shown = format!("{:?}", picture(report, &policies, &[], &[], &[]));
        assert!(!shown.contains("pl4nted"), "{shown}");
        let harmless = wanted["ovs-db"]["external_ids"]["rack"].as_str().unwrap();
        assert!(
            shown.contains(harmless) && shown.contains("external_ids.ssl_key"),
            "{shown}"
        );
    }
}
