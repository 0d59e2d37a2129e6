#![allow(clippy::unwrap_used)]

use super::*;
use crate::path::interface_key;
use proptest::prelude::*;
use serde_json::json;

fn normal(state: &Value) -> Value {
    normalise(state.clone(), &Filter::default(), &BTreeMap::new(), &[]).state
}

fn names(state: &Value) -> Vec<String> {
    entries(&state["interfaces"])
        .iter()
        .map(|interface| interface_key(interface).into_owned())
        .collect()
}

#[test]
fn pods_connections_and_their_routes_are_left_out_and_all_else_stays() {
    let route = |interface: Option<&str>, destination: &str| match interface {
        Some(interface) => json!({"destination": destination, "next-hop-interface": interface}),
        None => json!({"destination": destination, "route-type": "blackhole"}),
    };
    let list = json!([
        route(Some("veth1"), "10.244.0.2/32"),
        route(Some("eth0"), "0.0.0.0/0"),
        route(None, "10.99.0.0/16")
    ]);
    let state = json!({
        "hostname": {"running": "node-a"},
        "dns-resolver": {"running": {"server": ["10.0.0.53"], "options": ["rotate"]}},
        "route-rules": {
            "config": [{"priority": 200, "route-table": 5}, {"priority": 100, "route-table": 6}]
        },
        "routes": {"running": list, "config": list},
        "interfaces": [
            {"name": "veth1", "type": "veth", "state": "ignore"},
            {"name": "veth0", "type": "veth", "state": "up"},
            {"name": "tap0", "type": "tun", "state": "ignore"},
            {"name": "eth0", "type": "ethernet", "state": "up"},
        ],
        "ovs-db": {"external_ids": {"hostname": "node-a"}},
        "ovn": {
            "bridge-mappings": [
                {"localnet": "b", "bridge": "br-b"}, {"localnet": "a", "bridge": "br-a"}
            ]
        },
    });
    let report = normal(&state);
    assert_eq!(names(&report), ["eth0", "tap0", "veth0"]);
    for kind in ["running", "config"] {
        let destinations: Vec<_> = entries(&report["routes"][kind])
            .iter()
            .map(|route| text(&route["destination"]))
            .collect();
        assert_eq!(
            destinations,
            ["0.0.0.0/0", "10.99.0.0/16"],
            "a black hole is nobody's connection"
        );
    }
    for section in ["hostname", "dns-resolver", "ovs-db"] {
        assert_eq!(report[section], state[section]);
    }
    assert_eq!(report["route-rules"]["config"][0]["priority"], 100);
    assert_eq!(report["ovn"]["bridge-mappings"][0]["localnet"], "a");
}

#[test]
fn timers_are_left_out_and_numbers_added() {
    let state = json!({"interfaces": [
        {"name": "br1", "type": "linux-bridge", "state": "up", "bridge": {
            "options": {"gc-timer": 29594, "hello-timer": 46, "mac-ageing-time": 300}
        },
         "ipv4": {
             "enabled": true,
             "address": [
                 {
                     "ip": "10.0.0.5", "prefix-length": 24, "valid-life-time": "3000sec",
                     "preferred-life-time": "3000sec"
                 }
             ]
         }},
        {"name": "br-ex", "type": "ovs-bridge", "state": "up"},
        {"name": "br-ex", "type": "ovs-interface", "state": "up"},
    ]});
    let indexes = BTreeMap::from([("br1".to_owned(), 7), ("br-ex".to_owned(), 9)]);
    let report = normalise(
        state.clone(),
        &Filter::default(),
        &indexes,
        &["ovs".to_owned(), "NetworkManager".to_owned()],
    )
    .state;
    assert_eq!(
        report,
        json!({"capabilities": ["NetworkManager", "ovs"], "interfaces": [
            {"name": "br-ex", "type": "ovs-bridge", "state": "up"},
            {"name": "br-ex", "type": "ovs-interface", "state": "up", "ifIndex": 9},
            {"name": "br1", "type": "linux-bridge", "state": "up", "ifIndex": 7, "bridge": {
                "options": {"mac-ageing-time": 300}
            },
             "ipv4": {"enabled": true, "address": [{"ip": "10.0.0.5", "prefix-length": 24}]}},
        ]})
    );
}

#[test]
fn users_include_and_exclude_by_name() {
    let state = json!({
        "interfaces": [{"name": "eth0"}, {"name": "eth1"}, {"name": "cali12"}],
        "routes": {"running": [{"destination": "10.0.0.0/8", "next-hop-interface": "cali12"}]}
    });
    let with = |include: &[&str], exclude: &[&str]| {
        let owned = |list: &[&str]| {
            list.iter()
                .map(|text| (*text).to_owned())
                .collect::<Vec<_>>()
        };
        normalise(
            state.clone(),
            &Filter::new(&owned(include), &owned(exclude)).unwrap(),
            &BTreeMap::new(),
            &[],
        )
        .state
    };
    assert_eq!(names(&with(&[], &["cali*"])), ["eth0", "eth1"]);
    assert_eq!(
        entries(&with(&[], &["cali*"])["routes"]["running"]).len(),
        0
    );
    assert_eq!(names(&with(&["eth*"], &["eth1"])), ["eth0"]);
    assert_eq!(names(&with(&[], &[])), ["cali12", "eth0", "eth1"]);
}

#[test]
fn a_report_that_is_too_large_is_cut_in_a_fixed_order() {
    let interface = |index: usize| {
        json!({
            "name": format!("eth{index:03}"), "type": "ethernet", "state": "up", "mtu": 1500,
            "ethtool": {"feature": {"x".repeat(400): true}}, "accept-all-mac-addresses": false
        })
    };
    let state = json!({
        "interfaces": (0..100).map(interface).collect::<Vec<_>>(),
        "routes": {"running": [{"destination": "10.0.0.0/8"}]}
    });
    let with = |budget: usize| {
        normalise(
            state.clone(),
            &Filter::default().budget(budget),
            &BTreeMap::new(),
            &[],
        )
    };
    assert_eq!(with(1_000_000).left_out, Vec::<String>::new());
    let some = with(20_000);
    assert_eq!(some.left_out, ["ethtool of all interfaces"]);
    assert_eq!(some.state["routes"], state["routes"]);
    let few = with(2_000);
    assert_eq!(
        few.left_out.last().unwrap(),
        "68 of 100 interfaces, the last by name"
    );
    assert!(size(&few.state) <= 2_000, "{}", size(&few.state));
    assert!(few.left_out.contains(&"routes.running".to_owned()));
}

proptest! {
    #[test]
    fn a_normalised_state_stays_the_same(
        mut interfaces in prop::collection::vec((prop::sample::select(vec!["eth0", "veth1", "br1"]), prop::sample::select(vec!["ethernet", "veth", "ovs-bridge"]), prop::sample::select(vec!["up", "ignore"])), 0..5),
        routes in prop::collection::vec((prop::sample::select(vec!["eth0", "veth1", ""]), 0..300_u32), 0..6),
        budget in 0..3000_usize,
    ) {
        interfaces.dedup();
        let list: Vec<Value> = interfaces.iter().map(|(name, kind, state)| json!({
            "name": name, "type": kind, "state": state, "ethtool": {"pause": {"rx": true}}
        })).collect();
        let routes: Vec<Value> = routes.iter().map(|(interface, metric)| json!({
            "destination": "0.0.0.0/0", "next-hop-interface": interface, "metric": metric
        })).collect();
        let state = json!({"interfaces": list, "routes": {"running": routes, "config": routes}});
        let filter = Filter::default().budget(budget);
        let indexes = BTreeMap::from([("eth0".to_owned(), 2)]);
        let once = normalise(state.clone(), &filter, &indexes, &["x".to_owned()]);
        let twice = normalise(once.state.clone(), &filter, &indexes, &["x".to_owned()]);
        prop_assert_eq!(&once.state, &twice.state);
        let mut reversed = state.clone();
        reversed["interfaces"].as_array_mut().unwrap().reverse();
        reversed["routes"]["running"].as_array_mut().unwrap().reverse();
        let all = Filter::default();
        let unique = list.iter().map(interface_key).collect::<BTreeSet<_>>().len() == list.len();
        if unique {
            prop_assert_eq!(normalise(state.clone(), &all, &indexes, &[]).state, normalise(reversed, &all, &indexes, &[]).state, "the order of the host's answers does not count");
        }
    }
}
